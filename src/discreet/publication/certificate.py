"""The certificate: the claim, and everything that a stranger needs to recompute it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from discreet.clipping.admission import private_parameters
from discreet.core.errors import PrivacyViolation
from discreet.core.events import to_json
from discreet.core.guarantee import Guarantee
from discreet.plan import Plan
from discreet.randomness import ASSUMPTION as NOISE_ASSUMPTION

FORMAT = "discreet-certificate/1"

SYSTEM_RANDOMNESS = "system"

ASSUMPTIONS = (
    "The state that training starts from (plan.initial_state) and every figure of the plan are public.",
    "Each row of the data set is one unit.",
    NOISE_ASSUMPTION,
    "Sums and noise are computed in float64; what their last digits may tell is not accounted for.",
)
"""What the claim rests on beside its theorem."""


class PublicEvaluation(Protocol):
    """Metrics on data declared public."""

    @property
    def step(self) -> int: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


class TrainedRun(Protocol):
    """What publishing needs to know of a finished run (`discreet.training.Trained` is one)."""

    @property
    def model(self) -> nn.Module: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def run(self) -> str: ...
    @property
    def charged_steps(self) -> int: ...
    @property
    def key(self) -> Path: ...
    @property
    def stream(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def initial(self) -> Mapping[str, str]: ...
    @property
    def evaluations(self) -> Sequence[PublicEvaluation]: ...


def certificate(trained: TrainedRun, guarantee: Guarantee, model_digest: str) -> dict[str, Any]:
    """The content of certificate.json. Refuses what cannot be certified.

    The claim is that of the whole plan, also for a run that was stopped early.
    """
    if trained.stream != SYSTEM_RANDOMNESS:
        raise PrivacyViolation(
            f"the noise came from {trained.stream!r} randomness, which anyone can repeat; "
            "train without the argument `stream` to get a certificate"
        )
    if not guarantee.is_finite:
        raise PrivacyViolation("the plan has no finite epsilon, so there is nothing to certify; use more noise")
    plan = trained.plan
    return {
        "format": FORMAT,
        "claim": {
            "kind": guarantee.kind,
            "epsilon": guarantee.epsilon,
            "lower": guarantee.lower,
            "delta": guarantee.delta,
            "adjacency": guarantee.adjacency.value,
            "unit": guarantee.unit.value,
            "method": guarantee.method,
        },
        "plan": plan.model_dump(mode="json"),
        "plan_fingerprint": plan.fingerprint(),
        "events": to_json(plan.event()),
        "charged_steps": trained.charged_steps,
        "run": trained.run,
        "mechanism": {
            "sampler": plan.sampling.kind,
            "engine": trained.engine,
            "randomness": trained.stream,
        },
        "assumptions": list(ASSUMPTIONS),
        "model": {
            "file": "model.safetensors",
            "sha256": model_digest,
            "private": sorted(private_parameters(trained.model)),
            "initial": dict(sorted(trained.initial.items())),
        },
        "public_evaluations": [
            {"step": evaluation.step, **dict(evaluation.metrics)} for evaluation in trained.evaluations
        ],
        "software": {name: version(name) for name in ("discreet", "torch", "numpy", "scipy")}
        | {"python": platform.python_version()},
    }
