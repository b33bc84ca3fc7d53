"""The single-file verifier against the library, on random plans that were fixed beforehand.

    python benchmarks/reviewer.py --plans 500

For each plan: the file derives the plan's events as the library does, its epsilon lies between the library's lower
bound and its claim: an honest claim is accepted, and one below the lower bound is not. Prints a table for RESULTS.md.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, SparseHistogram
from discreet.core.events.event_json import to_json
from discreet.plan import (
    AllocationSampling,
    FixedSizeSampling,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
    ShuffleSampling,
)
from discreet.verification.standalone import verify as reviewer

KINDS = (
    "poisson",
    "rates",
    "metrics",
    "holdout",
    "before",
    "categories",
    "none",
    "fixed_size",
    "shuffle",
    "allocation",
)
LARGEST = 30.0


@dataclass(frozen=True)
class Found:
    """What both said of one plan; `wrong` says what is the matter, if anything is."""

    kind: str
    lower: float
    claim: float
    epsilon: float
    seconds: float
    wrong: str = ""


def between(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def plan(number: int) -> tuple[str, Plan]:
    """Plan `number`: the same on every call. Its noise meets an epsilon between 0.05 and 12, roughly."""
    draw = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    while True:
        try:
            return kind, _plan(kind, draw)
        except InputError:
            continue


def _plan(kind: str, draw: random.Random) -> Plan:
    steps, people = int(between(draw, 1, 20_000)), int(between(draw, 100, 1e6))
    free, delta = draw.choice([Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT]), between(draw, 1e-9, 1e-3)
    rate, sampling = between(draw, 1e-3, 0.5), None
    options: dict[str, Any] = {}
    if kind == "rates":
        first = draw.randint(1, max(1, steps - 1))
        options["batches"] = [(rate * people, first), (0.5 * rate * people, steps - first)] if steps > 1 else None
    if kind in ("metrics", "holdout"):
        rows = "holdout" if kind == "holdout" else "training"
        every = draw.choice([None, max(1, steps // 7)])
        options["metrics"] = [Metric(kind="accuracy", noise=between(draw, 5, 100), every=every, rows=rows)]
        options["holdout"] = 0.1 if kind == "holdout" else None
    if kind == "before":
        options["before"] = [Gaussian(between(draw, 2, 50), "covariance")]
    if kind == "categories":
        noises = [between(draw, 2, 50) for _ in range(draw.randint(1, 3))]
        options["before"] = [SparseHistogram(noise, math.ceil(1 + noise * draw.uniform(4, 9))) for noise in noises]
    if kind == "none":
        sampling, free = NoSampling(), draw.choice(list(Adjacency))
    elif kind == "fixed_size":
        sampling, free, steps = (
            FixedSizeSampling(batch=max(1, int(rate * people))),
            Adjacency.REPLACE_ONE,
            steps // 3 + 1,
        )
    elif kind == "shuffle":
        per_epoch = draw.randint(1, 50)
        sampling = ShuffleSampling(batch=math.ceil(people / per_epoch))
        free = draw.choice(list(sampling.ADJACENCIES))
        steps = math.ceil(people / sampling.batch) * draw.randint(1, 20)
    elif kind == "allocation":
        period = draw.randint(1, 50)
        sampling, steps = (
            AllocationSampling(period=period, chosen=draw.randint(1, period)),
            period * draw.randint(1, 20),
        )
        free = draw.choice(list(Adjacency))
    noise: Any = between(draw, 0.7, 8) * (max(1.0, math.sqrt(steps) / 3) if kind == "none" else 1.0)
    if kind in ("poisson", "shuffle") and steps > 1 and draw.random() < 0.3:
        noise = [(noise, steps // 2), (1.3 * noise, steps - steps // 2)]
    made = Plan.make(
        sampling or PoissonSampling(rate=rate),
        population=people,
        steps=steps,
        delta=delta,
        clip_norm=1.0,
        noise_multiplier=noise,
        adjacency=free,
        **options,
    )
    if not 1e-3 < made.guarantee().epsilon < LARGEST:
        raise InputError("not of this benchmark")
    return made


def compare(number: int) -> Found:
    """Both accountants on plan `number`."""
    kind, made = plan(number)
    claim = made.guarantee()
    lower = claim.lower or 0.0
    begin = time.process_time()
    facts = made.model_dump(mode="json")
    try:
        sides = reviewer.planned(facts)
        if sides[-1] != reviewer.multiset(to_json(made.event())):
            return Found(kind, lower, claim.epsilon, math.nan, 0.0, f"plan {number}: other events")
        tolerance = max(claim.epsilon, 1e-4) / 20_000
        found = max(
            reviewer.epsilon_of(side, made.delta, made.adjacency.value, tolerance) for side in sides[:-1] or sides
        )
    except reviewer.Stop as stop:
        return Found(kind, lower, claim.epsilon, math.nan, 0.0, f"plan {number}: {stop.args}")
    fits = lower <= found <= claim.epsilon
    wrong = "" if fits else f"plan {number}: {found} is not within {lower} to {claim.epsilon}"
    return Found(kind, lower, claim.epsilon, found, time.process_time() - begin, wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=500)
    found = [compare(number) for number in range(parser.parse_args().plans)]
    wrong = [one.wrong for one in found if one.wrong]
    room = [one.claim / one.epsilon - 1 for one in found if not one.wrong]
    times = sorted(one.seconds for one in found)
    print("| what | value |\n|---|---|")
    print(f"| plans, of {len(KINDS)} kinds | {len(found)} |")
    print(f"| epsilon between the library's bounds, honest claim accepted | {len(found) - len(wrong)} |")
    print(f"| claim over the file's epsilon, less 1: least, median | {min(room):.2e}, {statistics.median(room):.2e} |")
    print(f"| seconds: median, most | {statistics.median(times):.2f}, {times[-1]:.2f} |")
    print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
