"""Reference intervals for 300 random heterogeneous plans, by dp-accounting 0.6.0: makes heterogeneous.jsonl.

python tests/accounting/reference/heterogeneous.py      (about ten minutes; goes on where it was stopped)

What is proved, with dp-accounting's pessimistic "connect the dots" on a grid of step h:

- Upper: its epsilon at delta is one (Doroshenko et al. 2022: the discretised pair dominates).
- Lower: the discretisation splits a loss L between the grid points around it and keeps both masses, so D, the move,
  lies in an interval of length h, and E[exp(-D) | L] = 1. Hence 0 <= E[D | L] <= h^2 / 8 (Jensen; Hoeffding's
  lemma), the moves of the n steps are independent, and by Hoeffding's inequality their sum exceeds
  t = n h^2 / 8 + h sqrt(n log(1 / b) / 2) with probability at most b. So delta_h(eps) <= delta(eps - t) + b + c, where
  c is the mass at infinity, which truncation made. The epsilon at which delta_h is delta + 2 b + c, less t, is below;
  the second b, 5e-4 delta, is ample for what wraps around or is moved up at the lower end, 1e-15 per composition.

What is not: dp-accounting bounds neither the rounding of its masses nor that of its transforms. Both ends are moved
out by |epsilon at grid h - epsilon at grid 2 h| + 1e-6 epsilon + 1e-9: rounding grows as the grid gets finer, and
shows as a difference between two grids. At delta 1e-10 that is not enough (tests/accounting/test_small_delta.py); no
plan here is below 1e-8, and all below 1e-6 hold by exponential tilting as well (tests/support/tilting.py).
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as pld

HERE = Path(__file__).parent
DATA = HERE / "heterogeneous.jsonl"
PLANS = 300
MOST_POINTS = 1.2e6
"""Single-step grid points of all phases, plus those of the composition; the grid is coarser where this is exceeded."""

Part = tuple[float, list[float], int]
"""(rate, noise multipliers of the queries on one draw, steps)"""


def plan(number: int) -> tuple[list[Part], float]:
    """Parts and delta: noise .4 to 20, rate 1e-4 to 1 (one in ten exactly 1), steps 1 to 2000, all log-uniform."""
    rng = random.Random(f"heterogeneous {number}")

    def log_uniform(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}")

    parts = []
    for _ in range(rng.randint(1, 6)):
        queries = rng.choice((1, 1, 1, 1, 1, 2, 3))
        rate = 1.0 if rng.random() < 0.1 else log_uniform(1e-4, 1)
        parts.append((rate, [log_uniform(0.4, 20) for _ in range(queries)], round(log_uniform(1, 2000))))
    return parts, log_uniform(1e-8, 1e-3)


def composed(parts: list[Part], grid: float) -> tuple[Any, float]:
    """The pessimistic distribution of the whole plan, and how many grid points it took."""
    total, points = None, 0
    for rate, noises, steps in parts:
        noise = math.fsum(noise**-2 for noise in noises) ** -0.5
        one = pld.from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=grid)
        points += one._pmf_remove.size
        phase = one.self_compose(steps)
        total = phase if total is None else total.compose(phase, 1e-15)
    return total, points + total._pmf_remove.size


def epsilon_at(found: Any, delta: float) -> float:
    """The epsilon of a distribution at `delta`; by bisection where dp-accounting's own answer underflows.

    From about 700 on, where exp(-epsilon) leaves floating point, it errs upward, by .95 at 1359.5 (where nothing is
    sampled, and the closed form is known). Its delta at an epsilon does not.
    """
    own = float(found.get_epsilon_for_delta(delta))
    if own < 500:
        return own
    low, high = 0.0, 2 * own
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if found.get_delta_for_epsilon(middle) > delta else (low, middle)
    return high


def interval(parts: list[Part], delta: float) -> dict[str, float]:
    """The reference, at a grid whose t is a two-thousandth of epsilon, or what is affordable."""
    steps = sum(count for _, _, count in parts)
    share = 1e-3 * delta
    spread = math.sqrt(steps * -math.log(share / 2) / 2)
    grid = 1e-2
    while True:
        found, points = composed(parts, grid)
        epsilon = epsilon_at(found, delta)
        wanted = max(max(5e-4 * epsilon, 2e-5) / spread, grid * points / MOST_POINTS, 1e-6, grid / 30)
        if wanted > 0.7 * grid:
            break
        grid = wanted
    coarse = epsilon_at(composed(parts, 2 * grid)[0], delta)
    infinity = found.get_delta_for_epsilon(1e9)
    moved = steps * grid**2 / 8 + grid * spread
    allowance = abs(coarse - epsilon) + 1e-6 * epsilon + 1e-9
    low = epsilon_at(found, delta + share + infinity) - moved
    return {
        "lower": max(0.0, low - allowance),
        "epsilon": epsilon,
        "upper": epsilon + allowance,
        "grid": grid,
        "points": points,
    }


def main() -> None:
    """Add what is missing; plans that are there stay."""
    lines = DATA.read_text().splitlines() if DATA.exists() else []
    known = {json.dumps([row["parts"], row["delta"]]): line for line in lines for row in [json.loads(line)]}
    names = [json.dumps(plan(number)) for number in range(PLANS)]
    with DATA.open("a") as file:
        for number, name in enumerate(names):
            if name not in known:
                parts, delta = plan(number)
                known[name] = json.dumps({"parts": parts, "delta": delta, **interval(parts, delta)})
                file.write(known[name] + "\n")
                file.flush()
    DATA.write_text("".join(known[name] + "\n" for name in names))


if __name__ == "__main__":
    main()
