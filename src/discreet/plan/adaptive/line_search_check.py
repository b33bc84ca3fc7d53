"""Which adaptive plans may have a line search: those that can reuse gradients and whose choices a proof covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from discreet.accounting.adaptive.filters import Filter, GaussianFilter, RdpCurveFilter, ZcdpFilter
from discreet.core.errors import InputError
from discreet.plan.adaptive.line_search import LineSearch
from discreet.plan.clip_rules import ClipRule
from discreet.plan.sampling import Sampling
from discreet.sampling import NoSampling, PoissonSampling


def usual_filter(sampling: object, policy: object) -> str:
    """The default kind of filter."""
    if isinstance(policy, LineSearch):
        return ZcdpFilter.kind
    return RdpCurveFilter.kind if isinstance(sampling, PoissonSampling) else GaussianFilter.kind


class Facts(Protocol):
    """The fields of an adaptive plan that are checked here."""

    @property
    def line_search(self) -> LineSearch | None: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def filter(self) -> Filter: ...
    @property
    def clipping(self) -> ClipRule: ...
    @property
    def counts(self) -> object: ...
    @property
    def metrics(self) -> Sequence[object]: ...
    @property
    def holdout(self) -> object: ...
    @property
    def odometer(self) -> object: ...
    @property
    def every(self) -> float: ...
    @property
    def most_steps(self) -> int: ...


def check_search(plan: Facts) -> None:
    """Refuse a plan with a line search that no proof covers, or in which a gradient could not be reused."""
    if plan.line_search is None:
        return
    if not isinstance(plan.sampling, NoSampling):
        raise InputError(
            f"a line search needs sampling 'none', not {plan.sampling.kind!r}: an earlier gradient is reused on the "
            "same rows only, and gradient and choice on one sampled batch are one release, of Gaussian and "
            "exponential mechanism together, whose amplification by sampling is not proved here"
        )
    if not isinstance(plan.filter, ZcdpFilter):
        raise InputError(f"a line search needs a filter of kind 'zcdp', not {plan.filter.kind!r}")
    if not plan.clipping.UNCHANGING:
        raise InputError(
            f"{plan.clipping.kind} clipping changes on the way, and an earlier gradient is reused only if it was "
            "clipped alike; take a clip norm, groups, per_layer or automatic clipping"
        )
    if plan.counts is not None or plan.metrics or plan.holdout is not None:
        raise InputError("nothing else is bought beside a line search; leave out counts, metrics and holdout")
    if plan.odometer is not None:
        raise InputError("an odometer does not read the choices of a line search; leave it out")
    if plan.every != 1:
        raise InputError("a line search chooses after every step; leave out every")
    if plan.most_steps < 2:
        raise InputError("a gradient and its choice are two steps; most_steps must be at least 2")
