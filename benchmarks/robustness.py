"""Never wrong, never stuck: 2,000 random plans, each a bound or a documented refusal, checked against its neighbours.

python benchmarks/robustness.py --out results.jsonl [--first 0] [--plans 2000]  (resumable; prints a table at the end)

Noise .2 to 100, rate 1e-6 to 1, 1 to 10^6 steps, delta 1e-12 to 1e-2, 1 to 1,000 distinct events, all log-uniform.
What is asked of each plan is in `violations`. Cost is counted, not timed: transforms, their points, the longest.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import fft
from scipy.special import ndtr
from scipy.stats import binom

from discreet import Gaussian, InputError, Poisson, Repeat, guarantee
from discreet.accounting import Compose
from discreet.accounting.account import Method
from discreet.accounting.theories import gdp

Part = tuple[float, float, int]
"""(rate, noise, steps)"""


@dataclass(frozen=True)
class Plan:
    """What is released, and the delta."""

    parts: tuple[Part, ...]
    delta: float


def plan(number: int) -> Plan:
    """Half of the plans have one event; in one of ten nothing is sampled, and one of ten mixes that in."""
    rng = random.Random(f"robustness {number}")

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    steps = round(log_uniform(1, 1e6))
    events = 1 if rng.random() < 0.5 else min(steps, round(log_uniform(1, 1000)))
    whole = rng.random()
    cuts = sorted(rng.sample(range(1, steps), events - 1)) if events > 1 else []
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, steps], strict=True):
        rate = 1.0 if whole < 0.1 or (whole < 0.2 and rng.random() < 0.3) else log_uniform(1e-6, 1)
        parts.append((rate, log_uniform(0.2, 100), end - begin))
    return Plan(tuple(parts), log_uniform(1e-12, 1e-2))


def neighbours(plan: Plan, seed: str) -> Iterator[tuple[str, Plan, bool]]:
    """Each perturbation, and whether the perturbed plan gives away more (True) or less."""
    rng = random.Random(seed)
    at = rng.randrange(len(plan.parts))
    rate, noise, steps = plan.parts[at]
    factor = 1 + 10 ** rng.uniform(-6, -0.5)

    def put(part: Part) -> Plan:
        return Plan((*plan.parts[:at], part, *plan.parts[at + 1 :]), plan.delta)

    yield "noise", put((rate, noise * factor, steps)), False
    yield "rate", put((rate / factor, noise, steps)), False
    yield "steps", put((rate, noise, steps + max(1, int(steps * (factor - 1))))), True
    yield "delta", Plan(plan.parts, min(0.5, plan.delta * factor)), False


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the transforms of scipy, their points, and the longest."""
    counts: Counter[str] = Counter()
    originals = {name: getattr(fft, name) for name in ("rfft", "irfft")}

    def wrap(name: str) -> Any:
        def transform(x: Any, n: int | None = None, *args: Any, **kwargs: Any) -> Any:
            size = n or np.shape(x)[-1]
            rows = max(1, math.prod(np.shape(x)[:-1]))
            counts["transforms"] += rows
            counts["points"] += rows * size
            counts["longest"] = max(counts["longest"], size)
            return originals[name](x, n, *args, **kwargs)

        return transform

    try:
        for name in originals:
            setattr(fft, name, wrap(name))
        yield counts
    finally:
        for name, function in originals.items():
            setattr(fft, name, function)


def spend(plan: Plan, method: Method = Method.PLD) -> tuple[str, float, float]:
    """(outcome, lower, upper): bound, infinite, refused or error."""
    event = Compose(tuple(Repeat(Poisson(rate, Gaussian(noise)), steps) for rate, noise, steps in plan.parts))
    try:
        found = guarantee(event, plan.delta, method=method)
    except InputError:
        return "refused", 0.0, math.inf
    except Exception as error:
        return f"error {error!r}", 0.0, math.inf
    lower = 0.0 if found.lower is None else found.lower
    return "bound" if math.isfinite(found.epsilon) else "infinite", lower, found.epsilon


def attack(plan: Plan, epsilon: float) -> float:
    """A lower bound on delta(epsilon): adversaries who add up the outcomes of one part and compare with a threshold.

    Without the unit the sum of n outcomes is N(0, n s^2), with it N(k, n s^2), k binomial (n, q). Both directions.
    """
    best = 0.0
    strength = [steps * math.log1p(rate**2 * math.expm1(min(noise**-2, 600.0))) for rate, noise, steps in plan.parts]
    rate, noise, steps = plan.parts[int(np.argmax(strength))]
    middle, spread = steps * rate, 12 * math.sqrt(steps * rate * (1 - rate)) + 12
    k = np.unique(np.round(np.linspace(max(0, middle - spread), min(steps, middle + spread), 4001)))
    before = np.concatenate(([-1], k[:-1]))
    lower, upper = (function(k, steps, rate) for function in (binom.cdf, binom.sf))
    rise, fall = lower - binom.cdf(before, steps, rate), binom.sf(before, steps, rate) - upper
    weight = np.where(k <= middle, rise, fall)
    scale = noise * math.sqrt(steps)
    for c in np.linspace(-12 * scale, k[-1] + 12 * scale, 400):
        # Rounded down: k grouped between grid points counts as the least of them above, and the most of them below.
        least = np.concatenate(([0.0], k[:-1] + 1)) if len(k) > 1 else k
        seen, missed = float(weight @ ndtr((least - c) / scale)), float(ndtr(-c / scale))
        best = max(best, _gain(seen, missed, epsilon))
        most = float(weight @ ndtr((c - least) / scale)) + float(upper[-1])
        best = max(best, _gain(float(ndtr(c / scale)), most, epsilon))
    return best


def _gain(p: float, q: float, epsilon: float) -> float:
    """p - e^epsilon q, for a `q` that may have vanished: then nothing is claimed."""
    if q < 1e-250:
        return 0.0
    return p * (1 - 1e-9) + p * -math.exp(min(700.0, epsilon + math.log(q) - math.log(p))) - 1e-14 if p > 0 else 0.0


def violations(plan: Plan, seed: str) -> tuple[dict[str, Any], list[str]]:
    """What was found, and everything that is wrong about it."""
    wrong: list[str] = []
    with counted() as cost:
        outcome, lower, upper = spend(plan)
    if outcome.startswith("error"):
        wrong.append(outcome)
    if not 0 <= lower <= upper:  # NaN fails too
        wrong.append(f"interval [{lower!r}, {upper!r}]")
    for name, near, more in neighbours(plan, seed):
        other, low, high = spend(near)
        if other.startswith("error") or not 0 <= low <= high:
            wrong.append(f"{name}: {other} [{low!r}, {high!r}]")
        if (lower > high) if more else (low > upper):
            wrong.append(f"{name}: [{lower!r}, {upper!r}] against [{low!r}, {high!r}] of {near.parts[:3]}")
    _, _, rdp = spend(plan, Method.RDP)
    if not rdp >= lower:
        wrong.append(f"RDP {rdp!r} below the lower bound {lower!r}")
    whole = [(noise, steps) for rate, noise, steps in plan.parts if rate == 1]
    if whole:
        exact = gdp.epsilon_bounds(gdp.compose_mu(whole), plan.delta)
        if not upper >= exact[0] * (1 - 1e-12):
            wrong.append(f"upper {upper!r} below {exact[0]!r} of the parts without sampling")
        if len(whole) == len(plan.parts) and lower > exact[1]:
            wrong.append(f"lower {lower!r} above the closed form {exact[1]!r}")
    if math.isfinite(upper) and attack(plan, upper) > plan.delta * (1 + 1e-6):
        wrong.append(f"an attack has delta {attack(plan, upper)!r} at the upper bound {upper!r}")
    return {"outcome": outcome.split()[0], "lower": lower, "upper": upper, "rdp": rdp, **cost}, wrong


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of RESULTS.md."""
    bounds = [row for row in rows if row["outcome"] == "bound"]
    excess = sorted((row["upper"] - row["lower"]) / max(row["upper"], 0.02) for row in bounds)
    met = sum(row["upper"] - row["lower"] <= max(0.005 * row["upper"], 1e-4) for row in bounds)
    counts = Counter(row["outcome"] for row in rows)
    yield "| what | value |\n|---|---|"
    yield f"| plans | {len(rows):,} |"
    yield f"| bound / infinite / refused / error | {' / '.join(str(counts[k]) for k in OUTCOMES)} |"
    yield f"| violations | {sum(len(row['wrong']) for row in rows)} |"
    yield f"| width within max(0.5 %, 1e-4) | {met} of {len(bounds)} |"
    quantiles = [f"{excess[min(len(excess) - 1, int(q * len(excess)))]:.4%}" for q in (0.5, 0.9, 0.99, 1)]
    yield f"| width over max(epsilon, 0.02): median, 90 %, 99 %, most | {', '.join(quantiles)} |"
    yield f"| largest finite epsilon | {max(row['upper'] for row in bounds):.6g} |"
    for name in ("transforms", "points", "longest"):
        values = sorted(row.get(name, 0) for row in rows)
        yield f"| {name}: median, most | {values[len(values) // 2]:,}, {values[-1]:,} |"
    memory = max(row["memory"] for row in rows)
    yield f"| most memory of the whole process, MiB | {memory:,} |"


OUTCOMES = ("bound", "infinite", "refused", "error")


def main() -> None:
    """Add what is missing, then print the table and every violation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plans", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first plan of this file, for runs side by side")
    options = parser.parse_args()
    done = len(options.out.read_text().splitlines()) if options.out.exists() else 0
    with options.out.open("a") as out:
        for number in range(options.first + done, options.plans):
            found, wrong = violations(plan(number), f"neighbours {number}")
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            row = {"number": number, **found, "memory": memory, "wrong": wrong}
            out.write(json.dumps(row) + "\n")
            out.flush()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    for line in table(rows):
        print(line)
    for row in rows:
        for text in row["wrong"]:
            print(f"plan {row['number']} {asdict(plan(row['number']))['parts'][:3]}: {text}")


if __name__ == "__main__":
    main()
