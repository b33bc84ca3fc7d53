"""Numbers of guesses: fixed beforehand, or paid for. Chosen on the scores themselves, a bound errs far oftener."""

import numpy as np
import pytest

from discreet import trade_off
from discreet.accounting.theories import gdp
from discreet.audit.bounds import any_mechanism, independent_places
from discreet.audit.bounds.curve_families import Gaussians, PlanFamily, largest_refuted
from discreet.audit.bounds.curve_lines import Lines
from discreet.audit.bounds.guess_counts import candidates, corrected, expected_right, planned
from discreet.audit.bounds.guessing import right_guesses
from discreet.core.errors import InputError
from discreet.core.events import Gaussian, Poisson, Repeat

CANARIES, MU = 200, 0.5
NINE = [20, 40, 60, 80, 100, 120, 140, 160, 180]


def p_values(runs: int) -> np.ndarray:
    """p against the true curve, shape (runs, 9): one for each number of guesses."""
    rng, lines, known = np.random.default_rng(8), Lines.gaussian(MU), {}
    found = np.empty((runs, len(NINE)))
    for run in range(runs):
        coins = rng.random(CANARIES) < 0.5
        scores = coins * MU + rng.standard_normal(CANARIES)
        for place, guesses in enumerate(NINE):
            right = right_guesses(scores, coins, guesses)
            if (right, guesses) not in known:
                known[right, guesses] = independent_places.p_value(lines, right, guesses, CANARIES)
            found[run, place] = known[right, guesses]
    return found


def test_the_best_of_nine_errs_far_oftener_than_it_states() -> None:
    """1,500 runs at 5 %. Each number alone errs in at most 5 %, and 6.5 % would be seen with probability 0.4 % of a
    single one; the best of nine errs in some 15 %, which Bonferroni puts right."""
    found = p_values(1500)
    assert np.all((found <= 0.05).mean(axis=0) < 0.065)
    assert (found.min(axis=1) <= 0.05).mean() > 0.11
    paid = np.array([corrected(list(row)) for row in found])
    assert (paid <= 0.05).mean() < 0.05


def test_numbers_that_are_tried_are_even_and_at_most_all() -> None:
    tried = candidates(1000)
    assert tried[-1] == 1000
    assert all(count % 2 == 0 for count in tried)
    assert candidates(3)[-1] <= 3


def test_planned_depends_on_plan_and_canaries_alone_and_is_about_the_best() -> None:
    claimed = Lines.gaussian(gdp.mu_for(4.0, 1e-5))

    def bound(right: int, guesses: int) -> float:
        refutes = lambda lines: any_mechanism.refuted(lines, right, guesses, 1000, 0.05)  # noqa: E731
        return largest_refuted(Gaussians(), refutes, start=1.0, precision=1e-2)

    best = planned(claimed, 1000, bound)
    assert 60 <= best <= 400
    assert bound(expected_right(claimed, best, 1000), best) >= bound(expected_right(claimed, 1000, 1000), 1000)


def test_expected_counts_are_those_of_a_simulation() -> None:
    rng, runs, guesses = np.random.default_rng(9), 4000, 40
    coins = rng.random((runs, CANARIES)) < 0.5
    scores = coins * MU + rng.standard_normal(coins.shape)
    mean = np.mean([right_guesses(one, coin, guesses) for one, coin in zip(scores, coins, strict=True)])
    assert expected_right(Lines.gaussian(MU), guesses, CANARIES) == pytest.approx(mean, abs=1.0)


def test_guesses_are_the_surest_ones() -> None:
    coins = np.array([True, True, False, False])
    assert right_guesses(np.array([4.0, 3.0, 2.0, 1.0]), coins, 4) == 4
    assert right_guesses(np.array([4.0, 1.0, 2.0, 3.0]), coins, 2) == 1
    assert right_guesses(np.array([4.0, np.nan, 2.0, 3.0]), coins, 2) == 1
    assert right_guesses(np.array([4.0, 3.0, 2.0, 1.0]), coins, 1) == 1
    assert right_guesses(np.array([1.0, 2.0, 3.0, 4.0]), coins, 4) == 0


def test_corrected() -> None:
    assert corrected([0.01, 0.2]) == pytest.approx(0.02)
    assert corrected([0.9, 0.8]) == 1.0
    with pytest.raises(InputError):
        corrected([])


def test_the_largest_curve_that_is_refuted_is_at_the_border() -> None:
    family = Gaussians()

    def refutes(lines: Lines) -> bool:
        return any_mechanism.refuted(lines, 150, 170, 1000, 0.05)

    for start in (0.01, 1.0, 8.0):
        size = largest_refuted(family, refutes, start=start)
        assert refutes(family.lines(size))
        assert not refutes(family.lines(size * 1.001))
    assert family.epsilon(size, 1e-5) == pytest.approx(gdp.epsilon_bounds(size, 1e-5)[1], rel=1e-6)
    assert largest_refuted(family, lambda _: False, start=1.0) == 0.0
    assert largest_refuted(family, lambda _: True, start=1.0) <= family.most


def test_plans_with_other_noise_are_a_family() -> None:
    family = PlanFamily(lambda size: trade_off(Repeat(Poisson(0.2, Gaussian(2.0 / size)), 20)))
    assert family.epsilon(1.0, 1e-5) < family.epsilon(2.0, 1e-5)
    true = trade_off(Repeat(Poisson(0.2, Gaussian(2.0)), 20))
    assert family.epsilon(1.0, 1e-5) == pytest.approx(true.epsilon(1e-5), rel=1e-9)
    assert family.epsilon(1.0, 1e-5) < true.epsilon(1e-5)


def test_a_curve_that_cannot_be_computed_is_refuted_by_nothing() -> None:
    def broken(size: float) -> None:
        raise InputError("no curve")

    family = PlanFamily(broken)
    assert not any_mechanism.refuted(family.lines(1.0), 20, 20, 20, 0.9)
    assert independent_places.p_value(family.lines(1.0), 20, 20, 20) == 1.0
    assert family.epsilon(1.0, 1e-5) == 0.0
