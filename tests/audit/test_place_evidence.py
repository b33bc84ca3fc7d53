"""Scores of places are the log-likelihood ratios of the laws that samplers have, from densities."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from discreet.audit.one_run.place_evidence import evidence
from discreet.plan import AllocationSampling, FixedSizeSampling, NoSampling, Plan, PoissonSampling, ShuffleSampling
from discreet.sampling import CyclicPoissonSampling

STEPS, CANARIES = 4, 3
Patterns = list[tuple[float, tuple[int, ...]]]


def plan_of(sampling: object, **more: object) -> Plan:
    facts = {"population": 40, "steps": STEPS, "clip_norm": 1.0, "delta": 1e-5} | more
    return Plan.make(sampling, **facts)  # type: ignore[arg-type]


def moves(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.3, 1.2, (STEPS, CANARIES))


NOISES = np.array([1.0, 1.5, 0.8, 2.0])


def density(seen: np.ndarray, patterns: Patterns, value: float) -> np.ndarray:
    """The density of moves, (canaries,), if the steps in which a row is are drawn from (probability, steps)."""
    total = np.zeros(seen.shape[1])
    for probability, drawn in patterns:
        mean = np.array([value if step in drawn else 0.0 for step in range(len(seen))])
        total += probability * np.prod(norm.pdf(seen, mean[:, None], NOISES[:, None]), axis=0)
    return total


def of_coins(rate: float) -> Patterns:
    """All patterns of independent draws."""
    found = []
    for drawn in itertools.product((0, 1), repeat=STEPS):
        steps = tuple(step for step in range(STEPS) if drawn[step])
        found.append((rate ** len(steps) * (1 - rate) ** (STEPS - len(steps)), steps))
    return found


NOBODY: Patterns = [(1.0, ())]


@pytest.mark.parametrize(
    ("sampling", "patterns", "adjacency"),
    [
        (PoissonSampling(rate=0.2), of_coins(0.2), "add_remove"),
        (NoSampling(), [(1.0, (0, 1, 2, 3))], "add_remove"),
        (ShuffleSampling(batch=20), [(0.25, (a, b)) for a in (0, 1) for b in (2, 3)], "zero_out"),
        (AllocationSampling(period=4), [(0.25, (a,)) for a in range(4)], "add_remove"),
    ],
)
def test_one_row_against_no_row(sampling: object, patterns: Patterns, adjacency: str) -> None:
    seen = moves()
    exact = np.log(density(seen, patterns, 1.0) / density(seen, NOBODY, 1.0))
    assert evidence(seen, NOISES, plan_of(sampling, adjacency=adjacency)) == pytest.approx(exact, rel=1e-10)


def test_one_row_against_another() -> None:
    seen, plan = moves(), plan_of(FixedSizeSampling(batch=10), adjacency="replace_one")
    exact = np.log(density(seen, of_coins(0.25), 1.0) / density(seen, of_coins(0.25), -1.0))
    assert evidence(seen, NOISES, plan) == pytest.approx(exact, rel=1e-10)


def test_rates_that_change() -> None:
    plan = plan_of(PoissonSampling(rate=0.2), batches=[(8, 1), (16, 3)], population=40)
    seen = moves()
    patterns = []
    for drawn in itertools.product((0, 1), repeat=STEPS):
        chances = [rate if one else 1 - rate for one, rate in zip(drawn, (0.2, 0.4, 0.4, 0.4), strict=True)]
        patterns.append((float(np.prod(chances)), tuple(step for step in range(STEPS) if drawn[step])))
    exact = np.log(density(seen, patterns, 1.0) / density(seen, NOBODY, 1.0))
    assert evidence(seen, NOISES, plan) == pytest.approx(exact, rel=1e-10)


def test_correlated_noise_is_undone_before_scores_are_formed() -> None:
    """Two bands, coefficients (2, 1): y_t = 2 G_t + G_(t-1) has independent noise of std sigma |m|. A row has its turn
    in even or odd steps, there with probability r: the likelihood of y, by enumeration."""
    sampling = CyclicPoissonSampling(rate=0.5, coefficients=(2, 1))
    plan = plan_of(sampling, steps=4, noise_multiplier=1.3)
    released = moves(3)
    y = 2 * released + np.concatenate([np.zeros((1, CANARIES)), released[:-1]])
    std = 1.3 * np.sqrt(5)

    def likelihood(drawn: tuple[int, ...]) -> np.ndarray:
        signal = np.array([1.0 if step in drawn else 0.0 for step in range(4)])
        mean = 2 * signal + np.concatenate([[0.0], signal[:-1]])
        return np.prod(norm.pdf(y, mean[:, None], std), axis=0)

    turns = [[(), (0,), (2,), (0, 2)], [(), (1,), (3,), (1, 3)]]
    exact = np.log(sum(0.5 * 0.25 * likelihood(one) for turn in turns for one in turn) / likelihood(()))
    assert evidence(released, np.full(4, 1.3), plan) == pytest.approx(exact, rel=1e-9)


def test_far_moves_do_not_overflow() -> None:
    plan = plan_of(PoissonSampling(rate=1e-6))
    found = evidence(np.full((STEPS, 1), 1e9), np.full(STEPS, 1e-3), plan)
    assert np.isfinite(found).all()
    assert found > 100
