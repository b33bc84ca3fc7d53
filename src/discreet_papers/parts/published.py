"""Kind `published`: every privacy figure that a paper prints, beside the certified figure for the same releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from discreet.accounting.account import Method, account
from discreet.accounting.theories import zcdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan.pydantic_base import Frozen
from discreet_papers.measure.course import Course, course_of
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Bar, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.papers import PAPERS
from discreet_papers.part import Cell, Facts, Results, Setting, over
from discreet_papers.parts.epsilon import brief, finite
from discreet_papers.parts.noise import least_noise
from discreet_papers.parts.odometer import readings

_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "add/remove",
    Adjacency.ZERO_OUT: "zero-out",
    Adjacency.REPLACE_ONE: "replace-one",
}


class Claim(Frozen):
    """A figure as it is printed, and what it is about.

    | field    | meaning                                                                                              |
    |----------|------------------------------------------------------------------------------------------------------|
    | printed  | epsilon (text, so that its digits tell how it was rounded)                                           |
    | rho      | in its place, a zCDP budget: epsilon is rho + 2 sqrt(rho log(1/delta)), as all the papers convert it |
    | theorem  | the theorem that the paper derives it from                                                           |
    | why      | whether that holds; by default what the library says of `method`                                     |
    | method   | recomputes the figure as published                                                                   |
    | course   | the releases                                                                                         |
    | stated   | keys of the course that differ in the paper's derivation                                             |
    | noise_by | the paper does not print the noise: that which `noise_by` asks for at the printed epsilon            |
    | epoch    | the figure is an odometer's reading after this epoch, and so is ours                                 |
    | missing  | why nothing can be certified: a fact that the paper leaves out                                       |
    """

    where: str
    says: str
    printed: str = ""
    rho: float | None = Field(default=None, gt=0)
    theorem: str
    why: str = ""
    method: Method | None = None
    course: dict[str, Any] | None = None
    stated: dict[str, Any] = Field(default_factory=dict)
    noise_by: Method | None = None
    epoch: int | None = Field(default=None, ge=1)
    missing: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Claim:
        if bool(self.printed) == (self.rho is not None):
            raise ValueError("give printed or rho")
        if self.printed and not self.missing:
            float(self.printed)
        if (self.course is None) != bool(self.missing):
            raise ValueError("give course, or missing")
        if not (self.why or self.method):
            raise ValueError("give why, or the method that the library can speak of")
        return self


class PublishedPart(Frozen):
    """The kind: the figures of one paper."""

    kind: Literal["published"]
    paper: str
    claims: tuple[Claim, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> PublishedPart:
        if self.paper not in PAPERS:
            raise ValueError(f"unknown paper; known: {', '.join(PAPERS)}")
        return self

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each figure with a certifiable counterpart."""
        return [
            Cell(
                f"{PAPERS[self.paper].short}, {one.where}: {one.says}, {one.printed} by {one.theorem}", self._facts(one)
            )
            for one in self.claims
            if one.course is not None
        ]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The figure recomputed, and what is certified."""
        course, method = course_of(cell.facts["course"]), cell.facts.get("method")
        if "noise_by" in cell.facts:
            noise = least_noise(course, Method(cell.facts["noise_by"]), cell.facts["printed"])
            course = course.model_copy(update={"noise": noise})
        if "epoch" in cell.facts:
            at = cell.facts["epoch"] - 1
            found = {name: readings(course, name)[at] for name in ("doubling", "renyi")}
            return {"as_published": found["doubling"], "ex_post": found["renyi"]}
        proved = account(course.event(), course.delta, course.adjacency)
        said = _as_published(course, cell.facts.get("stated", {}), method)
        result = {"epsilon": finite(proved.epsilon), "lower": getattr(proved, "lower", None), **said}
        return result | ({"noise": course.noise} if "noise_by" in cell.facts else {})

    def tables(self, results: Results) -> Sequence[Table]:
        """One table: the printed figure, its theorem, whether it holds, and the certified figure."""
        head = (
            "where",
            "what",
            "delta",
            "printed",
            "recomputed",
            "certified",
            "ratio",
            "the figure",
            "its theorem",
            "does it hold?",
        )
        rows = tuple(self._row(one, results) for one in self.claims)
        return (Table(head, rows, PAPERS[self.paper].full),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """The ratio of what is certified to what is printed."""
        bars = []
        for one in self.claims:
            found = self._found(one, results)
            if found and "epsilon" in found:
                printed = self._figure(one)
                ratio = float(found["epsilon"]) / printed
                shown = f" ({one.printed or round(printed, 2)})"
                lower = ratio if found["lower"] is None else found["lower"] / printed
                bars.append(Bar(f"{one.where}: {one.says}{shown}", ratio, lower, ratio, 1.0))
        caption = "In brackets: what is printed. A line goes from the least to the most that is certified."
        ratios = Panel(PAPERS[self.paper].short, "certified / printed", "", bars=bars, log="x", caption=caption)
        return [ratios] if bars else []

    def _row(self, one: Claim, results: Results) -> tuple[str, ...]:
        found = self._found(one, results)
        shows = one.printed or f"rho {one.rho:g}"
        says = one.says + (f", sigma {found['noise']:.4g}" if found and "noise" in found else "")
        why = one.why or (one.method.why if one.method is not None else "")
        if one.course is None:
            shown: tuple[str, ...] = (tables.MISSING, tables.MISSING, tables.MISSING, one.missing)
            return (one.where, says, tables.MISSING, shows, *shown, one.theorem, why)
        course = course_of(self._facts(one)["course"])
        if found is None:
            shown = (tables.MISSING,) * 4
        elif "ex_post" in found:
            ratio = found["ex_post"] / self._figure(one)
            shown = (
                tables.number(found["as_published"]),
                f"{tables.up(found['ex_post'])} (ex post)",
                f"{ratio:.2f}",
                "a reading",
            )
        else:
            ratio = float(found["epsilon"]) / self._figure(one)
            certified = f"{tables.interval(found)} ({_NEIGHBOURS[course.adjacency]})"
            shown = (
                tables.number(found.get("as_published")),
                certified,
                f"{ratio:.2f}",
                verdict(one.printed or str(self._figure(one)), found),
            )
        return (one.where, says, f"{course.delta:g}", shows, *shown, one.theorem, why)

    def _figure(self, one: Claim) -> float:
        """The epsilon that is claimed."""
        if one.rho is None:
            return float(one.printed)
        return zcdp.epsilon_loose(one.rho, course_of(one.course).delta)

    def _found(self, one: Claim, results: Results) -> Mapping[str, Any] | None:
        return None if one.course is None else results.one(self._facts(one))

    def _facts(self, one: Claim) -> Facts:
        assert one.course is not None
        facts: dict[str, Any] = {"kind": self.kind, "course": brief(course_of(one.course))}
        if one.method is not None:
            facts["method"] = one.method.value
        if one.stated:
            facts["stated"] = one.stated
        if one.noise_by is not None:
            facts |= {"noise_by": one.noise_by.value, "printed": float(one.printed)}
        return facts if one.epoch is None else facts | {"epoch": one.epoch}


def _as_published(course: Course, stated: Mapping[str, Any], method: str | None) -> dict[str, float | str]:
    if method is None:
        return {}
    course = course_of(over(course.model_dump(mode="json", exclude_none=True), stated))
    try:
        return {"as_published": finite(account(course.event(), course.delta, course.adjacency, Method(method)).epsilon)}
    except InputError as refusal:
        return {"declined": str(refusal)}


def verdict(printed: str, found: Mapping[str, Any]) -> str:
    """Whether the printed figure, plus half a unit of its last digit, is below the known privacy loss."""
    digits = len(printed.partition(".")[2])
    generous = float(printed) + 0.5 * 10.0**-digits
    if found["lower"] is not None and found["lower"] > generous:
        return "too small"
    return "large enough" if float(found["epsilon"]) <= generous else "not settled"
