"""The bound for independent places: exact enumeration of every adversary in small cases, and simulation."""

import itertools

import numpy as np
import pytest

from discreet.accounting.answers.tradeoff import from_pairs
from discreet.audit.bounds import independent_places
from discreet.audit.bounds.curve_lines import Lines

# A pair of laws on four outcomes. Its trade-off function has the likelihood ratios as slopes; both ways, it is the
# lower envelope of one and of the other way round, which this pair has by symmetry.
OUT = np.array([0.05, 0.2, 0.3, 0.45])
IN = OUT[::-1]


def lines_of(out: np.ndarray, inside: np.ndarray) -> Lines:
    """From delta(eps) at the logarithms of the ratios, where a polygon has its corners."""
    epsilons = np.unique(np.abs(np.log(inside / out)))
    deltas = [max(0.0, float(np.maximum(inside - np.exp(e) * out, 0).sum())) for e in epsilons]
    return Lines.of(from_pairs(epsilons, np.maximum(np.array(deltas), 1e-300)))


def best_tail(pairs: list[tuple[np.ndarray, np.ndarray]], right: int, guesses: int) -> float:
    """The largest P(C >= right) of any adversary who sees one outcome of each canary: for every outcome of all of them,
    the `guesses` surest coins. Enumerated."""
    total = 0.0
    for seen in itertools.product(*(range(len(out)) for out, _ in pairs)):
        weight, sure = 1.0, []
        for place, (out, inside) in zip(seen, pairs, strict=True):
            weight *= 0.5 * (out[place] + inside[place])
            sure.append(max(out[place], inside[place]) / (out[place] + inside[place]))
        law = np.array([1.0])
        for chance in sorted(sure, reverse=True)[:guesses]:
            law = np.convolve(law, [1 - chance, chance])
        total += weight * law[right:].sum()
    return float(total)


COUNTS = [(right, guesses) for guesses in (1, 2, 3, 4, 5) for right in range(1, guesses + 1)]


@pytest.mark.parametrize(("right", "guesses"), COUNTS)
def test_the_best_adversary_reaches_the_bound(right: int, guesses: int) -> None:
    exact = best_tail([(OUT, IN)] * 5, right, guesses)
    found = independent_places.p_value(lines_of(OUT, IN), right, guesses, 5)
    assert exact * (1 - 1e-9) <= found <= min(1.0, exact * 1.006)


def garbled(rng: np.random.Generator, outcomes: int) -> tuple[np.ndarray, np.ndarray]:
    """What is seen through a random channel: less, by Blackwell's theorem."""
    channel = rng.dirichlet(np.full(outcomes, 0.3), size=len(OUT))
    return OUT @ channel, IN @ channel


def test_no_adversary_who_sees_less_exceeds_it() -> None:
    """Of 60 random channels, another for each canary, none: also where the mean is the only thing that is lower."""
    rng = np.random.default_rng(5)
    lines = lines_of(OUT, IN)
    bounds = {one: independent_places.p_value(lines, *one, 5) for one in COUNTS}
    for _ in range(60):
        pairs = [garbled(rng, 3) for _ in range(5)]
        for (right, guesses), bound in bounds.items():
            assert best_tail(pairs, right, guesses) <= bound


@pytest.mark.parametrize(
    ("mu", "canaries", "guesses", "right"), [(1.0, 60, 24, 21), (0.4, 200, 80, 54), (2.0, 40, 40, 37)]
)
def test_gaussian_coins_by_simulation(mu: float, canaries: int, guesses: int, right: int) -> None:
    """200,000 runs; a bound that is right differs by 5 standard errors with probability 1e-6."""
    rng, runs = np.random.default_rng(6), 200_000
    hits = 0
    for _ in range(20):
        coins = rng.random((runs // 20, canaries)) < 0.5
        scores = coins * mu + rng.standard_normal(coins.shape) - mu / 2
        order = np.argsort(-np.abs(scores), axis=1)[:, :guesses]
        correct = np.take_along_axis((scores > 0) == coins, order, 1).sum(axis=1)
        hits += int((correct >= right).sum())
    found = independent_places.p_value(Lines.gaussian(mu), right, guesses, canaries)
    seen, error = hits / runs, 5 * np.sqrt(hits) / runs
    assert seen - error <= found <= seen * 1.01 + error


def test_what_makes_no_sense_refutes_nothing() -> None:
    lines = Lines.gaussian(1.0)
    for counts in ((0, 10, 20), (11, 10, 20), (10, 30, 20)):
        assert independent_places.p_value(lines, *counts) == 1.0
    assert independent_places.p_value(Lines(np.zeros(0), np.zeros(0)), 10, 10, 20) == 1.0
    assert independent_places.p_value(Lines(np.full(2, np.nan), np.full(2, np.nan)), 10, 10, 20) == 1.0


def test_it_is_sharper_than_the_bound_for_any_mechanism() -> None:
    from discreet.audit.bounds import any_mechanism

    lines = Lines.gaussian(1.0)
    for right in (75, 85, 95):
        assert independent_places.p_value(lines, right, 100, 400) <= any_mechanism.p_value(lines, right, 100, 400)
