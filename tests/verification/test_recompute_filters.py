"""The verifier's own filters: divergences against 20-digit quadrature, conversions against formulas."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest

from discreet.core.errors import InputError
from discreet.verification.recompute import filters
from discreet.verification.recompute.events import Part
from discreet.verification.recompute.renyi import renyi

SAMPLED = [(0.01, 1.0), (0.3, 0.7), (1e-3, 5.0), (0.5, 60.0), (0.9, 2.0)]
ORDERS = [1.25, 1.5, 2.0, 3.3, 7.0, 12.6, 40.0]


def by_quadrature(rate: float, noise: float, order: float) -> float:
    """log E_N[(1 - q + q e(z))^a] / (a - 1) by mpmath, 20 digits."""
    with mpmath.workdps(20):
        q, mu, a = mpmath.mpf(rate), 1 / mpmath.mpf(noise), mpmath.mpf(order)

        def density(z: Any) -> Any:
            return mpmath.npdf(z) * (1 - q + q * mpmath.exp(mu * z - mu * mu / 2)) ** a

        peak = float(a * mu)
        moment = mpmath.quad(density, [-40, -10, 0, peak / 2, peak, peak + 10, peak + 40])
        return float(mpmath.log(moment) / (a - 1))


@pytest.mark.parametrize(("rate", "noise"), SAMPLED)
def test_divergences_bound_the_quadrature_from_above_and_closely(rate: float, noise: float) -> None:
    for order in ORDERS:
        truth, found = by_quadrature(rate, noise, order), renyi([Part(rate, 1 / noise, 1)], order)
        assert truth <= found <= truth * (1 + 3e-5), order


@pytest.mark.parametrize(("rate", "noise", "order"), [(0.3, 0.7, 40.5), (1e-4, 0.8, 31.4), (0.01, 20.0, 300.5)])
def test_far_orders_lie_between_their_neighbours(rate: float, noise: float, order: float) -> None:
    """Log-moments are convex in the order, so whole orders, closed forms, bound the others from both sides."""
    part = Part(rate, 1 / noise, 1)
    low, high = math.floor(order), math.ceil(order)
    at = {a: (a - 1) * renyi([part], float(a)) for a in (low - 1, low, high)}
    chord = at[low] + (order - low) * (at[high] - at[low])
    beyond = at[low] + (order - low) * (at[low] - at[low - 1])
    assert beyond * (1 - 1e-9) <= (order - 1) * renyi([part], order) <= chord * (1 + 1e-6)


def test_unsampled_parts_and_sums() -> None:
    assert renyi([Part(1.0, 0.5, 4)], 3.0) == pytest.approx(4 * 3.0 * 0.25 / 2, rel=1e-9)
    one, other = Part(0.1, 0.5, 7), Part(1.0, 0.25, 2)
    total = renyi([one, other], 5.0)
    assert total == pytest.approx(7 * by_quadrature(0.1, 2.0, 5.0) + 2 * 5.0 / 32, rel=1e-9)
    assert total >= 7 * by_quadrature(0.1, 2.0, 5.0) + 2 * 5.0 / 32


def gaussian(noise: float, query: str = "clipped_sum") -> dict[str, Any]:
    return {"event": "gaussian", "noise_multiplier": noise, "query": query}


def filter_of(kind: str, **fields: Any) -> dict[str, Any]:
    return {"filter": kind, "delta": 1e-5, "adjacency": "add_remove", "unit": "example"} | fields


def test_gaussian_and_zcdp_filters_add_up_mu_squared() -> None:
    events = {"event": "compose", "of": [{"event": "repeat", "count": 8, "of": gaussian(4.0)}]}
    assert filters.excess(filter_of("gdp", mu_squared=1.0), events) == pytest.approx(0.5, rel=1e-9)
    assert filters.excess(filter_of("zcdp", rho=0.25), events) == pytest.approx(1.0, rel=1e-9)
    replaced = filter_of("gdp", mu_squared=1.0) | {"adjacency": "replace_one"}
    assert filters.excess(replaced, events) == pytest.approx(2.0, rel=1e-9)
    sampled = {"event": "poisson", "rate": 0.1, "of": gaussian(4.0)}
    for name in ("gdp", "zcdp"):
        with pytest.raises(InputError, match="no exact mu"):
            filters.excess(filter_of(name, **({"mu_squared": 1.0} if name == "gdp" else {"rho": 1.0})), sampled)


def test_conversions() -> None:
    """Formulas: Mironov 2017, proposition 3; Canonne, Kamath, Steinke 2020, proposition 12; zCDP by a fine search."""
    order = filter_of("rdp-order", order=5.0, limit=0.5, conversion="classic")
    assert filters.epsilon(order, 1.0, 1e-5) == pytest.approx(0.5 + math.log(1e5) / 4)
    improved = 0.5 + math.log(0.8) + (math.log(1e5) - math.log(5)) / 4
    assert filters.epsilon(order | {"conversion": "improved"}, 1.0, 1e-5) == pytest.approx(improved)
    curve = filter_of("rdp-curve", orders=[2.0, 5.0], limits=[0.1, 0.5])
    assert filters.epsilon(curve, 1.0, 1e-5) == pytest.approx(improved)
    grid = [1 + k / 1000 for k in range(1, 60_000)]
    best = min(0.3 * a + math.log1p(-1 / a) + (math.log(1e5) - math.log(a)) / (a - 1) for a in grid)
    assert filters.epsilon(filter_of("zcdp", rho=0.3), 1.0, 1e-5) == pytest.approx(best, rel=1e-5)
    assert filters.epsilon(filter_of("zcdp", rho=0.2), 1.5, 1e-5) == pytest.approx(best, rel=1e-5)
    limit, order, delta = 19.879973243257442, 1.0000000077266096, 0.9999999999850702  # where logarithms cancel
    near = filter_of("rdp-order", order=order, limit=limit, delta=delta, conversion="improved")
    with mpmath.workdps(50):
        a = mpmath.mpf(order)
        exact = limit + mpmath.log(1 - 1 / a) - (mpmath.log(delta) + mpmath.log(a)) / (a - 1)
        assert exact <= filters.epsilon(near, 1.0, delta) <= exact + 1e-9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"filter": "basic"}, "not known"),
        ({"extra": 1}, "exactly the fields"),
        ({"limit": math.nan}, "limit"),
        ({"limit": -1.0}, "limit"),
        ({"limit": True}, "limit"),
        ({"order": 1.0}, "above 1"),
        ({"conversion": "hopeful"}, "unknown conversion"),
    ],
)
def test_malformed_filters_are_refused(changed: dict[str, Any], message: str) -> None:
    order = filter_of("rdp-order", order=5.0, limit=0.5, conversion="classic")
    with pytest.raises(InputError, match=message):
        filters.excess(order | changed, gaussian(4.0))


def test_fixed_and_truncated_batches_are_refused() -> None:
    fixed = {"event": "fixed_size", "population": 100, "batch": 10, "of": gaussian(4.0)}
    budget = filter_of("rdp-order", order=5.0, limit=0.5, conversion="classic") | {"adjacency": "replace_one"}
    with pytest.raises(InputError, match="no theorem"):
        filters.excess(budget, fixed)
