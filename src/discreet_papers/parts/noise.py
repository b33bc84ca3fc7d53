"""Kind `noise`: the noise that several accountants require, at an epsilon or at another accountant's epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.accounting.account import Method, account, guarantee
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.bisection import bisect
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.plan.pydantic_base import Frozen
from discreet.sampling.record import Positive
from discreet_papers.measure.course import Course, course_of
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel, printed_marks
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting, over
from discreet_papers.parts.epsilon import NAMES, brief


class NoiseRow(Frozen):
    """A course at an `epsilon`, or at the epsilon that method `like` gives for its own noise; `printed`: the paper's
    noise."""

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    epsilon: Positive | None = None
    like: Method | None = None
    printed: dict[Method, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_epsilon(self) -> NoiseRow:
        if (self.epsilon is None) == (self.like is None):
            raise ValueError("give epsilon or like")
        return self


class NoisePanel(Frozen):
    """Noise over epsilon."""

    title: str
    values: tuple[Positive, ...] = Field(min_length=2)
    set: dict[str, Any] = Field(default_factory=dict)
    log: Literal["", "x", "y", "xy"] = ""
    printed: tuple[tuple[float, float], ...] = ()
    """(epsilon, noise) that the paper prints."""


class NoisePart(Frozen):
    """The kind. Noise is in the units of the course (`clip_norms`); that of the course itself is a placeholder, or what
    `like` starts from."""

    kind: Literal["noise"]
    course: dict[str, Any]
    methods: tuple[Method, ...] = Field(min_length=1)
    rows: tuple[NoiseRow, ...] = ()
    panels_: tuple[NoisePanel, ...] = Field(default=(), alias="panels")

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each row and for each point."""
        found = [Cell(row.name, self._facts(row.set, row.epsilon, row.like)) for row in self.rows]
        for panel in self.panels_:
            found += [Cell(f"{panel.title} epsilon {value:g}", self._facts(panel.set, value)) for value in panel.values]
        return found

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The noise of each method, and what is certified with it."""
        course, epsilon = course_of(cell.facts["course"]), cell.facts.get("epsilon")
        if epsilon is None:
            epsilon = account(course.event(), course.delta, course.adjacency, Method(cell.facts["like"])).epsilon
        found = {name: _noise_by(course, Method(name), epsilon) for name in cell.facts["methods"]}
        return {"epsilon": epsilon, "noise": found}

    def tables(self, results: Results) -> Sequence[Table]:
        """Noise by method beside the printed noise; and the certified epsilon of the printed noise."""
        if not self.rows:
            return ()
        head = ["", "epsilon"]
        for method in self.methods:
            head += [f"noise, {NAMES[method]}", *(["printed"] if self._is_printed(method) else [])]
            head += [] if method.proves else ["which certifies"]
        rows = []
        for row in self.rows:
            found = results.one(self._facts(row.set, row.epsilon, row.like))
            cells = [row.name, tables.MISSING if found is None else tables.number(found["epsilon"])]
            for method in self.methods:
                one = {} if found is None else found["noise"][method.value]
                cells.append(_shown(one, method))
                cells += [tables.number(row.printed.get(method))] if self._is_printed(method) else []
                cells += [] if method.proves else [tables.interval(one.get("certified", {}))]
            rows.append(tuple(cells))
        return (Table(tuple(head), tuple(rows)),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """Noise over epsilon."""
        return [self._panel(panel, results) for panel in self.panels_]

    def _panel(self, panel: NoisePanel, results: Results) -> Panel:
        lines = []
        for method in self.methods:
            points = []
            for value in panel.values:
                found = results.one(self._facts(panel.set, value))
                if found is not None and "noise" in found["noise"][method.value]:
                    points.append((value, found["noise"][method.value]["noise"]))
            if points:
                x, y = zip(*points, strict=True)
                lines.append(Line(NAMES[method], x, y, "solid" if method.proves else "dashed", role=method.value))
        lines += printed_marks(panel.printed)
        course = course_of(over(self.course, panel.set))
        unit = "C" if course.clip_norms == 1 else f"({course.clip_norms:g} C)"
        return Panel(panel.title, f"epsilon at delta {course.delta:g}", f"noise, std / {unit}", lines, log=panel.log)

    def _facts(self, changes: Mapping[str, Any], epsilon: float | None, like: Method | None = None) -> Facts:
        course = brief(course_of(over(self.course, changes)))
        asked: dict[str, Any] = {"epsilon": epsilon} if like is None else {"like": like.value}
        return {"kind": self.kind, "course": course, **asked, "methods": [method.value for method in self.methods]}

    def _is_printed(self, method: Method) -> bool:
        return any(method in row.printed for row in self.rows)


def _shown(one: Mapping[str, Any], method: Method) -> str:
    if "noise" not in one:
        return "declines" if "declined" in one else tables.MISSING
    return tables.up(one["noise"]) if method.proves else tables.number(one["noise"])


def _noise_by(course: Course, method: Method, epsilon: float) -> dict[str, Any]:
    def event(noise: float) -> Event:
        return course.model_copy(update={"noise": noise}).event()

    if method is Method.PLD:
        noise, proved = calibrate_noise(event, epsilon, course.delta, course.adjacency)
    else:
        try:
            noise = least_noise(course, method, epsilon)
        except InputError as refusal:
            return {"declined": str(refusal)}
        proved = guarantee(event(noise), course.delta, course.adjacency)
    return {"noise": noise, "certified": {"epsilon": proved.epsilon, "lower": proved.lower}}


def least_noise(course: Course, method: Method, epsilon: float) -> float:
    """The least noise, in the units of the course and to seven digits, at which `method` says at most `epsilon`."""

    def fits(noise: float) -> bool:
        event = course.model_copy(update={"noise": noise}).event()
        return account(event, course.delta, course.adjacency, method).epsilon <= epsilon

    low, high = 1e-2, 1e4
    if not fits(high):
        raise InputError(f"no noise up to {high:g} is enough")
    return bisect(fits, low, high, relative=1e-7, geometric=True)[1]
