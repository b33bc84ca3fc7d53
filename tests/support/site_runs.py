"""Runs on tiny data at three sites, for `test_site_runs`.

torchrun --nproc-per-node 2 site_runs.py FOLDER CASE...              prints {case: digest of all weights}
torchrun --nproc-per-node 2 site_runs.py FOLDER stage STEPS SHARD    goes on to so many steps; all: prints a digest
torchrun --nproc-per-node 2 site_runs.py FOLDER publish              a run with a secret key, published in FOLDER/model

Process 0 of 2 holds two sites, process 1 the other; 3 processes hold one each.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from problems import blobs, tiny_plan, tiny_training
from shared_runs import USERS, WHOSE, deep, digest_of
from ways import SAMPLINGS, WAYS

from discreet import publish
from discreet.data import Columns, Sites
from discreet.plan import Metric, Plan
from discreet.randomness import TestStream
from discreet.sampling import SAMPLERS
from discreet.training import RunOptions, Training

SITES, STEPS, BLOCK = 3, 6, 2
AT = np.array([0, 1, 0, 2, 2, 1])
"""The site of each user."""

NAMES = np.array([0, 13, 2, 3, 11, 5])
"""The names of users, of whom 13 and 11 are held out where a share of 0.3 is: none at site 0."""

ROWS = {site: np.flatnonzero(AT[WHOSE] == site) for site in range(SITES)}


def held(rank: int, size: int) -> list[int]:
    """The sites that a process of so many holds: of 2 the first holds the last site and the first."""
    return {1: [[0, 1, 2]], 2: [[2, 0], [1]], 3: [[1], [2], [0]]}[size][rank]


def here() -> list[int]:
    """The sites that this process holds."""
    return held(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def site(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = blobs()
    return inputs[ROWS[number]], targets[ROWS[number]]


def sites(numbers: list[int] | None = None) -> Sites:
    return Sites({number: site(number) for number in (here() if numbers is None else numbers)}, SITES)


def training(folder: Path, **changes: Any) -> Training:
    """A tiny training at the sites of this process, in chunks of three rows."""
    return tiny_training(
        folder,
        **{
            "model": deep(),
            "data": sites(),
            "physical_batch": 3,
            "engine": "bookkeeping",
            "shard": "replicate",
            **changes,
        },
    )


def with_sampling(name: str, unit: str) -> Callable[[Path, dict[str, Any]], Training]:
    def case(folder: Path, shared: dict[str, Any]) -> Training:
        units = len(WHOSE) if unit == "example" else USERS
        sampling = SAMPLINGS[name](units)
        plan = Plan.make(
            sampling,
            population=units,
            steps=sampling.sampler(units).period * 3,
            clip_norm=0.7,
            delta=1e-5,
            noise_multiplier=1.5,
            adjacency=sampling.ADJACENCIES[0],
            unit=unit,
            rows_per_unit=1 if unit == "example" else 2,
        )
        given = None if unit == "example" else {number: WHOSE[ROWS[number]] for number in here()}
        return training(folder, plan=plan, units=given, **shared)

    return case


def with_holdout(unit: str) -> Callable[[Path, dict[str, Any]], Training]:
    """A run that buys metrics of rows that it does not learn from."""

    def case(folder: Path, shared: dict[str, Any]) -> Training:
        bought = [Metric(kind="accuracy", noise=20.0, every=2, rows=rows) for rows in ("holdout", "training")]
        plan = tiny_plan(holdout=0.3, metrics=bought)
        if unit == "user":
            plan = tiny_plan(holdout=0.3, metrics=bought, population=USERS, batch=2, unit="user", rows_per_unit=2)
        named = {number: (NAMES[WHOSE] if unit == "user" else np.arange(24))[ROWS[number]] for number in here()}
        return training(folder, plan=plan, **{"units" if unit == "user" else "ids": named})

    return case


def named_columns(folder: Path, shared: dict[str, Any]) -> Training:
    """Rows of tables, which are fetched many at once."""
    import pandas as pd

    def frame(number: int) -> Columns:
        inputs, targets = site(number)
        names = [f"x{i}" for i in range(inputs.shape[1])]
        return Columns(pd.DataFrame(inputs.numpy(), columns=names).assign(y=targets.numpy()), target="y", inputs=names)

    return training(folder, data=Sites({number: frame(number) for number in here()}, SITES))


def rows_by_code(folder: Path, shared: dict[str, Any]) -> Training:
    """Rows that are made one after the other, with dropout, whose random numbers follow those of the rows."""
    rows = {number: list(zip(*site(number), strict=True)) for number in here()}
    return training(folder, data=Sites(rows, SITES), model=deep(0.4))


def metrics(folder: Path, shared: dict[str, Any]) -> Training:
    """A run that buys metrics of everyone and of some, and evaluates on public rows."""
    bought = (
        Metric(kind="accuracy", noise=20.0, every=2),
        Metric(kind="size", noise=9.0),
        Metric(kind="loss", noise=20.0, bound=2.0, every=2, rate=0.5),
    )
    return training(folder, plan=tiny_plan(metrics=bought), public_test=blobs(9, seed=1))


class Jittered(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows that are moved at random when they are read."""

    def __init__(self, number: int) -> None:
        self.inputs, self.targets = site(number)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[row] + 3 * torch.randn_like(self.inputs[row]), self.targets[row]


def random_metrics(folder: Path, shared: dict[str, Any]) -> Training:
    """Metrics of rows that are moved at random: units of two sites share no random numbers."""
    bought = (Metric(kind="accuracy", noise=20.0, every=1), Metric(kind="loss", noise=20.0, bound=2.0, every=1))
    data = Sites({number: Jittered(number) for number in here()}, SITES)
    return training(folder, data=data, plan=tiny_plan(metrics=bought))


def images_in_any_layout(folder: Path, shared: dict[str, Any]) -> Training:
    """Images whose channels come last in memory, under convolutions."""
    drawn = torch.Generator().manual_seed(0)
    inputs = torch.randn(24, 8, 12, 12, generator=drawn).to(memory_format=torch.channels_last)
    data = Sites({number: (inputs[ROWS[number]], torch.from_numpy(ROWS[number] % 3)) for number in here()}, SITES)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1600, 3)
        )
    return training(folder, data=data, model=model)


CASES: dict[str, Callable[[Path, dict[str, Any]], Training]] = {
    **{
        f"{name}, {unit}": with_sampling(name, unit)
        for name in SAMPLINGS
        for unit in ("example", "user")
        if SAMPLERS[SAMPLINGS[name](6).kind].INDEPENDENT
    },
    **{
        f"engine {engine}": lambda folder, shared, engine=engine: training(folder, engine=engine, model=deep(0.4))
        for engine in ("bookkeeping", "ghost", "vmap", "exact")
    },
    "adaptive clipping": lambda folder, shared: training(
        folder, plan=tiny_plan(clip_norm=None, clipping=WAYS["adaptive"])
    ),
    "metrics": metrics,
    "holdout": with_holdout("example"),
    "holdout of users": with_holdout("user"),
    "named columns": named_columns,
    "rows by code": rows_by_code,
    "random metrics": random_metrics,
    "images in any layout": images_in_any_layout,
}


def stage(folder: Path, steps: int, shard: str) -> None:
    """Go on to `steps` steps, and leave a checkpoint; at the end of the plan a digest of the weights is printed."""
    begun = (folder / "run").exists()
    plan = tiny_plan(steps=STEPS).model_copy(update={"block": BLOCK})
    run = RunOptions(folder / "run", resume=begun, stream=TestStream(7))
    made = training(folder, plan=plan, run=run, run_dir=run.folder, shard=shard)
    with made.session() as session:
        while session.position < steps and session.ready():
            with session.step() as step:
                step.add_all(made.criterion)
        made.save(session)
        if not session.finished:
            return
        trained = made.result(session)
    found = hashlib.sha256(b"".join(one.cpu().numpy().tobytes() for one in trained.model.state_dict().values()))
    if made.team.first:
        sys.stdout.write(found.hexdigest()[:16] + "\n")


def main(folder: Path, names: list[str]) -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if names[0] == "stage":
        stage(folder, int(names[1]), names[2])
    elif names[0] == "publish":
        publish(with_sampling("poisson", "user")(folder, {"stream": None}).run(), folder / "model")
    else:
        found = {name: digest_of(CASES[name], folder / str(number), {})[0] for number, name in enumerate(names)}
        if os.environ.get("RANK", "0") == "0":
            sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
