"""The certificate: the claim, and everything that a stranger needs to recompute it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.equal_blocks import shortened
from discreet.certificate.files import FORMAT, software
from discreet.clipping.admission.admission import private_names
from discreet.core import assumptions
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Compose, Event, Repeat, flatten
from discreet.core.events.event_json import from_json, to_json
from discreet.core.guarantee import Guarantee
from discreet.ledger import Entry, public_record, record_digest
from discreet.mechanism import GRID_BITS
from discreet.plan import AdaptivePlan, Plan
from discreet.publication.sensitivity import sensitivity_record

SYSTEM_RANDOMNESS = "system"


class PublicEvaluation(Protocol):
    """Metrics on data declared public."""

    @property
    def step(self) -> int: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


class BoughtMetric(Protocol):
    """A metric on private rows that was paid for."""

    @property
    def step(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def deviation(self) -> float: ...


class Mechanism(Protocol):
    """Names of engine, noise sampler and kind of randomness, with what they assume."""

    @property
    def engine(self) -> str: ...
    @property
    def float_bits(self) -> int | None: ...
    @property
    def noise(self) -> str: ...
    @property
    def randomness(self) -> str: ...
    @property
    def assumptions(self) -> Sequence[str]: ...
    @property
    def lanes(self) -> int | None: ...
    @property
    def sites(self) -> int | None: ...


class TrainedRun(Protocol):
    """The interface of a finished run to publishing (`discreet.training.Trained` implements it)."""

    @property
    def model(self) -> nn.Module: ...
    @property
    def plan(self) -> Plan | AdaptivePlan: ...
    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def charged_steps(self) -> int: ...
    @property
    def mechanism(self) -> Mechanism: ...
    @property
    def secrets(self) -> Sequence[Path]: ...
    @property
    def final(self) -> Mapping[str, str]: ...
    @property
    def initial(self) -> Mapping[str, str]: ...
    @property
    def evaluations(self) -> Sequence[PublicEvaluation]: ...
    @property
    def bought(self) -> Sequence[BoughtMetric]: ...
    @property
    def winner(self) -> Mapping[str, Any] | None: ...
    @property
    def released(self) -> Mapping[str, Tensor]: ...
    @property
    def public(self) -> Mapping[str, Any] | None: ...
    @property
    def canaries(self) -> Mapping[str, Any] | None: ...
    @property
    def warm_start(self) -> Sequence[EarlierRun]: ...
    @property
    def publishes(self) -> bool: ...
    def check_newest(self) -> None: ...


def certificate(
    trained: TrainedRun, guarantee: Guarantee, model_digest: str, base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of certificate.json. Refuses what cannot be certified. `base`: the declared model below adapters.

    The claim is that of the whole plan, even for a run that stopped early. The events of an adaptive run are the
    charged ones.
    """
    mechanism = trained.mechanism
    if mechanism.randomness != SYSTEM_RANDOMNESS:
        raise PrivacyViolation(
            f"the noise came from {mechanism.randomness!r} randomness, which anyone can repeat; "
            "train without the argument `stream` to get a certificate"
        )
    if trained.charged_steps == 0:
        raise PrivacyViolation("no step was taken, so there is nothing to certify")
    if not guarantee.is_finite:
        raise PrivacyViolation("the plan has no finite epsilon, so there is nothing to certify; use more noise")
    plan, record = trained.plan, public_record(trained.entries)
    run = _one_run(plan, trained)
    steps = run.event() if run.policy is None else charged(trained.entries)
    events = steps if run is plan else searched(trained.entries)
    return {
        "format": FORMAT,
        "claim": _claim(guarantee, whole=trained.charged_steps == plan.charges),
        "plan": plan.model_dump(mode="json"),
        "plan_fingerprint": plan.fingerprint(),
        "events": to_json(events),
        "clipping": sensitivity_record(run.clipping, steps, trained.model),
        "charged_steps": trained.charged_steps,
        "ex_post": _ex_post(plan, trained),
        "search": _search(run, trained),
        "ledger": {"entries": shortened(record), "digest": record_digest(record), "head": _head(trained.entries)},
        "mechanism": {
            "sampler": plan.sampling.kind,
            "engine": mechanism.engine,
            "float_bits": mechanism.float_bits,
            "noise": mechanism.noise,
            "grid_bits": GRID_BITS,
            "randomness": mechanism.randomness,
            **({} if mechanism.lanes is None else {"lanes": mechanism.lanes}),
            **({} if mechanism.sites is None else {"sites": mechanism.sites}),
        },
        "assumptions": _assumed(trained, base),
        "model": {
            "file": "model.safetensors",
            "sha256": model_digest,
            "private": sorted(private_names(trained.model)),
            "initial": dict(sorted(trained.initial.items())),
        },
        "public_evaluations": [_evaluation(one) for one in trained.evaluations],
        "bought_metrics": [_bought(one) for one in trained.bought],
        "software": software(),
        **({} if trained.public is None else {"public_batches": dict(trained.public)}),
        **({} if trained.canaries is None else {"canaries": dict(trained.canaries)}),
        **({} if base is None else {"base": dict(base)}),
        **({"warm_start": [asdict(one) for one in trained.warm_start]} if trained.warm_start else {}),
    }


def _assumed(trained: TrainedRun, base: Mapping[str, Any] | None) -> list[str]:
    """The assumptions of the claim beside its theorem, in sentences."""
    plan, mechanism = trained.plan, trained.mechanism
    return [
        *assumptions.general(plan.unit),
        *_of_run(plan),
        *assumptions.public_rows(trained.public),
        *assumptions.canaries(trained.canaries),
        *assumptions.base_model(base),
        *assumptions.warm_start(trained.warm_start),
        *assumptions.clipping(plan.clipping.model_dump(), mechanism.float_bits),
        *assumptions.choices(plan.line_search is not None, mechanism.float_bits),
        *mechanism.assumptions,
        *assumptions.lanes(mechanism.lanes, mechanism.sites),
    ]


def _head(entries: Sequence[Entry]) -> dict[str, Any]:
    """The head of the ledger's hash chain after the last entry of the run; it seals everything charged before."""
    return {"number": entries[-1].number, "seal": entries[-1].hash}


def _claim(guarantee: Guarantee, *, whole: bool) -> dict[str, Any]:
    return {
        "kind": guarantee.kind,
        "epsilon": guarantee.epsilon,
        "lower": guarantee.lower if whole else None,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency.value,
        "unit": guarantee.unit.value,
        "method": guarantee.method,
    }


def _of_run(plan: Plan | AdaptivePlan) -> tuple[str, ...]:
    return assumptions.of_run(
        adaptive=plan.policy is not None,
        metrics=bool(plan.metrics),
        holdout=plan.holdout is not None,
        odometer=plan.odometer is not None,
        search="" if plan.search is None else plan.search.kind,
        before=bool(plan.before),
        individual=plan.sampling.kind == "individual",
    )


def _one_run(plan: Plan | AdaptivePlan, trained: TrainedRun) -> Plan | AdaptivePlan:
    """The plan of the published run: the winner's, if there was a search."""
    if (plan.search is None) != (trained.winner is None):
        raise PrivacyViolation("the settings of a winner go with a plan that searches for them, and only with that")
    if plan.search is None or trained.winner is None:
        return plan
    return plan.search.one_trial(plan, trained.winner)


def _search(run: Plan | AdaptivePlan, trained: TrainedRun) -> dict[str, Any] | None:
    """Facts of a search: the winner's settings, and the cost of the same run without a search."""
    if trained.winner is None:
        return None
    return {"winner": dict(trained.winner), "epsilon_of_one_run": run.guarantee().epsilon}


def _ex_post(plan: Plan | AdaptivePlan, trained: TrainedRun) -> dict[str, Any] | None:
    """The odometer's reading of everything charged, if the plan has one; None stands for an unknown one."""
    if plan.odometer is None:
        return None
    rule = plan.odometer
    said = rule.read(rule.after(rule.start(), charged(trained.entries)))
    return {
        "kind": said.kind,
        "reading": said.epsilon if math.isfinite(said.epsilon) else None,
        "delta": said.delta,
        "adjacency": said.adjacency.value,
        "unit": said.unit.value,
        "method": said.method,
        "charged_steps": trained.charged_steps,
        "sentence": said.sentence,
    }


def _evaluation(one: PublicEvaluation) -> dict[str, Any]:
    """Public metrics at a step, without those that are not finite, which JSON cannot hold."""
    return {"step": one.step} | {name: value for name, value in one.metrics.items() if math.isfinite(value)}


def _bought(one: BoughtMetric) -> dict[str, Any]:
    return {"step": one.step, "metric": one.metric, "value": one.value, "standard_deviation": one.deviation}


def searched(entries: Sequence[Entry]) -> Event:
    """The event of the whole search that was reserved."""
    (reserved,) = (from_json(entry.content) for entry in entries if entry.kind == "reservation")
    return reserved


def charged(entries: Sequence[Entry]) -> Compose:
    """All reserved events in order, equal neighbours as one repetition."""
    parts = [part for entry in entries if entry.kind == "reservation" for part in flatten(from_json(entry.content))]
    runs = [(event, sum(n for _, n in group)) for event, group in itertools.groupby(parts, key=lambda part: part[0])]
    return Compose(tuple(Repeat(event, count) for event, count in runs))
