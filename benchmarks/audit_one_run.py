"""Audits in one run of real trainings: how much of the claim they find, and which broken builds they notice.

python benchmarks/audit_one_run.py sound [--seeds 5]
python benchmarks/audit_one_run.py broken [--seeds 3]

A linear layer on the digits of scikit-learn, 50 Poisson steps at a rate of .1, canaries among 3,000 rows. White box
unless a line says black. A build is broken by replacing a part of it while it trains.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from discreet.audit.one_run.canary_rows import Rows
from discreet.audit.one_run.one_run_game import Audited, play
from discreet.audit.one_run.one_run_report import OneRunReport, report
from discreet.clipping import factor
from discreet.plan import Plan
from discreet.randomness import TestStream
from discreet.recipes import load_recipe
from discreet.sampling import PoissonSampler
from discreet.training import step as step_module

POPULATION, STEPS, RATE, DELTA = 3000, 50, 0.1, 1e-5

Change = Callable[[np.ndarray, np.ndarray], np.ndarray]


@contextlib.contextmanager
def released(change: Change) -> Iterator[None]:
    """A mechanism that releases `change(sum, noise)` in every tensor."""
    real = step_module.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        sums = {name: np.array(value, np.float64) for name, value in total.tensors.items()}
        found = real(total, *rest)
        tensors = {name: change(sums[name], noisy - sums[name]) for name, noisy in found.tensors.items()}
        return dataclasses.replace(found, tensors=tensors)

    with mock.patch.object(step_module, "gaussian_release", release):
        yield


@contextlib.contextmanager
def drawn(times: float) -> Iterator[None]:
    """Poisson batches at so many times their rate."""
    real = PoissonSampler.batches

    def batches(self: PoissonSampler, *rest: Any) -> Any:
        return real(PoissonSampler(min(1.0, self.rate * times)), *rest)

    with mock.patch.object(PoissonSampler, "batches", batches):
        yield


@contextlib.contextmanager
def unclipped() -> Iterator[None]:
    """Gradients are used at ten times the clip norm."""
    real = factor.clip_factor

    def loose(norms: Any, norm: float, *rest: Any, **more: Any) -> Any:
        return 10 * real(norms, norm, *rest, **more)

    with mock.patch.object(factor, "clip_factor", loose):
        yield


BROKEN: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "noise of half the scale": lambda: released(lambda total, noise: total + 0.5 * noise),
    "noise of .8 of the scale": lambda: released(lambda total, noise: total + 0.8 * noise),
    "noise of .95 of the scale": lambda: released(lambda total, noise: total + 0.95 * noise),
    "no noise in every tenth number": lambda: released(
        lambda total, noise: total + noise * (np.arange(noise.size).reshape(noise.shape) % 10 > 0)
    ),
    "rate 1.5 times the plan's": lambda: drawn(1.5),
    "rate 3 times the plan's": lambda: drawn(3.0),
    "clipped to ten times the norm": unclipped,
}


def subject(epsilon: float) -> Audited:
    split = load_recipe("digits").load_data(None)
    plan = Plan.poisson(
        population=POPULATION, batch=POPULATION * RATE, steps=STEPS, delta=DELTA, clip_norm=1.0
    ).calibrate(epsilon)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = lambda built: torch.optim.SGD(built.parameters(), lr=0.5)  # noqa: E731
    return Audited(plan, model, nn.CrossEntropyLoss(), optimizer, Rows(*split.train), 10)


def audited(epsilon: float, white: int, black: int, seed: int) -> tuple[OneRunReport, float]:
    """The report of one run, and its processor seconds."""
    start = time.process_time()
    made = subject(epsilon)
    played = play(made, white, black, seed=seed, stream=TestStream(seed))
    return report(played, made.plan), time.process_time() - start


def sound(seeds: int) -> None:
    print(f"Lower bound over claim at 5 %, median (least to most) of {seeds} trainings each\n")
    print("| canaries | epsilon | f-DP in one run | Steinke et al. | independent places | black box | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for canaries in (1000, 4000):
        for epsilon in (1.0, 4.0, 8.0):
            black = 1000 if canaries == 1000 else 0
            runs = [audited(epsilon, canaries, black, seed) for seed in range(seeds)]
            cells = []
            for box, method in (
                ("white", "f-DP in one run"),
                ("white", "Steinke et al. 2023"),
                ("white", "independent places"),
                ("black", "f-DP in one run"),
            ):
                bounds = [one for run, _ in runs for one in run.bounds if (one.box, one.method) == (box, method)]
                found = [one.epsilon / epsilon for one in bounds]
                cells.append(f"{np.median(found):.2f} ({min(found):.2f} to {max(found):.2f})" if found else "")
            spent = np.median([seconds for _, seconds in runs])
            print(f"| {canaries:,} | {epsilon:g} | {' | '.join(cells)} | {spent:.0f} |", flush=True)


def broken(seeds: int) -> None:
    print(f"p-values of 1,000 canaries with places, epsilon 4, the median of {seeds} trainings; refuted below 1e-3\n")
    print("| build | f-DP in one run | independent places | refuted |\n|---|---|---|---|")
    for name, plant in ({"sound": contextlib.nullcontext} | BROKEN).items():
        runs = []
        for seed in range(seeds):
            with plant():
                runs.append(audited(4.0, 1000, 0, seed)[0])
        cells = []
        for method in ("f-DP in one run", "independent places"):
            cells.append(f"{np.median([b.p for one in runs for b in one.bounds if b.method == method]):.1g}")
        print(f"| {name} | {' | '.join(cells)} | {sum(one.refuted for one in runs)} of {seeds} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sound", "broken"])
    parser.add_argument("--seeds", type=int)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.what == "sound":
        sound(chosen.seeds or 5)
    else:
        broken(chosen.seeds or 3)


if __name__ == "__main__":
    main()
