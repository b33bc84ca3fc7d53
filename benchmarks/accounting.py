"""Accounting against dp-accounting's privacy-loss distributions: interleaved in one run, medians of ratios of processor
time.

python benchmarks/accounting.py [--rounds 5] [--skip-slow]
python benchmarks/accounting.py --corners     plans at the ends of what is priced: processor time and width, by itself
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

from discreet import Adjacency, Gaussian, Poisson, Repeat, calibrate_noise, guarantee
from discreet.accounting import Compose, Event, FixedSize, TruncatedPoisson

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
            start = time.process_time()
            values[side] = function()
            times[side].append(time.process_time() - start)
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    lower, upper = values[0]
    shown = f"{upper:.5f}" if lower != lower else f"[{lower:.5f}, {upper:.5f}]"
    print(f"| {name} | {shown} | {values[1][1]:.5f} | {ratio:.0f} | {rounds} |", flush=True)


def corner_plans() -> dict[str, tuple[Event, Adjacency, float]]:
    """Plans that were slow, wide or without a bound, each with its adjacency and delta."""
    rng = np.random.default_rng(1)
    rates, noises = np.exp(rng.uniform(np.log([1e-5, 0.5]), np.log([0.1, 20]), (10_000, 2))).T
    pairs = Compose(
        tuple(Repeat(Poisson(float(q), Gaussian(float(s))), 10) for q, s in zip(rates, noises, strict=True))
    )

    def rare(noise: float) -> Event:
        return Repeat(Poisson(1e-6, Gaussian(noise)), 10**6)

    def bounded(capacity: int) -> Event:
        return Repeat(TruncatedPoisson(RATE, capacity, 60_000, Gaussian(NOISE)), STEPS)

    both, one = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
    return {
        "fixed size, 100 of 10^7, noise 1, 10^6 steps": (
            Repeat(FixedSize(10**7, 100, Gaussian(1.0)), 10**6),
            one,
            DELTA,
        ),
        "the same, noise 2": (Repeat(FixedSize(10**7, 100, Gaussian(2.0)), 10**6), one, DELTA),
        "rate 1e-6, noise 0.8, 10^6 steps": (rare(0.8), both, DELTA),
        "rate 1e-6, noise 0.5, 10^6 steps": (rare(0.5), both, DELTA),
        "the same, delta 1e-7": (rare(0.5), both, 1e-7),
        "10,000 pairs of rate and noise, log-wide": (pairs, both, DELTA),
        "truncated, 256 expected, capacity 280": (bounded(280), both, DELTA),
        "truncated, 256 expected, capacity 300": (bounded(300), both, DELTA),
        "the same, zero-out": (bounded(300), Adjacency.ZERO_OUT, DELTA),
    }


def corners(rounds: int) -> None:
    """Print a Markdown table: the least processor time of some rounds, the interval, and its width over its end."""
    print("| case | seconds | interval | width |\n|---|---|---|---|")
    for name, (event, adjacency, delta) in corner_plans().items():
        seconds = []
        for _ in range(rounds):
            start = time.process_time()
            found = guarantee(event, delta, adjacency)
            seconds.append(time.process_time() - start)
        assert found.lower is not None
        width = f"{1 - found.lower / found.epsilon:.2%}" if np.isfinite(found.epsilon) else "infinite"
        print(f"| {name} | {min(seconds):.2f} | [{found.lower:.6g}, {found.epsilon:.6g}] | {width} |", flush=True)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-slow", action="store_true", help="leave out what takes the other side minutes")
    parser.add_argument("--corners", action="store_true", help="plans at the ends of what is priced, by themselves")
    options = parser.parse_args()
    print(f"{date.today()}, discreet {version('discreet')}, dp-accounting {version('dp-accounting')}\n")
    if options.corners:
        corners(options.rounds)
        print()
    print("| case | discreet | dp-accounting | times as fast | rounds |\n|---|---|---|---|---|")
    same = [(RATE, NOISE, STEPS)]
    compare("14,062 equal steps", lambda: ours(same), lambda: theirs(same), options.rounds)
    tens = [(0.01, float(s), 10) for s in FALLING[::100]]
    compare("10 multipliers, 10 steps each", lambda: ours(tens), lambda: theirs(tens), options.rounds)
    hundreds = [(0.01, float(s), 10) for s in FALLING[::10]]
    compare("100 multipliers, 10 steps each", lambda: ours(hundreds), lambda: theirs(hundreds), options.rounds)
    long = [(0.01, 4.0, 100_000)]
    compare("rate .01, noise 4, 100,000 steps", lambda: ours(long), lambda: theirs(long), options.rounds)
    if not options.skip_slow:
        compare("noise for epsilon 3", our_noise, their_noise, max(1, options.rounds // 2))
        thousand = [(0.01, float(s), 10) for s in FALLING]
        compare("1,000 multipliers, 10 steps each", lambda: ours(thousand), lambda: theirs(thousand), 1)


if __name__ == "__main__":
    main()
