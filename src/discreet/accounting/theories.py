"""The table of theories by name: what each computes, and one sentence on why it does or does not hold.

`PROVERS` bound, `ESTIMATORS` approximate or conjecture, `REPEATERS` repeat what papers compute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from discreet.accounting import classic, gdp, published, rdp, selection, zcdp
from discreet.accounting.pld.bounds import epsilon_interval
from discreet.accounting.releases import Releases, SelectionRelease
from discreet.core.errors import NotProved
from discreet.core.events import Laplace

Tolerance = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Proved:
    """An upper bound on epsilon, a lower one where known, and the theorem's name where it is not the method's."""

    upper: float
    lower: float | None = None
    theorem: str = ""


def _pld(parts: Releases, delta: float, tolerance: Tolerance) -> Proved:
    if parts.selections and (len(parts.selections), parts.gaussians, parts.pures) == (1, (), ()):
        return _one_search(parts.selections[0], delta, tolerance)
    parts.without_selection("pld")
    if any(part.kind is Laplace for part in parts.pures):
        raise NotProved("method pld does not account for Laplace; use method rdp, zcdp, basic or advanced")
    gaussians = parts.gaussians
    if parts.pures:
        interval = epsilon_interval(gaussians, delta, tolerance, [part.loss() for part in parts.pures])
        # The worst pair of a range of losses is worse than each of its members, so that Rényi bounds may be lower.
        rivals = [] if any(part.rate < 1 for part in parts.pures) else [_rdp(parts, delta, tolerance).upper]
        rivals += [] if gaussians else [classic.by_basic(list(parts.pairs()), delta)]
        return Proved(min([interval.upper, *rivals]), interval.lower)
    if not parts.sampled:
        mu = gdp.compose_mu((part.noise, part.count) for part in gaussians)
        lower, upper = gdp.epsilon_bounds(mu, delta)
        return Proved(upper, lower, "gaussian")
    interval = epsilon_interval(gaussians, delta, tolerance)
    return Proved(interval.upper, interval.lower)


def _one_search(search: SelectionRelease, delta: float, tolerance: Tolerance) -> Proved:
    """From the privacy profile of one trial, read off its privacy-loss distribution."""
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
    gaussians = parts.only_gaussian("gdp")
    if parts.sampled:
        raise NotProved(
            "a sampled Gaussian is not Gaussian-differentially private at its CLT mu: method gdp is exact without "
            "sampling only (rate 1); use method pld or rdp, or clt for the estimate"
        )
    lower, upper = gdp.epsilon_bounds(gdp.compose_mu((part.noise, part.count) for part in gaussians), delta)
    return Proved(upper, lower)


def _zcdp(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    if parts.sampled:
        raise NotProved(
            "zCDP gains nothing from sampling: method zcdp accounts without sampling only (rate 1); "
            "use method pld or rdp, or zcdp-rs for the published conjecture"
        )
    parts.without_selection("zcdp")
    rhos = [part.count * zcdp.gaussian(part.noise) for part in parts.gaussians]
    rhos += [part.count * part.rho for part in parts.pures]
    return Proved(zcdp.epsilon(zcdp.compose(rhos), delta))


def _advanced(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    return Proved(classic.by_advanced(list(parts.pairs()), delta))


def _basic(parts: Releases, delta: float, _tolerance: Tolerance) -> Proved:
    return Proved(classic.by_basic(list(parts.pairs()), delta))


def _clt(parts: Releases, delta: float) -> float:
    mu = gdp.clt_mu(_triples(parts, "clt"))
    return gdp.epsilon_bounds(mu, delta)[1]


def _zcdp_rs(parts: Releases, delta: float) -> float:
    if not parts.sampled:
        raise NotProved("method zcdp-rs is about sampled batches; without sampling use method zcdp or gdp")
    return published.zcdp_rs(_triples(parts, "zcdp-rs"), delta)


def _moments(parts: Releases, delta: float) -> float:
    return published.moments(parts.rdp_curve(), delta)


def _zcdp_rf(parts: Releases, delta: float) -> float:
    return published.zcdp_rf(_triples(parts, "zcdp-rf"), delta)


def _strong(parts: Releases, delta: float) -> float:
    return published.strong(_triples(parts, "strong"), delta)


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
REPEATERS: dict[str, Callable[[Releases, float], float]] = {"moments": _moments, "zcdp-rf": _zcdp_rf, "strong": _strong}

WHY = {
    "pld": "Holds: the whole privacy-loss distribution is composed, both directions, rounded outward.",
    "rdp": "Holds: Rényi bounds add up; the conversion to (epsilon, delta) gives some away.",
    "gdp": "Holds, exactly: Gaussians without sampling are one Gaussian.",
    "zcdp": "Holds without sampling: one number bounds the loss at every order; the conversion gives some away.",
    "advanced": "Holds: each step is reduced to (epsilon, delta) before composing, which gives much away.",
    "basic": "Holds: the epsilons are added up as if the worst case struck at every step.",
    "clt": "Does not hold: a limit for infinitely many steps; at finite length it errs on the unsafe side as well.",
    "zcdp-rs": "Does not hold: its bound at each order is a conjecture that was checked on a grid.",
    "moments": "Holds, but loosely: Rényi bounds with the first conversion; printed for comparison with papers.",
    "zcdp-rf": "Does not hold for Poisson batches: it counts an epoch of disjoint batches as one step.",
    "strong": "Does not hold in general: its epsilon of a step is proved only below 1; otherwise as advanced, looser.",
}

SOURCES = {
    "moments": "Abadi et al. 2016; Mironov 2017, Proposition 3",
    "zcdp-rf": "Yu et al. 2019, Theorem 2 and section IV-B1",
    "strong": "Yu et al. 2019, figure 2; Dwork, Rothblum, Vadhan 2010, Theorem III.3",
}
