"""Kind `schedule`: how long a zCDP budget lasts under noise schedules, and the rates for a given length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from discreet.accounting import schedules
from discreet.accounting.account import guarantee
from discreet.accounting.theories import zcdp
from discreet.core.adjacency import Adjacency
from discreet.core.events import Gaussian, in_order
from discreet.plan.pydantic_base import Frozen
from discreet.sampling.record import Count, Positive
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting


class ScheduleRow(Frozen):
    """A schedule by epochs, and the epochs that the paper prints."""

    name: str
    schedule: str
    printed: Count | None = None


class Rates(Frozen):
    """A schedule without its rate, and the rate that is printed for each number of epochs."""

    name: str
    schedule: str
    printed: tuple[Positive, ...]


class SchedulePart(Frozen):
    """The kind. An epoch of disjoint batches costs 1 / (2 sigma^2); the run ends before it would overspend `rho`."""

    kind: Literal["schedule"]
    rho: Positive
    delta: Annotated[float, Field(gt=0, lt=1)]
    rows: tuple[ScheduleRow, ...] = ()
    epochs: tuple[Count, ...] = ()
    rates: tuple[Rates, ...] = ()
    draws: tuple[Literal["noise", "rho"], ...] = ("noise",)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each schedule, and for each rate."""
        found = [Cell(row.name, self._facts(row.schedule)) for row in self.rows]
        for one in self.rates:
            found += [Cell(f"{one.name}, {epochs} epochs", self._facts(one.schedule, epochs)) for epochs in self.epochs]
        return found

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The rate; or epochs, noise and cost of a schedule, with what is certified for epochs of disjoint batches."""
        schedule, rho = schedules.parse(cell.facts["schedule"]), cell.facts["rho"]
        if "epochs" in cell.facts:
            found = schedules.solve_rate(
                schedule, lambda one, epochs: one.rho(epochs) <= rho * (1 + 1e-9), cell.facts["epochs"]
            )
            return {"rate": found.rate}
        epochs = schedules.epochs_within(schedule, rho)
        noise = [schedule.multiplier(t) for t in range(epochs)]
        proved = guarantee(in_order(Gaussian(one) for one in noise), cell.facts["delta"], Adjacency.ZERO_OUT)
        spent = schedule.rho(epochs)
        return {
            "epochs": epochs,
            "noise": [float(f"{one:.6g}") for one in noise],
            "rho": spent,
            "as_published": zcdp.epsilon_loose(spent, cell.facts["delta"]),
            "epsilon": proved.epsilon,
        }

    def tables(self, results: Results) -> Sequence[Table]:
        """Epochs of the schedules, rates of the families."""
        found = []
        if self.rows:
            head = ("schedule", "epochs", "printed", "rho", f"epsilon at {self.delta:g}, their conversion", "certified")
            found.append(
                Table(
                    head,
                    tuple(self._row(row, results) for row in self.rows),
                    f"Budget rho = {self.rho:g}, epochs of disjoint batches",
                )
            )
        if self.rates:
            columns = ("rate for", *(f"{epochs} epochs" for epochs in self.epochs), "as printed")
            rows = tuple(self._rates(one, results) for one in self.rates)
            found.append(Table(columns, rows, "The least rate with which the budget lasts so long"))
        return found

    def panels(self, results: Results) -> Sequence[Panel]:
        """Noise, and what is spent, over the epochs."""
        titles = {"noise": ("Noise", "noise multiplier"), "rho": ("Budget", "rho spent")}
        return [
            Panel(titles[what][0], "epoch", titles[what][1], self._lines(what, results), bottom=0.0)
            for what in self.draws
        ]

    def _lines(self, what: str, results: Results) -> list[Line]:
        lines = []
        for row in self.rows:
            for _, found in results.of(self._facts(row.schedule)):
                noise = found["noise"]
                values, spent = [*noise, noise[-1]], 0.0
                if what == "rho":
                    values = [0.0, *(spent := spent + 1 / (2 * one**2) for one in noise)]
                lines.append(Line(row.name, list(range(len(noise) + 1)), values, steps=what == "noise"))
        return lines

    def _row(self, row: ScheduleRow, results: Results) -> tuple[str, ...]:
        found = results.one(self._facts(row.schedule))
        printed = tables.MISSING if row.printed is None else str(row.printed)
        if found is None:
            return (row.name, tables.MISSING, printed, *(tables.MISSING,) * 3)
        figures = (tables.number(found["rho"]), tables.number(found["as_published"]), tables.interval(found))
        return (row.name, str(found["epochs"]), printed, *figures)

    def _rates(self, one: Rates, results: Results) -> tuple[str, ...]:
        cells, equal = [], 0
        for epochs, printed in zip(self.epochs, one.printed, strict=False):
            found = results.one(self._facts(one.schedule, epochs))
            if found is None:
                cells.append(tables.MISSING)
                continue
            same = math.isclose(found["rate"], printed)
            equal += same
            cells.append(f"{found['rate']:g}" + ("" if same else f" (printed {printed:g})"))
        return (one.name, *cells, f"{equal} of {len(self.epochs)}")

    def _facts(self, schedule: str, epochs: int | None = None) -> Facts:
        facts: dict[str, Any] = {"kind": self.kind, "schedule": schedule, "rho": self.rho, "delta": self.delta}
        return facts if epochs is None else facts | {"epochs": epochs}
