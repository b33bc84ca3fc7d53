"""Every method side by side: what each says about one plan, of what kind that is, and why it does or does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting.account import Method, account
from discreet.accounting.pld.bounds import default_tolerance
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.guarantee import Statement


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
    checks.open_unit("delta", delta)
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
