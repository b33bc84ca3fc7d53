"""Kind `divergence`: the Rényi divergence of one Poisson-sampled Gaussian, beside bounds that papers conjecture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from discreet.accounting.theories import rdp
from discreet.plan.pydantic_base import Frozen
from discreet.sampling.record import Positive
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Line, Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting


class Case(Frozen):
    """A rate and a noise multiplier, over orders up to `top`; by default those of the conjecture."""

    rate: Annotated[float, Field(gt=0, lt=1)]
    noise: Positive
    top: Positive | None = None
    points: int = 60
    printed: Positive | None = None
    """An order that the paper marks."""

    @property
    def last(self) -> float:
        """The conjecture is about orders up to noise^2 log(1 / (rate noise)) + 1 (Yu et al. 2019, section IV-B2)."""
        return self.noise**2 * -math.log(self.rate * self.noise) + 1 if self.top is None else self.top


class Grid(Frozen):
    """The grid of the conjecture's check: noise multipliers, and a number of rates for each, up to 1 / (16 noise)."""

    noises: tuple[Positive, ...]
    rates: int = Field(ge=1)
    least: Positive = 0.001
    orders: int = Field(default=40, ge=2)


class DivergencePart(Frozen):
    """The kind. `whole` draws the divergence without sampling, alpha / (2 noise^2), too; `log` the axis of values."""

    kind: Literal["divergence"]
    cases: tuple[Case, ...] = ()
    grid: Grid | None = None
    whole: bool = False
    log: bool = False

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each case, and for each noise multiplier of the grid."""
        found = [Cell(f"rate {case.rate:g}, noise {case.noise:g}", self._case(case)) for case in self.cases]
        if self.grid is not None:
            found += [Cell(f"all rates, noise {noise:g}", self._noise(self.grid, noise)) for noise in self.grid.noises]
        return found

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Curves of a case, or the largest share of the bound that the divergence reaches."""
        facts = cell.facts
        if "rates" in facts:
            return _largest_share(facts)
        orders = np.linspace(1.01, facts["last"], facts["points"])
        divergence = rdp.sampled_gaussian(facts["rate"], facts["noise"], tuple(orders))
        return {"orders": _rounded(orders), "divergence": _rounded(divergence)}

    def tables(self, results: Results) -> Sequence[Table]:
        """The largest share of the bound that the divergence reaches, for each noise multiplier."""
        if self.grid is None:
            return ()
        rows = []
        for noise in self.grid.noises:
            found = results.one(self._noise(self.grid, noise))
            share = (
                ("-",) * 3 if found is None else tuple(tables.number(found[key]) for key in ("share", "rate", "order"))
            )
            rows.append((f"{noise:g}", *share))
        head = ("noise", "largest divergence / bound", "at rate", "at order")
        return (Table(head, tuple(rows), "The bound alpha q^2 / sigma^2 on a grid"),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """A panel for each case."""
        return [self._panel(case, found) for case in self.cases if (found := results.one(self._case(case))) is not None]

    def _panel(self, case: Case, found: Any) -> Panel:
        orders = found["orders"]
        lines = [Line("divergence", orders, found["divergence"], role="pld")]
        bound = [order * (case.rate / case.noise) ** 2 for order in orders]
        lines.append(Line("alpha q² / sigma², conjectured", orders, bound, "dashed", role="zcdp-rs"))
        if self.whole:
            whole = [order / (2 * case.noise**2) for order in orders]
            lines.append(Line("without sampling", orders, whole, "dotted", role="zcdp-rf"))
        if case.printed is not None:
            at = min(range(len(orders)), key=lambda place: abs(orders[place] - case.printed))
            lines.append(Line(f"order {case.printed:g}, printed", [case.printed], [found["divergence"][at]], "marks"))
        title = f"Sampling rate q = {case.rate:g}, noise sigma = {case.noise:g}"
        log: Literal["", "y"] = "y" if self.log else ""
        return Panel(title, "order alpha", "Rényi divergence", lines, log=log, bottom=None if self.log else 0.0)

    def _case(self, case: Case) -> Facts:
        facts = {"rate": case.rate, "noise": case.noise, "last": case.last, "points": case.points}
        return {"kind": self.kind, **facts}

    def _noise(self, grid: Grid, noise: float) -> Facts:
        facts = {"noise": noise, "rates": grid.rates, "least": grid.least, "orders": grid.orders}
        return {"kind": self.kind, **facts}


def _largest_share(facts: Facts) -> dict[str, float]:
    """Over rates up to 1 / (16 noise) and orders up to the last of the conjecture."""
    noise, best = facts["noise"], {"share": 0.0, "rate": math.nan, "order": math.nan}
    for rate in np.linspace(facts["least"], 1 / (16 * noise), facts["rates"]):
        orders = np.linspace(1.01, Case(rate=float(rate), noise=noise).last, facts["orders"])
        shares = rdp.sampled_gaussian(float(rate), noise, tuple(orders)) / (orders * (rate / noise) ** 2)
        at = int(np.argmax(shares))
        if shares[at] > best["share"]:
            best = {"share": float(shares[at]), "rate": float(rate), "order": float(orders[at])}
    return best


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
