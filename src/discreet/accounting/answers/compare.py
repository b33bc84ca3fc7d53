"""Every method side by side: what each says about one plan, of what kind that is, and why it does or does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.pld.epsilon_interval import default_tolerance
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import (
    Allocation,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Poisson,
    Repeat,
    TruncatedPoisson,
    batches,
    tally,
)
from discreet.core.guarantee import Guarantee, Statement


@dataclass(frozen=True, slots=True)
class Row:
    """What one method says. `statement` is None where it declines, and `why` then says what it declined."""

    method: Method
    statement: Statement | None
    why: str

    @property
    def kind(self) -> str:
        """guarantee, estimate, as_published or not_available."""
        return "not_available" if self.statement is None else self.statement.kind


def compare(
    event: Event,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    methods: Sequence[Method] = tuple(Method),
    tolerance: Callable[[float], float] = default_tolerance,
) -> list[Row]:
    """One row per method, in the order of `methods`. A bad `delta` is an `InputError`."""
    delta = checks.open_unit("delta", delta)
    rows = []
    for method in methods:
        try:
            statement = account(event, delta, adjacency, method, tolerance)
        except InputError as refusal:
            rows.append(Row(method, None, f"Not available: {refusal}."))
        else:
            rows.append(Row(method, statement, method.why_for(event)))
    return rows


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The same plan as if its batches were Poisson batches of the same rates, and what that figure is worth here.

    `poisson` is the guarantee that Poisson batches would have; `actual` what is proved of the plan itself, or None;
    `known` a lower bound for the plan under the adjacency of `poisson`; `bounded` whether the plan only bounds the
    size of Poisson batches.
    """

    poisson: Guarantee
    actual: Guarantee | None
    known: float
    bounded: bool

    @property
    def why(self) -> str:
        """One sentence on the figure of Poisson batches, read as one of this plan."""
        if self.known > self.poisson.epsilon:
            return "False of this plan: an adversary is known who achieves more than the figure allows."
        if self.bounded:
            return "The difference is what it costs to bound the batches."
        return "Not proved of this plan: it is about batches that are drawn otherwise."


def counterpart(event: Event, delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Counterpart | None:
    """The plan beside its Poisson figure; None where all its sampling is Poisson's already.

    Under replace_one, where Poisson batches have no figure, theirs is under zero_out.
    """
    parts = tally(event)
    others = {type(part) for part in parts} & {TruncatedPoisson, FixedSize, Epoch, Allocation}
    if not others:
        return None
    poisson = Compose(tuple(Repeat(_as_poisson(part), count) for part, count in parts.items()))
    same = Adjacency.ZERO_OUT if adjacency is Adjacency.REPLACE_ONE else adjacency
    known = _proved(event, delta, same)
    return Counterpart(
        guarantee(poisson, delta, same),
        known if same is adjacency else _proved(event, delta, adjacency),
        0.0 if known is None or known.lower is None else known.lower,
        others == {TruncatedPoisson},
    )


def _proved(event: Event, delta: float, adjacency: Adjacency) -> Guarantee | None:
    try:
        return guarantee(event, delta, adjacency)
    except NotProved:
        return None


def _as_poisson(part: Event) -> Event:
    match part:
        case TruncatedPoisson(rate, _, _, inner):
            return Poisson(rate, inner)
        case FixedSize(population, batch, inner):
            return Poisson(batch / population, inner)
        case Allocation(steps, chosen, inner):
            return Repeat(Poisson(chosen / steps, inner), steps)
        case Epoch():
            found = batches(part)
            rate = 1 / sum(count for _, count in found)
            return Compose(tuple(Repeat(Poisson(rate, batch), count) for batch, count in found))
        case _:
            return part


@dataclass(frozen=True, slots=True)
class Point:
    """Epsilon of the first `steps` steps."""

    steps: int
    epsilon: float


def curves(
    first_steps: Callable[[int], Event],
    steps: int,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    methods: Sequence[Method] = tuple(Method),
    points: int = 24,
) -> dict[Method, list[Point]]:
    """Epsilon over the steps of a plan, for every method that answers at its end; denser where the curves bend.

    Coarser than `compare`, but for the last point, which is the same.
    """
    found: dict[Method, list[Point]] = {}
    for count in sorted({max(1, round(steps * (k / points) ** 2)) for k in range(2, points + 1)}, reverse=True):
        tolerance = default_tolerance if count == steps else _coarse
        for row in compare(first_steps(count), delta, adjacency, list(found) or methods, tolerance):
            if row.statement is not None:
                found.setdefault(row.method, []).insert(0, Point(count, row.statement.epsilon))
    return found


def _coarse(epsilon: float) -> float:
    return max(0.02 * epsilon, 1e-3)
