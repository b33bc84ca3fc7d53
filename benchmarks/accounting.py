"""Accounting against dp-accounting's privacy-loss distributions: both sides in one run, interleaved, medians, ratios.

python benchmarks/accounting.py [--rounds 5] [--skip-slow]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version

import numpy as np
from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.pld import pld_privacy_accountant

from discreet import Gaussian, Poisson, Repeat, calibrate_noise, guarantee
from discreet.accounting import Compose

DELTA = 1e-5
RATE, NOISE, STEPS = 256 / 60000, 1.1, 14062
FALLING = 10 * np.exp(np.log(0.2) * np.arange(1000) / 999)


def ours(parts: list[tuple[float, float, int]]) -> tuple[float, float]:
    """Lower and upper bound."""
    found = guarantee(Compose(tuple(Repeat(Poisson(q, Gaussian(s)), n) for q, s, n in parts)), DELTA)
    assert found.lower is not None
    return found.lower, found.epsilon


def theirs(parts: list[tuple[float, float, int]]) -> tuple[float, float]:
    """Their upper bound; they give no lower one."""
    accountant = pld_privacy_accountant.PLDAccountant()
    for q, s, n in parts:
        event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(s))
        accountant.compose(dp_event.SelfComposedDpEvent(event, n))
    return float("nan"), float(accountant.get_epsilon(DELTA))


def our_noise() -> tuple[float, float]:
    """The multiplier for epsilon 3."""
    noise, _ = calibrate_noise(lambda s: Repeat(Poisson(RATE, Gaussian(s)), STEPS), 3.0, DELTA)
    return float("nan"), noise


def their_noise() -> tuple[float, float]:
    """The same, at a tolerance of 1e-3 (ours: 1e-4 relative)."""

    def event(noise: float) -> dp_event.DpEvent:
        return dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(RATE, dp_event.GaussianDpEvent(noise)), STEPS
        )

    found = mechanism_calibration.calibrate_dp_mechanism(
        pld_privacy_accountant.PLDAccountant,
        event,
        3.0,
        DELTA,
        mechanism_calibration.ExplicitBracketInterval(0.5, 4.0),
        tol=1e-3,
    )
    return float("nan"), float(found)


def compare(
    name: str, left: Callable[[], tuple[float, float]], right: Callable[[], tuple[float, float]], rounds: int
) -> None:
    """Time both sides in turn and print one row."""
    times: tuple[list[float], list[float]] = ([], [])
    values: list[tuple[float, float]] = [(0.0, 0.0), (0.0, 0.0)]
    left()
    for _ in range(rounds):
        for side, function in enumerate((left, right)):
            start = time.perf_counter()
            values[side] = function()
            times[side].append(time.perf_counter() - start)
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    lower, upper = values[0]
    shown = f"{upper:.5f}" if lower != lower else f"[{lower:.5f}, {upper:.5f}]"
    print(f"| {name} | {shown} | {values[1][1]:.5f} | {ratio:.0f} | {rounds} |", flush=True)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-slow", action="store_true", help="leave out what takes the other side minutes")
    options = parser.parse_args()
    print(f"{date.today()}, discreet {version('discreet')}, dp-accounting {version('dp-accounting')}\n")
    print("| case | discreet | dp-accounting | times as fast | rounds |\n|---|---|---|---|---|")
    same = [(RATE, NOISE, STEPS)]
    compare("14,062 equal steps", lambda: ours(same), lambda: theirs(same), options.rounds)
    tens = [(0.01, float(s), 10) for s in FALLING[::100]]
    compare("10 multipliers, 10 steps each", lambda: ours(tens), lambda: theirs(tens), options.rounds)
    hundreds = [(0.01, float(s), 10) for s in FALLING[::10]]
    compare("100 multipliers, 10 steps each", lambda: ours(hundreds), lambda: theirs(hundreds), options.rounds)
    if not options.skip_slow:
        compare("noise for epsilon 3", our_noise, their_noise, max(1, options.rounds // 2))
        thousand = [(0.01, float(s), 10) for s in FALLING]
        compare("1,000 multipliers, 10 steps each", lambda: ours(thousand), lambda: theirs(thousand), 1)


if __name__ == "__main__":
    main()
