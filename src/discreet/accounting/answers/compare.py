"""All methods side by side: the figure of each for one plan, the kind of figure, and why it does or does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.answers.bands import noise_ratio
from discreet.accounting.pld.epsilon_interval import default_tolerance
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    Allocation,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Poisson,
    Repeat,
    TruncatedPoisson,
    batches,
    tally,
)
from discreet.core.guarantee import Guarantee, Statement

_POINTS = 24
"""Points of a curve, denser early, where curves bend."""


@dataclass(frozen=True, slots=True)
class Row:
    """The answer of one method. `statement` is None if the method does not cover the plan; `why` then says why not."""

    method: Method
    statement: Statement | None
    why: str

    @property
    def kind(self) -> str:
        """The kind of answer: guarantee, estimate, as_published or not_available."""
        return "not_available" if self.statement is None else self.statement.kind


def compare(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    methods: Sequence[Method] = tuple(Method),
    tolerance: Callable[[float], float] = default_tolerance,
) -> list[Row]:
    """One row per method, in the order of `methods`. `InputError` for a bad `delta`."""
    delta = checks.open_unit("delta", delta)
    rows = []
    for method in methods:
        try:
            statement = account(event, delta, adjacency, method, tolerance)
        except InputError as refusal:
            why = str(refusal)
            rows.append(Row(method, None, f"{why[0].upper()}{why[1:]}."))
        else:
            rows.append(Row(method, statement, method.why_for(event)))
    return rows


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The guarantee of a plan as if its batches were Poisson batches of the same rates, beside its own.

    `poisson` is the guarantee with Poisson batches; `actual` that of the plan itself, None if nothing is proved;
    `known` a lower bound on the plan's epsilon under the adjacency of `poisson`; `bounded` says that the plan merely
    bounds the size of Poisson batches; `correlated` that `poisson` is of independent noise, as large in sums of
    gradients over the run as the plan's.
    """

    poisson: Guarantee
    actual: Guarantee | None
    known: float
    bounded: bool
    correlated: bool = False

    @property
    def what(self) -> str:
        """A few words on whose guarantee `poisson` is."""
        return "were noise independent" if self.correlated else "were batches Poisson's"

    @property
    def why(self) -> str:
        """One sentence on what the Poisson figure is worth for this plan."""
        if self.correlated:
            return "Independent noise on Poisson batches, as large as this plan's in sums of gradients over the run."
        if self.known > self.poisson.epsilon:
            return "False of this plan: an adversary is known who achieves more than the figure allows."
        if self.bounded:
            return "The difference is what it costs to bound the batches."
        return "Not proved of this plan: it is about batches that are drawn otherwise."


def counterpart(event: Event, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Counterpart | None:
    """The plan beside its Poisson figure; None if all its sampling is Poisson sampling.

    Under replace_one, for which Poisson batches have no figure, the Poisson figure is that under zero_out.
    """
    parts = tally(event)
    others = {type(part) for part in parts} & {TruncatedPoisson, FixedSize, Epoch, Allocation, CyclicPoisson}
    if not others:
        return None
    poisson = Compose(tuple(_as_poisson(part, count) for part, count in parts.items()))
    same = Adjacency.ZERO_OUT if adjacency is Adjacency.REPLACE_ONE else adjacency
    known = _proved(event, delta, same)
    return Counterpart(
        guarantee(poisson, delta, same),
        known if same is adjacency else _proved(event, delta, adjacency),
        0.0 if known is None or known.lower is None else known.lower,
        others == {TruncatedPoisson},
        others == {CyclicPoisson},
    )


def _proved(event: Event, delta: float, adjacency: Adjacency) -> Guarantee | None:
    try:
        return guarantee(event, delta, adjacency)
    except NotProved:
        return None


def _as_poisson(part: Event, count: int) -> Event:
    """`count` times `part` with Poisson batches of the same rate; correlated noise becomes independent noise."""
    match part:
        case TruncatedPoisson(rate, _, _, inner):
            return Repeat(Poisson(rate, inner), count)
        case FixedSize(population, batch, inner):
            return Repeat(Poisson(batch / population, inner), count)
        case Allocation(steps, chosen, inner):
            return Repeat(Poisson(chosen / steps, inner), steps * count)
        case CyclicPoisson(steps, rate, Gaussian(noise, query)):
            return Repeat(
                Poisson(rate / steps, Gaussian(noise * noise_ratio(steps, steps * count), query)), steps * count
            )
        case CyclicPoisson(steps, rate, inner):
            return Repeat(Poisson(rate / steps, inner), steps * count)
        case Epoch():
            found = batches(part)
            rate = 1 / sum(one for _, one in found)
            return Repeat(Compose(tuple(Repeat(Poisson(rate, batch), one) for batch, one in found)), count)
        case _:
            return Repeat(part, count)


@dataclass(frozen=True, slots=True)
class Point:
    """Epsilon of the first `steps` steps."""

    steps: int
    epsilon: float


def curves(
    first_steps: Callable[[int], Event],
    steps: int,
    delta: float,
    adjacency: Adjacency,
) -> dict[Method, list[Point]]:
    """Epsilon over the steps of a plan, for every method that covers it.

    Only the last point is as precise as that of `compare`.
    """
    found: dict[Method, list[Point]] = {}
    for count in sorted({max(1, round(steps * (k / _POINTS) ** 2)) for k in range(2, _POINTS + 1)}, reverse=True):
        tolerance = default_tolerance if count == steps else _coarse
        for row in compare(first_steps(count), delta, adjacency, list(found) or tuple(Method), tolerance):
            if row.statement is not None:
                found.setdefault(row.method, []).insert(0, Point(count, row.statement.epsilon))
    return found


def _coarse(epsilon: float) -> float:
    return max(0.02 * epsilon, 1e-3)
