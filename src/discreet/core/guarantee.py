"""Statements about privacy: each kind is a class of its own, so that they are never mixed up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.html import fact_table
from discreet.core.rounding import delta_up, places_down, places_up


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A proved (epsilon, delta) bound: the mechanism is (epsilon, delta)-differentially private.

    `epsilon` is an upper bound (infinite where nothing better is proved). `lower`, where known, is a lower
    bound for an adversary who sees every release on worst-case data, so the truth lies in [lower, epsilon].
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str
    lower: float | None = None
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        epsilon = _check(self.epsilon, self.delta)
        if self.lower is not None and not 0 <= self.lower <= epsilon:
            raise InputError(f"lower bound {self.lower!r} must lie between 0 and epsilon {epsilon!r}")

    kind = "guarantee"

    @property
    def is_finite(self) -> bool:
        """Whether anything at all is proved."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        """One line; epsilon is rounded up, the lower bound down."""
        least = "" if self.lower is None else f" (at least {places_down(self.lower)})"
        whom = f"{self.adjacency.value}, unit {self.unit.value}, by {self.method}"
        return f"epsilon {places_up(self.epsilon)}{least} at delta {delta_up(self.delta)}, {whom}"

    def _repr_html_(self) -> str:
        """A table for notebooks; epsilon is rounded up, the lower bound down."""
        facts = {
            "epsilon": f"at most {places_up(self.epsilon)}",
            "at least": None if self.lower is None else places_down(self.lower),
            "delta": delta_up(self.delta),
            "neighbours": self.adjacency.value,
            "protected": f"one {self.unit.value}",
            "theorem": self.method,
        }
        return fact_table("Guarantee", facts)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure that approximates or conjectures an epsilon. It plans; it never certifies."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str
    reason: str
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)

    kind = "estimate"


@dataclass(frozen=True, slots=True)
class Published:
    """A figure as a paper computes it, for comparison with what is proved. It never certifies.

    `source` names the paper and the formula, `reason` says why the figure is no guarantee here.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str
    source: str
    reason: str
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)

    kind = "as_published"


Statement = Guarantee | Estimate | Published
"""An accountant's answer; only a `Guarantee` certifies. An `ExPost` is none of these."""


@dataclass(frozen=True, slots=True)
class ExPost:
    """An odometer's reading: a bound on the privacy loss of all that a run released, read when the run stopped.

    A reading is no (epsilon, delta) guarantee: it promises nothing in advance, and must not be added to other figures.
    A certificate shows it apart from the guarantee.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str
    unit: Unit = Unit.EXAMPLE

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)

    kind = "ex_post"

    @property
    def sentence(self) -> str:
        """The sentence that a certificate may show."""
        return self._with_delta(delta_up(self.delta))

    @property
    def earlier_sentence(self) -> str:
        """The sentence as certificates of earlier versions hold it, with delta to the nearest."""
        return self._with_delta(f"{self.delta:g}")

    def _with_delta(self, delta: str) -> str:
        # published certificates hold this sentence, and verifiers write it again: its arithmetic stays
        shown = self.epsilon if math.isinf(self.epsilon) else math.ceil(self.epsilon * 1e4) / 1e4
        return (
            f"the privacy loss exceeds the reading {shown:.4f} with probability at most {delta}, "
            "at whatever time the run stops"
        )


def _check(epsilon: object, delta: object) -> float:
    delta = checks.open_unit("delta", delta)
    value = checks.real("epsilon", epsilon)
    if not value >= 0:
        raise InputError(f"epsilon must be at least 0, got {value!r}")
    return value
