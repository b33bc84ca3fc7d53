"""Kind `word_vectors`: the IMDb run of Bu et al. 2020, with one thing after the other as their program has it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any, Literal

from pydantic import Field

from discreet.plan.pydantic_base import Frozen
from discreet_papers.pages import tables
from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.tables import Table
from discreet_papers.part import Cell, Facts, Results, Setting


class WordsRow(Frozen):
    """A run. `take`: all words, or none that are stop words. `last`: the last words of a review, not the first.
    `vocabulary`: hashes, or the most frequent words and one number for all others. `norm`: what is clipped: that of the
    gradient, or position by position, where repeated words are not added up."""

    name: str
    take: Literal["content", "words"] = "words"
    last: bool = True
    vocabulary: Literal["hashed", "frequent"] = "frequent"
    norm: Literal["gradient", "positions"] = "gradient"
    printed: float | None = None


class WordVectorsPart(Frozen):
    """The kind."""

    kind: Literal["word_vectors"]
    title: str = ""
    seeds: int = Field(ge=1)
    steps: int = Field(ge=1)
    runs: tuple[WordsRow, ...] = Field(min_length=1)

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """A cell for each run and seed."""
        every = range(seeds or self.seeds)
        return [Cell(f"{row.name}, seed {seed}", self._facts(row), seed) for row in self.runs for seed in every]

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """Take the steps, in the open: no privacy is claimed."""
        from discreet_papers.measure.word_vectors import run

        return run(cell, setting)

    def tables(self, results: Results) -> Sequence[Table]:
        """Mean and spread of the accuracy beside what is printed."""
        rows = []
        for row in self.runs:
            found = [100 * result["accuracy"] for _, result in results.of(self._facts(row))]
            spread = f"{stdev(found):.2f}" if len(found) > 1 else tables.MISSING
            figures = (f"{mean(found):.2f}", spread) if found else (tables.MISSING,) * 2
            printed = tables.MISSING if row.printed is None else f"{100 * row.printed:.2f}"
            rows.append((row.name, str(len(found)), *figures, printed))
        return (Table(("run", "runs", "accuracy %", "std. dev.", "printed"), tuple(rows), self.title),)

    def panels(self, results: Results) -> Sequence[Panel]:
        """None."""
        return ()

    def _facts(self, row: WordsRow) -> Facts:
        return {"kind": self.kind, "steps": self.steps} | row.model_dump(mode="json", exclude={"name", "printed"})
