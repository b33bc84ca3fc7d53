"""A published folder of every kind of run, on tiny problems: what verifiers must accept, and a forger starts from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from adaptive_runs import adaptive
from agd_runs import agd_training
from first_runs import COMPONENTS, first_plan, first_run
from people import SHUFFLED, user_plan
from problems import CLASSES, FEATURES, blobs, certified_run, tiny_plan, tiny_training
from searches import parts_tuning, tuning
from torch import Tensor, nn

from discreet import publish
from discreet.clipping import private_parameters
from discreet.clipping.geometry import Fixed
from discreet.data import Sites
from discreet.plan import (
    AllocationSampling,
    Counts,
    CyclicPoissonSampling,
    FixedSizeSampling,
    IndividualSampling,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
    ValidationDecay,
)
from discreet.training import PublicBatches, Trained


class Tied(nn.Module):
    """Two layers that share a weight, and one more."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


CLIPPINGS: dict[str, Any] = {
    "flat": {"kind": "flat", "norm": 1.0},
    "scheduled": {"kind": "scheduled", "phases": [{"norm": 2.0, "steps": 3}, {"norm": 0.5, "steps": 4}]},
    "automatic": {"kind": "automatic"},
    "per_layer": {"per_layer": 0.5},
    "groups": {"groups": {"head.*": 1.0, "[fs]*": 0.5}},
    "adaptive": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 6.0},
    "ellipsoid": {"kind": "ellipsoid"},
    "box": {"kind": "box"},
}

METRICS = [
    Metric(noise=9.0, every=3, rows="holdout"),
    Metric(kind="size", noise=9.0, rows="holdout"),
    Metric(kind="loss", noise=12.0, bound=2.0, every=5),
]


def clipped(folder: Path, name: str) -> Trained:
    """A run that clips in this way."""
    torch.manual_seed(1)
    model = Tied()
    shapes = {key: torch.ones_like(one) for key, one in private_parameters(model).items()}
    return tiny_training(
        folder,
        model=model,
        plan=tiny_plan(clip_norm=None, clipping=CLIPPINGS[name]),
        geometry=Fixed(shapes) if name in ("ellipsoid", "box") else None,
        engine="exact",
        stream=None,
    ).run(progress=False)


def _sampled(sampling: Any, steps: int = 8, **changes: Any) -> Callable[[Path], Trained]:
    def run(folder: Path) -> Trained:
        settings = {"population": 24, "steps": steps, "delta": 1e-5, "clip_norm": 1.0, "noise_multiplier": 2.0}
        return certified_run(folder, plan=Plan.make(sampling, **(settings | changes)))

    return run


def _planned(**changes: Any) -> Callable[[Path], Trained]:
    return lambda folder: certified_run(folder, plan=tiny_plan(**changes))


def _filtered(sampling: Any = None, **changes: Any) -> Callable[[Path], Trained]:
    def run(folder: Path) -> Trained:
        plan = adaptive(changes.pop("policy", None), sampling, **changes)
        return certified_run(folder, plan=plan, public_validation=blobs(9, seed=2))

    return run


def _clips(name: str) -> Callable[[Path], Trained]:
    return lambda folder: clipped(folder, name)


def _changing_rates(folder: Path) -> Trained:
    changes = {"batches": [(12, 4), (6, 3)], "noise_multiplier": [(1.5, 5), (1.2, 2)]}
    return _sampled(PoissonSampling(rate=0.5), 7, **changes)(folder)


def _at_sites(folder: Path) -> Trained:
    """Independent samplers draw at each site for itself."""
    inputs, targets = blobs()
    rows = {site: (inputs[site::3], targets[site::3]) for site in range(3)}
    return certified_run(folder, data=Sites(rows, 3), shard="replicate", engine="bookkeeping")


KINDS: Mapping[str, Callable[[Path], Trained]] = {
    "poisson": _planned(),
    "rates": _changing_rates,
    "noise phases": _planned(noise_multiplier=[(2.0, 3), (1.2, 4)]),
    "equal blocks": _planned(block=1),
    "truncated": _sampled(TruncatedPoissonSampling(rate=0.5, capacity=29)),
    "fixed size": _sampled(FixedSizeSampling(batch=6), adjacency="replace_one", noise_multiplier=4.0),
    "shuffle": _sampled(ShuffleSampling(batch=6), adjacency="zero_out", noise_multiplier=[(2.0, 6), (3.0, 2)]),
    "allocation": _sampled(AllocationSampling(period=4, chosen=2), adjacency="add_remove", noise_multiplier=3.0),
    "cyclic": _sampled(CyclicPoissonSampling(rate=0.9, coefficients=(64, 40, 33, 27))),
    "individual": _sampled(IndividualSampling(period=4, full=2), noise_multiplier=5.0),
    "none": _sampled(NoSampling(), noise_multiplier=9.0),
    "metrics": _planned(metrics=METRICS, holdout=0.3, adjacency="zero_out"),
    "accuracy": _planned(metrics=[Metric(noise=5.0, every=3, rate=0.5)]),
    "queries": lambda folder: first_run(folder, first_plan()),
    "lanes": lambda folder: certified_run(folder, shard="replicate", lanes=4, engine="bookkeeping"),
    "sites": _at_sites,
    "people": lambda folder: certified_run(folder, plan=user_plan(noise_multiplier=3.0), units=SHUFFLED),
    "public rows": lambda folder: certified_run(folder, public=PublicBatches(*blobs(15, seed=3), weight=0.25)),
    **{f"{name} clipping": _clips(name) for name in CLIPPINGS if name != "flat"},
    "odometer": _planned(odometer="renyi", noise_multiplier=2.0),
    "filter": _filtered(),
    "filter, counts": _filtered(policy=ValidationDecay(metric="count"), counts=Counts(noise=30.0)),
    "filter, rho": _filtered(NoSampling(), noise_multiplier=9.0),
    "filter, epochs": _filtered(ShuffleSampling(batch=6), adjacency="zero_out"),
    "filter, queries": lambda folder: first_run(folder, adaptive(before=[COMPONENTS]), public_test=blobs(9, seed=1)),
    "line search": lambda folder: agd_training(folder, stream=None).run(),
    "search": lambda folder: tuning(folder).run(),
    "parts": lambda folder: parts_tuning(folder, engine="bookkeeping").run(),
}
"""By name."""

REVIEWED = (
    *("poisson", "rates", "noise phases", "fixed size", "shuffle", "allocation", "none", "metrics"),
    *(
        "equal blocks",
        "accuracy",
        "cyclic",
        "individual",
        "queries",
        "lanes",
        "sites",
        "people",
        "public rows",
        "automatic clipping",
        "ellipsoid clipping",
    ),
)
"""Those that verify.py covers."""


def published(folder: Path, name: str) -> Path:
    """The folder that a run of this kind published."""
    publish(KINDS[name](folder / "run"), folder / "out")
    return folder / "out"
