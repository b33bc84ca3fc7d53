"""Kind `epsilon`: several accountants' figures for a course, as rows, or as lines over a varying key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from discreet.accounting.account import Method, account
from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.plan.pydantic_base import Frozen
from discreet_papers.measure.course import Course, course_of
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel, printed_marks
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over

NAMES: Mapping[str, str] = {
    "pld": "certified",
    "rdp": "Rényi, all orders",
    "moments": "moments accountant",
    "clt": "CLT",
    "zcdp": "zCDP",
    "zcdp-rf": "zCDP(RF)",
    "zcdp-rs": "zCDP(RS)",
    "strong": "strong composition",
    "gdp": "Gaussian DP",
    "adadp": "ADADP, Theorem 1",
    "dropout-ac": "DPD-AC",
    "dropout-zcdp": "DPD-zCDP",
}
"""Methods as pages call them."""


class EpsilonLine(Frozen):
    """A line of a panel, or several: one for each method."""

    name: str = ""
    set: dict[str, Any] = Field(default_factory=dict)
    methods: tuple[Method, ...] = ()


class EpsilonPanel(Frozen):
    """Epsilon over `over`, a key of the course, at `values`."""

    title: str
    over: Literal["epochs", "steps", "noise", "rate", "delta"]
    values: tuple[float, ...] = Field(min_length=2)
    x: str
    set: dict[str, Any] = Field(default_factory=dict)
    lines: tuple[EpsilonLine, ...] = (EpsilonLine(),)
    log: Literal["", "x", "y", "xy"] = ""
    printed: tuple[tuple[float, float], ...] = ()
    """(value, epsilon) that the paper prints."""


class EpsilonRow(Frozen):
    """A row of the table: a course, and what is printed for each method."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    printed: dict[Method, float] = Field(default_factory=dict)


class EpsilonPart(Frozen):
    """The kind."""

    kind: Literal["epsilon"]
    course: dict[str, Any]
    methods: tuple[Method, ...] = Field(min_length=1)
    rows: tuple[EpsilonRow, ...] = ()
    panels_: tuple[EpsilonPanel, ...] = Field(default=(), alias="panels")

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each row and for each point of a line."""
        found = [Cell(row.name, self._facts(row.set)) for row in self.rows]
        for panel in self.panels_:
            for line in panel.lines:
                for value in panel.values:
                    name = " ".join(filter(None, [panel.title, line.name, f"{panel.over} {value:g}"]))
                    found.append(Cell(name, self._point(panel, line, value)))
        return found

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The answer of each method."""
        return statements(course_of(cell.facts["course"]), cell.facts["methods"])

    def tables(self, results: Results) -> Sequence[Table]:
        """The rows, if there are any."""
        if not self.rows:
            return ()
        head = ["", "certified"]
        others = [method for method in self.methods if method is not Method.PLD]
        for method in others:
            head += [NAMES[method], "printed"] if self._is_printed(method) else [NAMES[method]]
        rows = []
        for row in self.rows:
            found = results.one(self._facts(row.set)) or {}
            cells = [row.name, tables.interval(found.get("pld", {}))]
            for method in others:
                cells.append(said(found.get(method.value)))
                if self._is_printed(method):
                    cells.append(tables.number(row.printed.get(method)))
            rows.append(tuple(cells))
        return (Table(tuple(head), tuple(rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """One for each panel of the file."""
        return [self._panel(panel, results) for panel in self.panels_]

    def _panel(self, panel: EpsilonPanel, results: Results) -> Panel:
        lines = []
        for line in panel.lines:
            for method in line.methods or self.methods:
                points = []
                for value in panel.values:
                    found = (results.one(self._point(panel, line, value)) or {}).get(method.value, {})
                    if "epsilon" in found and math.isfinite(float(found["epsilon"])):
                        points.append((value, float(found["epsilon"])))
                if points:
                    label = " ".join(filter(None, [NAMES[method], line.name]))
                    x, y = zip(*points, strict=True)
                    lines.append(Line(label, x, y, "solid" if method.proves else "dashed", role=method.value))
        lines += printed_marks(panel.printed)
        delta = over(self.course, panel.set)["delta"]
        return Panel(panel.title, panel.x, f"epsilon at delta {delta:g}", lines, log=panel.log, bottom=0.0)

    def _facts(self, changes: Mapping[str, Any], methods: Sequence[Method] = ()) -> Facts:
        course = course_of(over(self.course, changes))
        return {"kind": self.kind, "course": brief(course), "methods": [m.value for m in methods or self.methods]}

    def _point(self, panel: EpsilonPanel, line: EpsilonLine, value: float) -> Facts:
        number = int(value) if panel.over == "steps" else value
        return self._facts(over(over(panel.set, line.set), {panel.over: number}), line.methods)

    def _is_printed(self, method: Method) -> bool:
        return any(method in row.printed for row in self.rows)


def brief(course: Course) -> dict[str, Any]:
    """A course without default values, so that new fields do not change old cells."""
    return course.model_dump(mode="json", exclude_defaults=True)


def statements(course: Course, methods: Sequence[str]) -> dict[str, Any]:
    """Each method's statement on a course: epsilon with its lower bound and its kind, or why the method declines."""
    event, found = course.event(), dict[str, Any]()
    for method in methods:
        try:
            statement = account(event, course.delta, course.adjacency, Method(method))
        except InputError as refusal:
            found[method] = {"declined": str(refusal)}
            continue
        said: dict[str, Any] = {"epsilon": finite(statement.epsilon), "kind": statement.kind}
        if isinstance(statement, Guarantee) and statement.lower is not None:
            said["lower"] = statement.lower
        found[method] = said
    return found


def finite(value: float) -> float | str:
    """A number for JSON; infinity becomes text."""
    return value if math.isfinite(value) else "inf"


def said(found: Mapping[str, Any] | None) -> str:
    """A figure of a method that does not certify."""
    if found is None:
        return tables.MISSING
    return "declines" if "declined" in found else tables.number(float(found["epsilon"]))
