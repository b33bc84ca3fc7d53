"""Are the bounds of one-run audits as rarely wrong as they say, and how much of the truth do they find?

python benchmarks/audit_calibration.py calibration [--runs 4000]
python benchmarks/audit_calibration.py tightness [--runs 400]

Every mechanism here has a known trade-off function. "Refuted" is an error: the run keeps its curve. Each count of right
guesses comes from scores, as in an audit; a number of guesses is fixed beforehand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from discreet import trade_off
from discreet.accounting.answers.tradeoff import GaussianTradeOff, TradeOff, from_pairs
from discreet.accounting.theories import gdp
from discreet.audit.bounds import any_mechanism, epsilon_delta, independent_places
from discreet.audit.bounds.curve_families import Gaussians, largest_refuted
from discreet.audit.bounds.curve_lines import Lines
from discreet.audit.bounds.guess_counts import planned
from discreet.core.events import Gaussian, Poisson, Repeat

DELTA, LEVELS = 1e-5, (0.05, 0.01, 0.001)
SHARES = (1.0, 0.6, 0.2, 0.04)
"""Guesses, as shares of the canaries."""

Scores = Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Known:
    """A mechanism. `scores` of (runs, canaries) coins; `curve`: its trade-off function for one coin. `apart`: whether
    canaries have noise of their own."""

    name: str
    canaries: int
    curve: TradeOff
    scores: Scores
    apart: bool = True


def gaussian(epsilon: float, canaries: int) -> Known:
    mu = gdp.mu_for(epsilon, DELTA)
    scores = lambda coins, rng: mu * coins + rng.standard_normal(coins.shape)  # noqa: E731
    return Known(f"Gaussian, epsilon {epsilon:g}", canaries, GaussianTradeOff(mu), scores)


def sampled(rate: float, noise: float, steps: int, canaries: int) -> Known:
    """Poisson-sampled steps; the score is the logarithm of the likelihood ratio of all of them."""

    def scores(coins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        total = np.zeros(coins.shape)
        for _ in range(steps):
            x = (coins & (rng.random(coins.shape) < rate)) + noise * rng.standard_normal(coins.shape)
            total += np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2)))
        return total

    curve = trade_off(Repeat(Poisson(rate, Gaussian(noise)), steps))
    return Known(f"{steps} steps at rate {rate:g}, noise {noise:g}", canaries, curve, scores)


def shared(share: float, strong: float, weak: float, canaries: int) -> Known:
    """The size of the noise is drawn once for all canaries, and known: with probability `share` it is small."""

    def scores(coins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mu = np.where(rng.random(len(coins)) < share, strong, weak)[:, None]
        return mu * coins + rng.standard_normal(coins.shape)

    at = np.linspace(0, 12, 3000)
    mixed = share * GaussianTradeOff(strong).delta(at) + (1 - share) * GaussianTradeOff(weak).delta(at)
    return Known(
        f"shared size of noise, mu {strong:g} or {weak:g}", canaries, from_pairs(at, mixed), scores, apart=False
    )


def disclosed(share: float, canaries: int) -> Known:
    """With probability `share` every coin is published, else none."""

    def scores(coins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        open_ = rng.random(len(coins)) < share
        return np.where(open_[:, None], 100.0 * coins, 0.0) + rng.standard_normal(coins.shape)

    curve = from_pairs(np.zeros(1), np.array([share]))
    return Known(f"all coins published, probability {share:g}", canaries, curve, scores, apart=False)


def known() -> Iterator[Known]:
    yield from (gaussian(epsilon, 1000) for epsilon in (1.0, 4.0, 8.0))
    yield gaussian(8.0, 100)
    yield sampled(0.1, 1.0, 20, 300)
    yield shared(0.1, 1.5, 0.2, 1000)
    yield shared(0.02, 3.0, 0.2, 1000)
    yield disclosed(0.05, 1000)


def counts(one: Known, guesses: list[int], runs: int, rng: np.random.Generator) -> np.ndarray:
    """Right guesses, shape (runs, numbers of guesses)."""
    found = []
    for start in range(0, runs, 500):
        coins = rng.random((min(500, runs - start), one.canaries)) < 0.5
        order = np.argsort(one.scores(coins, rng), axis=1)
        ranked = np.take_along_axis(coins, order, 1)
        found.append([[int(row[-(g // 2) :].sum() + (~row[: g // 2]).sum()) for g in guesses] for row in ranked])
    return np.concatenate([np.array(part) for part in found])


def errors(one: Known, runs: int, rng: np.random.Generator) -> Iterator[tuple[str, int, list[float]]]:
    """(bound, guesses, how often the true curve is refuted at each level)."""
    guesses = [2 * round(one.canaries * share / 2) for share in SHARES]
    right, lines = counts(one, guesses, runs, rng), Lines.of(one.curve)
    bounds = {"any mechanism": any_mechanism.p_value, "independent places": independent_places.p_value}
    for name, p_value in bounds.items():
        if name == "independent places" and not one.apart:
            continue
        for place, g in enumerate(guesses):
            values, numbers = np.unique(right[:, place], return_counts=True)
            p = np.array([p_value(lines, int(value), g, one.canaries) for value in values])
            yield name, g, [float(numbers[p <= level].sum() / runs) for level in LEVELS]


def calibration(runs: int) -> None:
    print(f"How often a true curve is refuted, {runs:,} runs each\n")
    print("| mechanism | canaries | guesses | bound | at 5 % | at 1 % | at .1 % |\n|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(20261125)
    for one in known():
        for name, g, found in errors(one, runs, rng):
            print(f"| {one.name} | {one.canaries:,} | {g:,} | {name} | " + " | ".join(f"{f:.2%}" for f in found) + " |")


def found_epsilons(
    epsilon: float, canaries: int, runs: int, level: float, rng: np.random.Generator
) -> Iterator[tuple[str, int, np.ndarray]]:
    """(bound, guesses, lower bound over truth for each run) of Gaussian scores."""
    mu, family = gdp.mu_for(epsilon, DELTA), Gaussians()

    def refuted_by(refutes: Callable[[Lines, int, int], bool]) -> Callable[[int, int], float]:
        def bound(right: int, g: int) -> float:
            size = largest_refuted(family, lambda lines: refutes(lines, right, g), start=mu, precision=1e-3)
            return family.epsilon(size, DELTA) if size > 0 else 0.0

        return bound

    bounds = {
        "f-DP, any mechanism": refuted_by(lambda lines, n, g: any_mechanism.refuted(lines, n, g, canaries, level)),
        "Steinke et al.": lambda n, g: epsilon_delta.epsilon_bound(n, g, canaries, DELTA, level),
        "independent places": refuted_by(
            lambda lines, n, g: independent_places.p_value(lines, n, g, canaries) <= level
        ),
    }
    one = gaussian(epsilon, canaries)
    for name, bound in bounds.items():
        g = planned(Lines.gaussian(mu), canaries, bound)
        right = counts(one, [g], runs, rng)[:, 0]
        by_count = {int(n): bound(int(n), g) / epsilon for n in np.unique(right)}
        yield name, g, np.array([by_count[int(n)] for n in right])


def tightness(runs: int) -> None:
    rng = np.random.default_rng(20261126)
    for level in (0.05, 0.001):
        print(f"\nLower bound over truth at {level:.1%}, median (5 % to 95 % of {runs} runs)\n")
        print("| canaries | epsilon | bound | guesses | share | above it | CPU s |\n|---|---|---|---|---|---|---|")
        for canaries in (1000, 10_000):
            for epsilon in (1.0, 4.0, 8.0):
                start = time.process_time()
                for name, g, ratios in found_epsilons(epsilon, canaries, runs, level, rng):
                    low, middle, high = np.quantile(ratios, (0.05, 0.5, 0.95))
                    spent, start = time.process_time() - start, time.process_time()
                    print(
                        f"| {canaries:,} | {epsilon:g} | {name} | {g:,} | {middle:.2f} ({low:.2f} to {high:.2f}) "
                        f"| {np.mean(ratios > 1):.1%} | {spent:.1f} |",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["calibration", "tightness"])
    parser.add_argument("--runs", type=int)
    chosen = parser.parse_args()
    if chosen.what == "calibration":
        calibration(chosen.runs or 4000)
    else:
        tightness(chosen.runs or 400)


if __name__ == "__main__":
    main()
