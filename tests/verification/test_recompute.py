"""The independent accountant against published figures, closed forms and 30-digit arithmetic."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest

from discreet.accounting.account import guarantee
from discreet.core.errors import InputError
from discreet.core.events.event_json import from_json
from discreet.core.rounding import CONFIRMABLE
from discreet.verification import recompute
from discreet.verification.recompute import decide, epsilon_bounds
from discreet.verification.recompute.events import Part


def gaussian(sigma: Any, query: Any = "clipped_sum") -> dict[str, Any]:
    return {"event": "gaussian", "noise_multiplier": sigma, "query": query}


def poisson(rate: Any, inner: Any) -> dict[str, Any]:
    return {"event": "poisson", "rate": rate, "of": inner}


def repeat(inner: Any, count: Any) -> dict[str, Any]:
    return {"event": "repeat", "count": count, "of": inner}


def dp_sgd(rate: float, sigma: float, steps: int) -> dict[str, Any]:
    return repeat(poisson(rate, gaussian(sigma)), steps)


# dp-accounting 0.6.0, PLDAccountant, pessimistic, discretisation 5e-5, add/remove. That is itself an upper bound; a
# correct tight bound lies between 0.02 % below and 0.3 % above it.
P = 256 / 60000
FIGURES = [
    (0.01, 6.0, 40000, 1e-5, 1.28295),
    (P, 1.3, 3516, 1e-5, 0.86455),
    (P, 1.1, 14062, 1e-5, 2.38162),
    (P, 0.7, 10547, 1e-5, 5.63969),
    (P, 0.6, 14531, 1e-5, 10.94948),
    (P, 0.55, 15938, 1e-5, 15.71629),
    (P, 0.5, 23438, 1e-5, 28.04603),
    (256 / 29305, 0.55, 2061, 1e-5, 11.80731),
    (512 / 25000, 0.56, 439, 1e-5, 12.14071),
    (1 / 80, 0.6, 1600, 1e-6, 12.74944),
    (0.01, 0.9, 1800, 1e-5, 3.06360),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "figure"), FIGURES)
def test_interval_contains_the_reference_figure_and_is_narrow(
    rate: float, sigma: float, steps: int, delta: float, figure: float
) -> None:
    bounds = epsilon_bounds(dp_sgd(rate, sigma, steps), delta, "add_remove", tolerance=1e-3)
    assert bounds.lower <= figure <= bounds.upper * 1.0002
    assert bounds.upper <= figure * 1.003
    assert bounds.upper - figure <= 1e-3
    assert bounds.lower >= figure * 0.99


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-4])
def test_intervals_of_every_grid_overlap(tolerance: float) -> None:
    events = dp_sgd(0.01, 0.9, 1800)
    best = epsilon_bounds(events, 1e-5, "add_remove", tolerance=1e-5)
    other = epsilon_bounds(events, 1e-5, "add_remove", tolerance=tolerance)
    assert other.lower <= best.lower <= best.upper <= other.upper
    assert other.upper - best.lower <= tolerance
    assert best.upper - best.lower < 1e-4


def test_a_cap_on_grid_points_widens_the_interval_and_keeps_it_valid() -> None:
    events = dp_sgd(0.01, 0.9, 1800)
    best = epsilon_bounds(events, 1e-5, "add_remove", tolerance=1e-4)
    capped = epsilon_bounds(events, 1e-5, "add_remove", tolerance=1e-4, max_grid_points=2048)
    assert capped.grid > best.grid
    assert capped.lower <= best.lower <= best.upper <= capped.upper < 2 * best.upper


def one_step_epsilon(rate: float, sigma: float, delta: float) -> float:
    """Hockey-stick divergences of (1-q)N(0,s^2)+qN(1,s^2) and N(0,s^2), both ways, in 40 digits; bisected to 30."""
    with mpmath.workdps(40):
        q, s, d = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(delta)

        def above(x: Any, mean: int) -> Any:
            return mpmath.erfc((x - mean) / s / mpmath.sqrt(2)) / 2

        def excess(epsilon: Any) -> Any:
            found = []
            level = (mpmath.exp(epsilon) - (1 - q)) / q  # removal: mixture > e^epsilon base iff ratio > level
            x = s**2 * mpmath.log(level) + mpmath.mpf(1) / 2
            found.append((1 - q) * above(x, 0) + q * above(x, 1) - mpmath.exp(epsilon) * above(x, 0))
            level = (mpmath.exp(-epsilon) - (1 - q)) / q  # addition: base > e^epsilon mixture iff ratio < level
            if level > 0:
                x = s**2 * mpmath.log(level) + mpmath.mpf(1) / 2
                base, moved = 1 - above(x, 0), 1 - above(x, 1)
                found.append(base - mpmath.exp(epsilon) * ((1 - q) * base + q * moved))
            return max(found) - d

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        if excess(low) <= 0:
            return 0.0
        while excess(high) > 0:
            high *= 2
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float(high)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0, 20.0, 1e6])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
def test_one_step_against_closed_form_in_many_digits(rate: float, sigma: float, delta: float) -> None:
    exact = one_step_epsilon(rate, sigma, delta)
    bounds = epsilon_bounds(poisson(rate, gaussian(sigma)), delta, "add_remove", tolerance=1e-3)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper - exact <= 1e-3
    assert exact - bounds.lower <= 1e-3 * max(1.0, exact)


@pytest.mark.parametrize("rate", [0.01, 0.999])
def test_one_step_of_very_little_noise(rate: float) -> None:
    exact = one_step_epsilon(rate, 0.07, 1e-5)
    bounds = epsilon_bounds(poisson(rate, gaussian(0.07)), 1e-5, "add_remove", tolerance=0.1)
    assert bounds.lower <= exact <= bounds.upper <= exact + 0.1


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("sigma", [1.0, 30.0])
def test_fourier_path_agrees_with_the_analytic_gaussian(sigma: float, delta: float) -> None:
    count = 500
    bounds = recompute.by_fourier([Part(1.0, 1 / sigma, count)], delta, 1e-3, 2**23)
    exact = epsilon_bounds(repeat(gaussian(sigma), count), delta, "add_remove", tolerance=1e-3)
    assert exact.grid == 0
    assert exact.upper - exact.lower <= 1e-9 * exact.upper
    assert bounds.lower <= exact.lower <= exact.upper <= bounds.upper
    assert bounds.upper - bounds.lower <= 2e-3


@pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0, 7.0, 40.0, 300.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30])
def test_closed_form_against_many_digits(mu: float, delta: float) -> None:
    """Balle and Wang (2018), theorem 8."""
    bounds = epsilon_bounds(gaussian(1 / mu), delta, "zero_out", tolerance=1.0)

    def curve(epsilon: float) -> Any:
        with mpmath.workdps(80):
            e, m = mpmath.mpf(epsilon), 1 / mpmath.mpf(1 / mu)
            u, v = (e / m - m / 2) / mpmath.sqrt(2), (e / m + m / 2) / mpmath.sqrt(2)
            return (mpmath.erfc(u) - mpmath.exp(e) * mpmath.erfc(v)) / 2

    assert curve(bounds.upper) <= delta
    assert bounds.lower == 0 or curve(bounds.lower) > delta
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper


def test_tiny_delta_stays_accurate_in_composition() -> None:
    events = dp_sgd(0.01, 1.0, 1000)
    narrow = [epsilon_bounds(events, delta, "add_remove", tolerance=1e-3) for delta in (1e-9, 1e-12, 1e-30)]
    assert all(bounds.upper - bounds.lower < 3e-3 for bounds in narrow)
    assert narrow[0].upper < narrow[1].lower < narrow[1].upper < narrow[2].lower


def test_equal_parts_merge_and_order_is_irrelevant() -> None:
    step, other = poisson(0.01, gaussian(1.0)), poisson(0.02, gaussian(2.0))
    merged = epsilon_bounds([repeat(step, 300), repeat(other, 50)], 1e-5, "add_remove", tolerance=1e-3)
    spread = [repeat(repeat(step, 50), 2), repeat(other, 49), {"event": "compose", "of": [repeat(step, 200), other]}]
    assert epsilon_bounds(spread, 1e-5, "zero_out", tolerance=1e-3) == merged
    assert epsilon_bounds(spread[::-1], 1e-5, "add_remove", tolerance=1e-3) == merged


def test_queries_on_one_draw_are_one_query() -> None:
    one = dp_sgd(0.01, 1.0, 100)
    inner = {"event": "compose", "of": [gaussian(2.0), repeat(gaussian(2.0, "count"), 3)]}
    two = repeat(poisson(0.01, inner), 100)
    a, b = (epsilon_bounds(e, 1e-5, "add_remove", tolerance=1e-3) for e in (one, two))
    assert a.upper == pytest.approx(b.upper, rel=1e-9)
    assert a.lower == pytest.approx(b.lower, rel=1e-9)


def test_a_mixture_of_sampled_and_unsampled_lies_between_its_parts() -> None:
    sampled, whole = dp_sgd(0.01, 1.0, 500), repeat(gaussian(20.0), 10)
    apart = [epsilon_bounds(e, 1e-5, "add_remove", tolerance=1e-3) for e in (sampled, whole)]
    joint = epsilon_bounds([sampled, whole], 1e-5, "add_remove", tolerance=1e-3)
    assert joint.upper - joint.lower < 3e-3
    assert max(bounds.upper for bounds in apart) < joint.lower
    assert epsilon_bounds([sampled, whole], 2e-5, "add_remove", tolerance=1e-3).lower < sum(b.upper for b in apart)


@pytest.mark.parametrize(
    ("query", "ratio"), [("clipped_sum", 2.0), ("centred_bit", 2.0), ("covariance", math.sqrt(2)), ("count", 1.0)]
)
def test_replace_one_ratio(query: str, ratio: float) -> None:
    replaced = epsilon_bounds(repeat(gaussian(4.0, query), 9), 1e-5, "replace_one", tolerance=1.0)
    scaled = epsilon_bounds(repeat(gaussian(4.0 / ratio), 9), 1e-5, "add_remove", tolerance=1.0)
    assert replaced.upper == pytest.approx(scaled.upper, rel=1e-9)


def test_extremes_fail_closed_or_are_trivial() -> None:
    assert epsilon_bounds([], 1e-5, "add_remove", tolerance=1e-3) == recompute.Bounds(0, 0, 0)
    assert epsilon_bounds(dp_sgd(0.01, 0.01, 10), 1e-5, "add_remove", tolerance=1e-3).upper == math.inf
    assert epsilon_bounds(dp_sgd(0.5, 1e300, 10), 1e-5, "add_remove", tolerance=1e-3).upper <= 1e-3
    assert epsilon_bounds(gaussian(1e-300), 1e-5, "add_remove", tolerance=1e-3).upper == math.inf


def test_forged_claims_are_rejected_and_honest_ones_accepted() -> None:
    events = dp_sgd(0.01, 0.9, 1800)
    bounds = epsilon_bounds(events, 1e-5, "add_remove", tolerance=1e-4)
    honest = decide(events, 1e-5, "add_remove", bounds.upper * 1.0005)
    forged = decide(events, 1e-5, "add_remove", bounds.lower * 0.99)
    undecided = decide(events, 1e-5, "add_remove", (bounds.lower + bounds.upper) / 2, finest=0)
    assert honest.accepted
    assert not forged.accepted
    assert "below the proved lower bound" in forged.reason
    assert not undecided.accepted
    assert "not supported" in undecided.reason
    assert not decide(dp_sgd(0.01, 0.01, 10), 1e-5, "add_remove", 1e300).accepted


def test_claim_between_grids_needs_refinement() -> None:
    events = dp_sgd(0.01, 0.9, 1800)
    claim = epsilon_bounds(events, 1e-5, "add_remove", tolerance=3e-4).upper
    assert not decide(events, 1e-5, "add_remove", claim, finest=0).accepted
    assert decide(events, 1e-5, "add_remove", claim).accepted


@pytest.mark.parametrize("sigma", [4193.71, 12346.71])
def test_small_claims_are_decided_as_finely_as_large_ones(sigma: float) -> None:
    """Epsilons below 1e-4, with what plans leave above the least."""
    events = dp_sgd(0.1, sigma, 20)
    found = guarantee(from_json(events), 1e-5)
    assert found.epsilon < 1e-4
    assert decide(events, 1e-5, "add_remove", found.epsilon * CONFIRMABLE).accepted
    assert not decide(events, 1e-5, "add_remove", 0.998 * found.epsilon).accepted


@pytest.mark.parametrize("claim", [0.0, 1e-9, 1e-3])
def test_a_tiny_claim_far_below_is_rejected_as_soon_as_a_large_one(
    claim: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forger may not have the verifier compute on ever finer grids, where nothing is known from below."""
    asked: list[float] = []

    def bounds(*_: Any, tolerance: float, **__: Any) -> recompute.Bounds:
        asked.append(tolerance)
        return recompute.Bounds(0.0, 0.5, 1e-3)

    monkeypatch.setattr(recompute, "epsilon_bounds", bounds)
    assert not decide([], 1e-5, "add_remove", claim).accepted
    assert len(asked) == recompute.FINEST + 1


def test_what_rounding_decides_is_not_computed_on_the_finest_grids_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim of zero for a delta that no run can exceed took five minutes."""
    asked: list[int] = []

    def bounds(*_: Any, max_grid_points: int, **__: Any) -> recompute.Bounds:
        asked.append(max_grid_points)
        return recompute.Bounds(0.0, 7e-14, 1e-3)

    monkeypatch.setattr(recompute, "epsilon_bounds", bounds)
    assert not decide([], 0.9, "add_remove", 0.0).accepted
    assert [*map(asked.count, (recompute.MOST_POINTS, recompute.LATER_POINTS))] == [6, len(asked) - 6]
    assert recompute.LATER_POINTS <= recompute.MOST_POINTS // 4


BAD = [math.nan, -1.0, 0.0, math.inf, True, "1", None, 10**400]


@pytest.mark.parametrize("value", BAD)
def test_bad_numbers_are_refused(value: Any) -> None:
    for events in (gaussian(value), poisson(value, gaussian(1.0)), repeat(gaussian(1.0), value)):
        with pytest.raises(InputError):
            epsilon_bounds(events, 1e-5, "add_remove", tolerance=1e-3)
    for delta, tolerance in ((value, 1e-3), (1e-5, value)):
        with pytest.raises(InputError):
            epsilon_bounds(gaussian(1.0), delta, "add_remove", tolerance=tolerance)
    if value != 0:
        with pytest.raises((InputError, OverflowError) if value == 10**400 else InputError):
            decide(gaussian(1.0), 1e-5, "add_remove", value)


@pytest.mark.parametrize("delta", [1, 1.0, 1.5, 1e300])
def test_a_delta_at_which_everything_is_allowed_is_refused(delta: float) -> None:
    for events in (gaussian(1.0), poisson(0.1, gaussian(1.0)), []):
        with pytest.raises(InputError, match="delta must be less than 1"):
            epsilon_bounds(events, delta, "add_remove", tolerance=1e-3)


@pytest.mark.parametrize("wrong", [True, False, 1023, 4096.0, "4096", None, -1])
def test_settings_of_grids_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(InputError, match="max_grid_points must be a whole number"):
        epsilon_bounds(gaussian(1.0), 1e-5, "add_remove", tolerance=1e-3, max_grid_points=wrong)
    if not isinstance(wrong, int) or wrong is True or wrong < 0:
        with pytest.raises(InputError, match="finest must be a whole number"):
            decide(gaussian(1.0), 1e-5, "add_remove", 9.0, finest=wrong)


def nested(depth: int) -> Any:
    return gaussian(1.0) if depth == 0 else [nested(depth - 1)]


@pytest.mark.parametrize(
    ("events", "adjacency", "names"),
    [
        (poisson(0.1, gaussian(1.0)), "replace_one", "poisson"),
        (poisson(1.0, gaussian(1.0)), "replace_one", "poisson"),
        (poisson(0.1, poisson(0.1, gaussian(1.0))), "add_remove", "poisson"),
        (poisson(1.5, gaussian(1.0)), "add_remove", "rate"),
        (gaussian(1.0), "add-remove", "adjacency"),
        (gaussian(1.0, "sum"), "add_remove", "sum"),
        (gaussian(1.0) | {"note": 1}, "add_remove", "note"),
        ({"event": "laplace", "noise_multiplier": 1.0}, "add_remove", "laplace"),
        ({"event": ["gaussian"]}, "add_remove", "event"),
        ({"event": "compose", "of": gaussian(1.0)}, "add_remove", "compose"),
        (repeat(gaussian(1.0), 2.0), "add_remove", "count"),
        (repeat(repeat(gaussian(1.0), 10**9), 10**9), "add_remove", "count"),
        (nested(100), "add_remove", "deep"),
        (3, "add_remove", "3"),
    ],
)
def test_unsupported_events_are_refused_by_name(events: Any, adjacency: str, names: str) -> None:
    with pytest.raises(InputError, match=names):
        epsilon_bounds(events, 1e-5, adjacency, tolerance=1e-3)
