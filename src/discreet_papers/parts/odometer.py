"""Kind `odometer`: odometers' readings over the epochs of a run, beside the price of its whole plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from discreet.accounting.account import Method, account
from discreet.accounting.adaptive import odometers
from discreet.core.events import Event, Gaussian, Poisson
from discreet.plan.pydantic_base import Frozen
from discreet_papers.measure.course import Course, course_of
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel, printed_marks
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over
from discreet_papers.parts.epsilon import NAMES, brief, finite


@dataclass(frozen=True, slots=True)
class SmallFirst(odometers.DoublingOdometer):
    """Theorem 2 with first filters of 6.15 / (alpha - 1) in place of log(2 |orders| / delta) / (alpha - 1): the size
    that gives the paper's figures. Any sizes that are fixed beforehand will do."""

    def _at(self, order: float, spent: float) -> float:
        """The bound at one order: f is the least number whose filter, 2^(f - 1) 6.15 / (alpha - 1), holds `spent`."""
        first, size = 6.15 / (order - 1), 1
        while not spent <= 2.0 ** (size - 1) * first:
            size += 1
        return 2.0 ** (size - 1) * first + math.log(2 * len(self.orders) * size**2 / self.delta) / (order - 1)


READERS: dict[str, tuple[type[odometers.DoublingOdometer] | type[odometers.RenyiOdometer], str]] = {
    "doubling": (odometers.DoublingOdometer, "equation 5 of the paper"),
    "renyi": (odometers.RenyiOdometer, "a mixture of orders"),
}

SHOWN = READERS | {"small_first": (SmallFirst, "equation 5, first filters of 6.15 / (order - 1)")}
"""What this kind can show, beside what is read of every run."""


class OdometerRow(Frozen):
    """A run, and the paper's printed readings after some of its epochs."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    printed: dict[int, float] = Field(default_factory=dict)


class OdometerPart(Frozen):
    """The kind. Readings are ex post: stop when you like, the loss exceeds it with probability at most delta."""

    kind: Literal["odometer"]
    course: dict[str, Any]
    readers: tuple[Literal["doubling", "small_first", "renyi"], ...] = ("doubling", "renyi")
    methods: tuple[Method, ...] = (Method.PLD,)
    rows: tuple[OdometerRow, ...] = Field(min_length=1)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each run."""
        return [Cell(row.name, self._facts(row)) for row in self.rows]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Readings after each epoch, and epsilon of the whole plan."""
        course = course_of(cell.facts["course"])
        found: dict[str, Any] = {name: readings(course, name) for name in cell.facts["readers"]}
        for name in cell.facts["methods"]:
            statement = account(course.event(), course.delta, course.adjacency, Method(name))
            found[f"whole {name}"] = finite(statement.epsilon)
        return found

    def tables(self, results: Results) -> Sequence[Table]:
        """Readings where the paper prints one, and the whole plan."""
        head = ("", "epoch", "printed", *(SHOWN[name][1] for name in self.readers))
        head += tuple(f"whole plan, {NAMES[method]}" for method in self.methods)
        rows = []
        for row in self.rows:
            found = results.one(self._facts(row))
            whole = [tables.MISSING if found is None else tables.up(float(found[f"whole {m}"])) for m in self.methods]
            length = None if found is None else len(found[self.readers[0]])
            for epoch in [*row.printed, *([length] if length and length not in row.printed else [])]:
                read = [tables.MISSING if found is None else tables.up(found[name][epoch - 1]) for name in self.readers]
                rows.append((row.name, str(epoch), tables.number(row.printed.get(epoch)), *read, *whole))
        return (Table(head, tuple(rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Readings over the epochs, a panel for each run."""
        found = []
        for row in self.rows:
            for _, result in results.of(self._facts(row)):
                epochs = list(range(1, len(result[self.readers[0]]) + 1))
                lines = [
                    Line(SHOWN[name][1], epochs, result[name], "solid" if name == "renyi" else "dashed", name)
                    for name in self.readers
                ]
                for method in self.methods:
                    height = float(result[f"whole {method}"])
                    lines.append(
                        Line(f"whole plan, {NAMES[method]}", [1, epochs[-1]], [height] * 2, "dotted", method.value)
                    )
                lines += printed_marks(list(row.printed.items()))
                found.append(Panel(row.name, "epoch", "bound on the loss, if the run stops here", lines, bottom=0.0))
        return found

    def _facts(self, row: OdometerRow) -> Facts:
        course = brief(course_of(over(self.course, row.set)))
        methods = [method.value for method in self.methods]
        return {"kind": self.kind, "course": course, "readers": list(self.readers), "methods": methods}


def readings(course: Course, reader: str) -> list[float]:
    """The readings after each epoch."""
    odometer = SHOWN[reader][0](course.delta, adjacency=course.adjacency)
    spent, found = odometers.start(odometer), []
    for epoch in _epochs(course):
        for noise, steps in epoch:
            event: Event = Gaussian(noise) if course.share == 1 else Poisson(course.share, Gaussian(noise))
            cost = odometer.cost(event)
            spent = odometers.advance(odometer, spent, [steps * one for one in cost])
        found.append(odometers.read(odometer, spent).epsilon)
    return found


def _epochs(course: Course) -> list[list[tuple[float, int]]]:
    """(multiplier, steps) of each epoch; the last may be shorter."""
    each = max(1, round(1 / course.share))
    found: list[list[tuple[float, int]]] = []
    room = 0
    for noise, steps in course.phases:
        left = steps
        while left:
            if not room:
                found.append([])
                room = each
            taken = min(left, room)
            found[-1].append((noise, taken))
            left, room = left - taken, room - taken
    return found
