"""The table of theories by name: what each computes, and one sentence on why its figure does or does not hold.

`PROVERS` give bounds, `ESTIMATORS` approximations or conjectures, `REPEATERS` figures as papers compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.epsilon_interval import epsilon_interval, symmetrised_interval
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
from discreet.core.errors import NotProved

Tolerance = Callable[[float], float]


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
        lower = max(interval(parts.attained, delta, tolerance).lower, _known(parts, delta))
    return Proved(upper, min(upper, lower), theorem)


def _with_bounded(parts: Releases, bounded: list[BoundedLoss], delta: float, tolerance: Tolerance) -> Proved:
    """Pure releases, perhaps with Gaussians; the lower bound counts the Gaussians only."""
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
        raise NotProved(
            "zCDP gains nothing from sampling: method zcdp accounts without sampling (rate 1), for epochs and for "
            "allocation only; use method pld or rdp, or zcdp-rs for the published conjecture on Poisson batches"
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
    if not parts.sampled or parts.fixed_size or parts.dominated:
        raise NotProved("method zcdp-rs is about Poisson batches only; use method pld, zcdp or gdp")
    return paper_figures.zcdp_rs(_triples(parts, "zcdp-rs"), delta)


def _moments(parts: Releases, delta: float) -> float:
    return paper_figures.moments(parts.rdp_curve(as_stated=True), delta)


def _zcdp_rf(parts: Releases, delta: float) -> float:
    return paper_figures.zcdp_rf(_triples(parts, "zcdp-rf"), delta)


def _adadp(parts: Releases, delta: float) -> float:
    return paper_figures.adadp(_triples(parts, "adadp"), delta)


def _dropout_ac(parts: Releases, delta: float) -> float:
    return paper_figures.dropout_ac(_as_theirs(parts, "dropout-ac"), delta)


def _dropout_zcdp(parts: Releases, delta: float) -> float:
    return paper_figures.dropout_zcdp(_as_theirs(parts, "dropout-zcdp"), delta)


def _as_theirs(parts: Releases, theory: str) -> list[tuple[float, float, int]]:
    """Triples with the sigma of DP dropout: noise std / 2 C, where 2 C is how far a replacement moves a sum."""
    moved = 1 if parts.fixed_size else 2
    return [(rate, noise / moved, count) for rate, noise, count in _triples(parts, theory)]


def _strong(parts: Releases, delta: float) -> float:
    return paper_figures.strong(_triples(parts, "strong"), delta)


def _triples(parts: Releases, theory: str) -> list[tuple[float, float, int]]:
    return [(part.rate, part.noise, part.count) for part in parts.only_gaussian(theory)]


PROVERS: dict[str, Callable[[Releases, float, Tolerance], Proved]] = {
    "pld": _pld,
    "rdp": _rdp,
    "gdp": _gdp,
    "zcdp": _zcdp,
    "advanced": _advanced,
    "basic": _basic,
}
ESTIMATORS: dict[str, Callable[[Releases, float], float]] = {"clt": _clt, "zcdp-rs": _zcdp_rs}
REPEATERS: dict[str, Callable[[Releases, float], float]] = {
    "moments": _moments,
    "zcdp-rf": _zcdp_rf,
    "strong": _strong,
    "adadp": _adadp,
    "dropout-ac": _dropout_ac,
    "dropout-zcdp": _dropout_zcdp,
}


def prove(theory: str, parts: Releases, delta: float, tolerance: Tolerance) -> Proved:
    """The bound of a proving theory; the delta that sparse histograms and truncated batches cost is set aside first."""
    prover = PROVERS[theory]
    found = prover(parts, delta, tolerance)
    if not (parts.overflow > 0 or parts.escapes > 0):
        return found
    left = sparse.left_of(delta, parts.escapes)
    if not left > 0:
        return Proved(math.inf, found.lower, found.theorem)
    if parts.overflow > 0:
        upper = truncation.reserved(lambda at: prover(parts, at, tolerance).upper, left, parts.overflow)
        return Proved(upper, found.lower, found.theorem)
    proved = prover(parts, left, tolerance)
    return Proved(proved.upper, found.lower, proved.theorem)


WHY = {
    "pld": "Holds: the whole privacy-loss distribution is composed, both directions, rounded outward.",
    "rdp": "Holds: Rényi bounds add up; the conversion to (epsilon, delta) gives some away.",
    "gdp": "Holds, exactly: Gaussians without sampling are one Gaussian.",
    "zcdp": "Holds without sampling: one number bounds the loss at every order; the conversion gives some away.",
    "advanced": "Holds: each step is reduced to (epsilon, delta) before composing, which gives much away.",
    "basic": "Holds: the epsilons are added up as if the worst case struck at every step.",
    "clt": "Does not hold: a limit for infinitely many steps; at finite length it errs on the unsafe side as well.",
    "zcdp-rs": "Does not hold: its bound at each order is a conjecture, and false near noise 1 at the largest rates.",
    "moments": "Holds, but loosely: Rényi bounds with the first conversion; printed for comparison with papers.",
    "zcdp-rf": "Does not hold for Poisson batches: it counts an epoch of disjoint batches as one step.",
    "strong": "Does not hold in general: its epsilon of a step is proved only below 1; otherwise as advanced, looser.",
    "adadp": "Does not hold: the exponents of its sums are misprinted; method rdp has the theorem that was meant.",
    "dropout-ac": "Does not hold: it composes as many releases as there are passes over the data, not steps.",
    "dropout-zcdp": "Does not hold: as dropout-ac, and it amplifies a zCDP figure, which no theorem allows.",
}

_FIXED = {
    "pld": "Holds under replace_one: each step's curve is symmetrised before composing; the lower bound is one-sided.",
    "rdp": "Holds under replace_one: Wang, Balle, Kasiviswanathan 2019, Theorem 9; its conversion gives some away.",
    "clt": "Does not hold: a limit for infinitely many steps, of the symmetrised curve; finite lengths may cost more.",
    "zcdp-rf": "Does not hold: batches of fixed size, drawn anew for each step, are not disjoint.",
    "moments": "Holds under replace_one, but loosely: Theorem 9 of Wang et al. as stated, with the first conversion.",
}
_DISJOINT = {
    "pld": "Holds under zero_out and replace_one: an epoch is at most its dearest batch without sampling.",
    "zcdp": "Holds under zero_out and replace_one: an epoch costs its dearest batch; the conversion gives some away.",
    "zcdp-rf": "Holds for epochs of disjoint batches; its conversion gives more away than that of method zcdp.",
    "clt": "Nothing is sampled here that could amplify: the figure is that of method gdp.",
}
_ALLOCATED = {
    "pld": "Holds: a unit is in a known number of steps, which cost at most what they would without sampling.",
    "zcdp-rf": "Holds: every unit is in a known number of steps; its conversion gives more away than that of zcdp.",
    "clt": _DISJOINT["clt"],
}
_BOUNDED = "Holds: what it bounds is Gaussian without sampling, which the batches are at most; the truth may be less."
_WHY_BY_SAMPLER: dict[str, dict[str, str]] = {
    "FixedSize": _FIXED,
    "Epoch": {"gdp": _BOUNDED, "rdp": _BOUNDED, "moments": _BOUNDED} | _DISJOINT,
    "Allocation": {"gdp": _BOUNDED, "rdp": _BOUNDED, "moments": _BOUNDED, "zcdp": _BOUNDED} | _ALLOCATED,
}
_OVERFLOW = {
    True: " Batches that overflow are paid for out of delta.",
    False: " Batches that overflow are not counted.",
}
_ESCAPES = {
    True: " Values of a sparse histogram that one row alone has are paid for out of delta.",
    False: " Values of a sparse histogram that one row alone has are not counted.",
}


def why(theory: str, samplers: Collection[str]) -> str:
    """One sentence, or two, on why the figure of `theory` does or does not hold for draws by these samplers."""
    special = [table[theory] for name, table in _WHY_BY_SAMPLER.items() if name in samplers and theory in table]
    overflow = _OVERFLOW[theory in PROVERS] if "TruncatedPoisson" in samplers else ""
    escapes = _ESCAPES[theory in PROVERS] if "SparseHistogram" in samplers else ""
    return (special[0] if len(special) == 1 and len(samplers) == 1 else WHY[theory]) + overflow + escapes


SOURCES = {
    "moments": "Abadi et al. 2016; Mironov 2017, Proposition 3",
    "zcdp-rf": "Yu et al. 2019, Theorem 2 and section IV-B1",
    "adadp": "Xu et al. 2019, Theorem 1",
    "dropout-ac": "Differentially Private Dropout 2017, section 4.3, DPD-AC",
    "dropout-zcdp": "Differentially Private Dropout 2017, section 4.3, DPD-zCDP",
    "strong": "Yu et al. 2019, figure 2; Dwork, Rothblum, Vadhan 2010, Theorem III.3",
}
