"""Runs on tiny data that several processes take together, for `test_shared_runs`.

torchrun --nproc-per-node 2 shared_runs.py FOLDER          prints {case: digest of all weights}
torchrun --nproc-per-node 2 shared_runs.py FOLDER CASE...
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import CLASSES, FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import nn
from ways import SAMPLINGS, WAYS, scales

from discreet.clipping import ENGINES
from discreet.clipping.geometry import Fixed
from discreet.clipping.separation import KnownResults
from discreet.core.release import Release
from discreet.plan import Metric, Plan
from discreet.randomness import NOISE_SAMPLERS
from discreet.training import StopTraining, Told, Training
from discreet.training import step as step_module
from discreet.training.preflight.engine_check import CHECKED, Preflight

ROWS, USERS, LANES = 24, 6, 12
WHOSE = np.arange(ROWS) % USERS
REPEATED = ("poisson", "fixed", "none", "cyclic")

KNOWN: KnownResults[Preflight] = KnownResults(64)
"""Engines that were checked with one model, loss and clip are not checked again with other data or another sampler."""

Case = Callable[[Path, dict[str, Any]], Training]


def deep(dropout: float = 0.0) -> nn.Module:
    """Two layers, with dropout between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(FEATURES, 40), nn.Tanh(), nn.Dropout(dropout), nn.Linear(40, CLASSES))


def training(folder: Path, shared: dict[str, Any], **changes: Any) -> Training:
    """A tiny training in chunks of five rows; `shared`: how processes share it, nothing for one process as ever."""
    model = changes.pop("model", None) or deep()
    return tiny_training(folder, **({"model": model, "physical_batch": 5, "engine": "bookkeeping"} | shared | changes))


def with_engine(engine: str, noise: str) -> Case:
    return lambda folder, shared: training(folder, shared, engine=engine, noise=noise)


def with_sampling(name: str, unit: str) -> Case:
    def case(folder: Path, shared: dict[str, Any]) -> Training:
        units = ROWS if unit == "example" else USERS
        sampling = SAMPLINGS[name](units)
        plan = Plan.make(
            sampling,
            population=units,
            steps=sampling.sampler(units).period * (3 if name in REPEATED else 1),
            clip_norm=0.7,
            delta=1e-5,
            noise_multiplier=1.5,
            adjacency=sampling.ADJACENCIES[0],
            unit=unit,
            rows_per_unit=1 if unit == "example" else 2,
        )
        given = None if unit == "example" else WHOSE
        return training(folder, shared, plan=plan, units=given)

    return case


def with_clipping(way: str) -> Case:
    def case(folder: Path, shared: dict[str, Any]) -> Training:
        model = linear()
        plan = tiny_plan(clip_norm=None, clipping=WAYS[way])
        geometry = Fixed(scales(model)) if plan.clipping.kind in ("ellipsoid", "box") else None
        return training(folder, shared, plan=plan, model=model, geometry=geometry)

    return case


def with_dropout(engine: str) -> Case:
    return lambda folder, shared: training(folder, shared, model=deep(0.4), engine=engine)


def with_metrics(folder: Path, shared: dict[str, Any]) -> Training:
    """A run that buys a metric and evaluates on public rows."""
    plan = tiny_plan(metrics=(Metric(kind="accuracy", noise=20.0, every=2),))
    return training(folder, shared, plan=plan, public_test=blobs(9, seed=1))


def with_an_end(folder: Path, shared: dict[str, Any]) -> Training:
    """A run that a callback ends early; of several processes the first has callbacks."""

    def end(told: Told) -> None:
        if told.step == 4:
            raise StopTraining

    made = training(folder, shared)
    made.run = partial(made.run, callbacks=[end])  # type: ignore[method-assign]
    return made


CASES: dict[str, Case] = {
    **{f"{engine}, {noise} noise": with_engine(engine, noise) for engine in ENGINES for noise in NOISE_SAMPLERS},
    **{f"{name}, {unit}": with_sampling(name, unit) for name in SAMPLINGS for unit in ("example", "user")},
    **{f"{way} clipping": with_clipping(way) for way in WAYS},
    **{f"dropout, {engine}": with_dropout(engine) for engine in ("bookkeeping", "ghost", "vmap", "exact")},
    "metrics": with_metrics,
    "an early end": with_an_end,
}


def digest_of(case: Case, folder: Path, shared: dict[str, Any]) -> tuple[str, Training]:
    """A digest of the weights after every step and of what was bought."""
    with CHECKED.in_(KNOWN):
        made, found, steps = case(folder, shared), hashlib.sha256(), [0]
    real = step_module.apply

    def noted(release: Release, parameters: dict[str, nn.Parameter], *rest: Any) -> None:
        real(release, parameters, *rest)
        steps[0] += 1
        for parameter in parameters.values():
            found.update(parameter.detach().cpu().numpy().tobytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "apply", noted)
        trained = made.run()
    found.update(repr([(one.step, one.value) for one in trained.bought]).encode())
    assert steps[0] > 0
    return found.hexdigest()[:16], made


def main(folder: Path, names: list[str]) -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    found = {}
    for number, name in enumerate(names or CASES):
        shared = {"shard": "replicate", "lanes": LANES}
        found[name], made = digest_of(CASES[name], folder / str(number), shared)
    if made.team.first:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
