"""The bound for any mechanism: it is the linear programme of its theorem, mechanisms keep it, and it is directed."""

import numpy as np
import pytest
from scipy.optimize import linprog

from discreet.accounting.answers.tradeoff import GaussianTradeOff, from_pairs
from discreet.audit.bounds import any_mechanism
from discreet.audit.bounds.curve_lines import Lines


def programme(lines: Lines, right: int, guesses: int, canaries: int) -> float:
    """The largest P(C >= right) over all laws p of C with r_{i+1} <= c + g h_i for each line and i, by HiGHS."""
    counts = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(guesses):
        r = np.where(counts >= i + 1, counts / canaries, 0.0)
        h = np.where(counts >= i, (guesses - counts) / canaries, 0.0)
        for growth, constant in zip(lines.growths, lines.constants, strict=True):
            scale = 1 / (1 + growth)
            rows.append((r - growth * h) * scale)
            limits.append(constant * scale)
    found = linprog(
        -(counts >= right).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, guesses + 1)),
        b_eq=[1],
        bounds=(0, 1),
        method="highs",
    )
    assert found.status == 0
    return float(-found.fun)


def thinned(lines: Lines, count: int = 60) -> Lines:
    chosen = np.unique(np.linspace(0, len(lines.growths) - 1, count).astype(int))
    return Lines(np.ascontiguousarray(lines.growths[chosen]), np.ascontiguousarray(lines.constants[chosen]))


CURVES = {
    "gaussian 0.3": Lines.gaussian(0.3),
    "gaussian 1": Lines.gaussian(1.0),
    "gaussian 2": Lines.gaussian(2.0),
    "pair": Lines.of(from_pairs(np.array([1.0]), np.array([0.01]))),
}
COUNTS = [(14, 20, 20), (18, 20, 20), (20, 20, 20), (9, 10, 40), (10, 10, 40), (28, 30, 30), (1, 2, 2), (5, 10, 10)]


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("right", "guesses", "canaries"), COUNTS)
def test_the_recursion_is_the_linear_programme(curve: str, right: int, guesses: int, canaries: int) -> None:
    """Where HiGHS and the recursion differ by more than 1e-6, one of them is wrong. HiGHS keeps constraints to 1e-7, so
    values below 1e-4 are compared as such."""
    lines = thinned(CURVES[curve])
    exact, found = programme(lines, right, guesses, canaries), any_mechanism.p_value(lines, right, guesses, canaries)
    assert found == pytest.approx(exact, rel=2e-3, abs=2e-6)


def test_randomised_response_keeps_its_bound_exactly() -> None:
    """Each coin answered truly with e^eps / (1 + e^eps), all alone: the binomial tail. Of two coins with one shared
    answer, both are right or wrong together."""
    epsilon, canaries = 1.0, 12
    chance = np.exp(epsilon) / (1 + np.exp(epsilon))
    lines = Lines.of(from_pairs(np.array([epsilon]), np.array([1e-300])))
    law = np.array([1.0])
    for _ in range(canaries):
        law = np.convolve(law, [1 - chance, chance])
    for right in range(canaries // 2, canaries + 1):
        assert any_mechanism.p_value(lines, right, canaries, canaries) >= law[right:].sum()


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_full_disclosure_now_and_then_keeps_its_bound_and_reaches_it(share: float) -> None:
    """With probability `share` all coins are published, else none: (0, share)-privacy. All of 20 guesses are right with
    probability share + (1 - share) 2^-20, which no bound may deny, and the bound is at most twice that."""
    lines = Lines.of(from_pairs(np.array([0.0]), np.array([share])))
    exact = share + (1 - share) * 2.0**-20
    found = any_mechanism.p_value(lines, 20, 20, 20)
    assert exact <= found <= 2 * exact


def test_more_right_guesses_and_more_private_curves_are_refuted_more() -> None:
    ps = [any_mechanism.p_value(Lines.gaussian(1.0), right, 100, 200) for right in range(50, 101, 5)]
    assert ps == sorted(ps, reverse=True)
    assert ps[-1] < 2e-3 < 1.0 == ps[0]
    ps = [any_mechanism.p_value(Lines.gaussian(mu), 90, 100, 200) for mu in (0.1, 0.5, 1.0, 1.5, 3.0)]
    assert ps == sorted(ps)
    assert ps[0] < 1e-6
    assert ps[-1] == 1.0


def test_what_makes_no_sense_refutes_nothing() -> None:
    lines = Lines.gaussian(1.0)
    for counts in ((0, 10, 20), (11, 10, 20), (10, 30, 20), (-1, 10, 20)):
        assert any_mechanism.p_value(lines, *counts) == 1.0
    nan = Lines(np.full(3, np.nan), np.full(3, np.nan))
    for broken in (nan, Lines(np.zeros(0), np.zeros(0)), Lines(np.array([np.inf]), np.array([0.0]))):
        assert any_mechanism.p_value(broken, 10, 10, 20) == 1.0
    for level in (0.0, -1.0, float("nan")):
        assert not any_mechanism.refuted(lines, 20, 20, 20, level)


def test_polygons_and_tangents_of_one_gaussian_agree() -> None:
    tangents, polygon = Lines.gaussian(1.0), Lines.of(GaussianTradeOff(1.0).polygon())
    for right in (80, 90, 95):
        one, other = (any_mechanism.p_value(lines, right, 100, 1000) for lines in (tangents, polygon))
        assert one == pytest.approx(other, rel=1e-2)
