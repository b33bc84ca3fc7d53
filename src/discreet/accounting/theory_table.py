"""The table of theories by name, and what each computes. `reasons` says why its figure does or does not hold.

`PROVERS` give bounds, `ESTIMATORS` approximations or conjectures, `REPEATERS` figures as papers compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.epsilon_interval import epsilon_interval
from discreet.accounting.pld.replacement_interval import symmetrised_interval, truncated_upper
from discreet.accounting.releases import Releases
from discreet.accounting.theories import (
    basic_and_advanced,
    gdp,
    paper_figures,
    pure,
    rdp,
    selection,
    sparse,
    truncation,
    zcdp,
)
from discreet.core.adjacency import Adjacency
from discreet.core.errors import NotProved

Tolerance = Callable[[float], float]
Figure = Callable[[Releases, float], float]
Triple = tuple[float, float, int]
"""Sampling rate, effective noise multiplier, number of releases."""


@dataclass(frozen=True, slots=True)
class Proved:
    """An upper bound on epsilon, a lower bound if known, and the theorem's name if it differs from the method's."""

    upper: float
    lower: float | None = None
    theorem: str = ""


_CLOSE = 1.05
"""If the upper bound is within this factor of the lower one, no other theorem is tried."""


def _pld(parts: Releases, delta: float, tolerance: Tolerance) -> Proved:
    if parts.selections:
        return _one_search(parts, delta, tolerance)
    bounded = parts.bounded_losses()
    if bounded:
        return _with_bounded(parts, bounded, delta, tolerance)
    if parts.periods:
        return _with_periods(parts, delta, tolerance)
    if not parts.sampled:
        return _gaussian(parts, delta, "gaussian")
    interval = symmetrised_interval if parts.fixed_size else epsilon_interval
    found = interval(parts.gaussians, delta, tolerance)
    upper, theorem = found.upper, ""
    if parts.fixed_size and math.isinf(upper):
        # Beyond the grid: a sampled release costs no more than the same release without sampling.
        upper = _gaussian(parts, delta).upper
    if not upper <= _CLOSE * found.lower:
        other = _rdp(parts, delta, tolerance).upper
        upper, theorem = (other, "rdp") if other < upper else (upper, "")
    lower = found.lower
    if parts.dominated:
        attained = interval(parts.attained, delta, tolerance).lower if parts.attained else 0.0
        lower = max(attained, _known(parts, delta))
    return Proved(upper, min(upper, lower), theorem)


def _with_periods(parts: Releases, delta: float, tolerance: Tolerance, bounded: Sequence[BoundedLoss] = ()) -> Proved:
    """Random allocation, perhaps with other releases: the loss of its periods is composed with all others.

    The lower bound is that of the same composition where periods attain it, else what is known of the parts.
    """
    found = epsilon_interval(parts.unamplified, delta, tolerance, bounded, parts.periods)
    upper, theorem = found.upper, ""
    if not upper <= _CLOSE * found.lower and not bounded:  # without amplification
        other = _rdp(parts, delta, tolerance).upper if parts.sampled else _gaussian(parts, delta).upper
        upper, theorem = (other, "rdp" if parts.sampled else "gaussian") if other < upper else (upper, "")
    lower = found.lower if parts.is_attained else 0.0
    if not upper <= _CLOSE * lower:
        attained = epsilon_interval(parts.attained, delta, tolerance).lower if parts.attained else 0.0
        lower = max(lower, attained, _known(parts, delta))
    return Proved(upper, min(upper, lower), theorem)


def _with_bounded(parts: Releases, bounded: list[BoundedLoss], delta: float, tolerance: Tolerance) -> Proved:
    """Pure releases, perhaps with Gaussians; the lower bound counts the Gaussians only."""
    if parts.periods:
        return _with_periods(parts, delta, tolerance, bounded)
    interval = symmetrised_interval if parts.sampled and parts.fixed_size else epsilon_interval
    found = interval(parts.gaussians, delta, tolerance, bounded)
    # The pair that dominates all losses in a range is worse than each of them, so Rényi bounds may be lower.
    rivals = [] if any(part.rate < 1 for part in parts.pures) else [_rdp(parts, delta, tolerance).upper]
    if not parts.gaussians:
        rivals.append(basic_and_advanced.by_basic(list(parts.pairs()), delta))
        if len(bounded) == 1 and bounded[0].ranged and bounded[0].count == 1:
            rivals.append(pure.bounded_range_epsilon(bounded[0].epsilon, delta))
    upper, lower = min([found.upper, *rivals]), found.lower
    if parts.dominated:
        attained = interval(parts.attained, delta, tolerance).lower if parts.attained else 0.0
        lower = max(attained, _known(parts, delta))
    return Proved(upper, min(lower, upper))


def _gaussian(parts: Releases, delta: float, theorem: str = "") -> Proved:
    """Without sampling: one Gaussian, exact unless it merely dominates some of the releases."""
    lower, upper = gdp.epsilon_bounds(gdp.compose_mu((part.noise, part.count) for part in parts.gaussians), delta)
    if parts.dominated:
        lower = _known(parts, delta)
        if parts.attained:
            mu = gdp.compose_mu((part.noise, part.count) for part in parts.attained)
            lower = max(lower, gdp.epsilon_bounds(mu, delta)[0])
    return Proved(upper, min(lower, upper), theorem)


def _truncated(parts: Releases, delta: float, tolerance: Tolerance) -> float:
    """Truncated batches, perhaps beside Gaussian releases: no delta is set aside for units that are left out."""
    if not parts.filled_tells_all:
        return math.inf
    either = parts.adjacency is Adjacency.ZERO_OUT
    return truncated_upper(parts.filled, parts.never_truncated, delta, tolerance, either=either)


def _known(parts: Releases, delta: float) -> float:
    """The largest lower bound of any one kind of epoch or period, which is only part of what was released."""
    return max(part.lower(delta) for part in parts.dominated)


def _one_search(parts: Releases, delta: float, tolerance: Tolerance) -> Proved:
    """A search alone, from the privacy profile of one trial, which its privacy-loss distribution gives."""
    if len(parts.selections) > 1 or parts.gaussians or parts.pures:
        parts.without_selection("pld")
    (search,) = parts.selections
    if search.count > 1 or search.rate < 1:
        raise NotProved(
            "method pld accounts for one search alone, without sampling around it; use method rdp, basic or advanced"
        )
    known: dict[float, float] = {}

    def trial(at: float) -> float:
        if at not in known:
            known[at] = _pld(search.trial, at, lambda epsilon: max(tolerance(epsilon), 0.02 * epsilon)).upper
        return known[at]

    return Proved(selection.epsilon(trial, search.trials, delta), 0.0, "pld-profile")


def _rdp(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    return Proved(rdp.epsilon(parts.rdp_curve(), delta)[0])


def _gdp(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    parts.only_gaussian("gdp")
    if parts.sampled:
        raise NotProved(
            "a sampled Gaussian is not Gaussian-differentially private at its CLT mu: method gdp is exact without "
            "sampling only (rate 1), and bounds epochs and allocation; use method pld or rdp, or clt for the estimate"
        )
    return _gaussian(parts, delta)


def _zcdp(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    if parts.sampled:
        conjecture = ", or zcdp-rs for the published conjecture on Poisson batches" if _poisson_batches(parts) else ""
        raise NotProved(
            "zCDP gains nothing from sampling: method zcdp accounts without sampling (rate 1), for epochs and for "
            f"allocation only; use method pld or rdp{conjecture}"
        )
    parts.without_selection("zcdp")
    rhos = [part.count * zcdp.gaussian(part.noise) for part in parts.gaussians]
    rhos += [part.count * part.rho for part in parts.pures]
    return Proved(zcdp.epsilon(zcdp.compose(rhos), delta))


def _advanced(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    return Proved(basic_and_advanced.by_advanced(list(parts.pairs()), delta))


def _basic(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    return Proved(basic_and_advanced.by_basic(list(parts.pairs()), delta))


def _clt(parts: Releases, delta: float) -> float:
    triples = _triples(parts, "clt")
    mu = gdp.clt_mu_fixed_size(triples) if parts.fixed_size else gdp.clt_mu(triples)
    return gdp.epsilon_bounds(mu, delta)[1]


def _zcdp_rs(parts: Releases, delta: float) -> float:
    if not _poisson_batches(parts):
        others = "pld or rdp" if parts.sampled else "pld, zcdp or gdp"
        raise NotProved(f"method zcdp-rs is about Poisson batches only; use method {others}")
    return paper_figures.zcdp_rs(_triples(parts, "zcdp-rs"), delta)


def _poisson_batches(parts: Releases) -> bool:
    return parts.sampled and not parts.fixed_size and not parts.dominated


def _as_theirs(parts: Releases, theory: str) -> list[Triple]:
    """Triples with the sigma of DP dropout: noise std / 2 C, where 2 C is how far a replacement moves a sum."""
    moved = 1 if parts.fixed_size else 2
    return [(rate, noise / moved, count) for rate, noise, count in _triples(parts, theory)]


def _triples(parts: Releases, theory: str) -> list[Triple]:
    return [(part.rate, part.noise, part.count) for part in parts.only_gaussian(theory)]


def _printed(
    theory: str,
    figure: Callable[[Sequence[Triple], float], float],
    of: Callable[[Releases, str], list[Triple]] = _triples,
) -> Figure:
    """The answer that a paper prints: its figure for (rate, noise multiplier, count) triples and delta."""
    return lambda parts, delta: figure(of(parts, theory), delta)


PROVERS: dict[str, Callable[[Releases, float, Tolerance], Proved]] = {
    "pld": _pld,
    "rdp": _rdp,
    "gdp": _gdp,
    "zcdp": _zcdp,
    "advanced": _advanced,
    "basic": _basic,
}
ESTIMATORS: dict[str, Figure] = {"clt": _clt, "zcdp-rs": _zcdp_rs}
REPEATERS: dict[str, Figure] = {
    "moments": lambda parts, delta: paper_figures.moments(parts.rdp_curve(as_stated=True), delta),
    "zcdp-rf": _printed("zcdp-rf", paper_figures.zcdp_rf),
    "strong": _printed("strong", paper_figures.strong),
    "adadp": _printed("adadp", paper_figures.adadp),
    "dropout-ac": _printed("dropout-ac", paper_figures.dropout_ac, _as_theirs),
    "dropout-zcdp": _printed("dropout-zcdp", paper_figures.dropout_zcdp, _as_theirs),
}


def prove(theory: str, parts: Releases, delta: float, tolerance: Tolerance) -> Proved:
    """The bound of a proving theory; the delta that sparse histograms and truncated batches cost is set aside first."""
    prover = PROVERS[theory]
    found = prover(parts, delta, tolerance)
    if parts.worst_apart and found.lower is not None:
        found = replace(found, lower=0.0)
    if not (parts.overflow > 0 or parts.escapes > 0):
        return found
    left = sparse.left_of(delta, parts.escapes)
    if not left > 0:
        return Proved(math.inf, found.lower, found.theorem)
    if parts.overflow > 0:
        upper = truncation.reserved(lambda at: prover(parts, at, tolerance).upper, left, parts.overflow)
        if theory == "pld" and found.lower is not None and not upper <= _CLOSE * found.lower:
            upper = min(upper, _truncated(parts, left, tolerance))
        return Proved(upper, found.lower, found.theorem)
    proved = prover(parts, left, tolerance)
    return Proved(proved.upper, found.lower, proved.theorem)
