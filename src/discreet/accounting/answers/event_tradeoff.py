"""The trade-off function of a plan that is fixed before the data is seen, from its privacy-loss distribution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.accounting.answers.tradeoff import (
    GaussianTradeOff,
    PolygonalTradeOff,
    TradeOff,
    from_mu,
    from_pairs,
    polygonal,
)
from discreet.accounting.interpret import releases
from discreet.accounting.pld.delta_profile import FOCUS, joined, truncated_profile, whole_profile
from discreet.accounting.releases import Releases
from discreet.accounting.theories import gdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import DiscreetError
from discreet.core.events import Event, tally


def trade_off(event: Event, adjacency: Adjacency = Adjacency.ADD_REMOVE, focus: float = FOCUS) -> TradeOff:
    """The trade-off function of a plan that is fixed before the data is seen, from its privacy-loss distribution.

    Of what it returns, `power` gives the most true positives that any attack has at false positive rates, to plot
    against them; `lower` and `upper` bound the least share of false negatives, `advantage` true positives less false
    ones, `delta` and `epsilon` one by the other, and `group` gives the curve of several units together.

    Gaussians without sampling are exact. Truncated batches have the least delta of two theorems at every epsilon: that
    of batches of any size and the chance of an overflow (`loosened`), and that of a unit which replaces another where
    a batch is full (`truncated_pair`); `guarantee` takes the same two. Both bound delta from above at every knot, and
    so does their least one; the true delta is convex in e^eps, hence also below the chords of these knots. Tests are
    those of batches of any size: in a data set of at most `capacity` units nobody is left out.

    `focus` is the delta near which bounds are tightest; the default suits false positive rates down to 1e-9. Pure
    releases count in `lower` only; `upper` is that of the Gaussians. `NotProved` for a Selection, and for events that
    `account.guarantee` does not cover by method pld. Numerical failure gives f = 0.
    """
    if not tally(event):
        return GaussianTradeOff(0.0)
    try:
        with np.errstate(all="ignore"):
            parts = releases(event, adjacency)
            bounded = parts.bounded_losses()
            if not (parts.sampled or bounded or parts.periods):
                curve = from_mu(gdp.compose_mu((part.noise, part.count) for part in parts.gaussians))
                exact = not (parts.dominated or parts.overflow or parts.escapes)
                return curve if exact else _known(curve, parts, focus)
            symmetrised = parts.sampled and parts.fixed_size
            known = parts.unamplified, parts.periods
            found = whole_profile(known[0], focus, symmetrised=symmetrised, bounded=bounded, periods=known[1])
            curve = polygonal(found.epsilons, found.deltas, found.false_positives, found.true_positives)
            return _known(curve, parts, focus)
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError):
        return from_pairs(np.zeros(1), np.ones(1))


def _known(curve: TradeOff, parts: Releases, focus: float) -> PolygonalTradeOff:
    """`curve` is that of batches of any size: what truncation and sparse histograms add, and which tests exist."""
    found = curve.loosened(parts.overflow, parts.escapes)
    known = found.polygon() if isinstance(found, GaussianTradeOff) else found
    assert isinstance(known, PolygonalTradeOff)
    if parts.overflow > 0 and parts.filled_tells_all:
        either = parts.adjacency is Adjacency.ZERO_OUT
        other = truncated_profile(parts.filled, parts.never_truncated, focus, either=either)
        sharper = replace(known, epsilons=other[0], deltas=other[1]).loosened(0.0, parts.escapes)
        epsilons, deltas = joined([(known.epsilons, known.deltas), (sharper.epsilons, sharper.deltas)], np.minimum)
        known = replace(known, epsilons=epsilons, deltas=deltas)
    return known if parts.is_attained else _one_sided(known)


def _one_sided(curve: PolygonalTradeOff) -> PolygonalTradeOff:
    """The lower bound on f alone: for a release that is merely dominated, no test is known to exist."""
    return polygonal(curve.epsilons, curve.deltas, np.zeros(0), np.zeros(0))
