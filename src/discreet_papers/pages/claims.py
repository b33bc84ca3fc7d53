"""Differences between runs, seed by seed, and tests of papers' claims about them, corrected for their number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtr

from discreet_papers.pages import tables
from discreet_papers.pages.tables import Table
from discreet_papers.parts.trained.training_runs import Compared

_SURE = 0.95
"""The joint confidence at which a table's differences count as seen."""

Scores = Mapping[int | None, float]
"""By seed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two runs over `count` seeds: the mean, and its standard error."""

    mean: float
    error: float
    count: int

    @property
    def p(self) -> float:
        """Of a two-sided paired t-test."""
        if self.error == 0:
            return float(self.mean == 0)
        return 2 * float(stdtr(self.count - 1, -abs(self.mean) / self.error))


def paired(found: Scores, against: Scores) -> Difference | None:
    """The mean difference over the seeds that both have; None for fewer than two."""
    pairs = [found[seed] - against[seed] for seed in found if seed in against]
    if len(pairs) < 2:
        return None
    return Difference(statistics.mean(pairs), statistics.stdev(pairs) / math.sqrt(len(pairs)), len(pairs))


def difference(pair: Difference | None, digits: int = 2) -> str:
    """+0.64 ± 0.22: the mean and its standard error."""
    return tables.MISSING if pair is None else f"{pair.mean:+.{digits}f} ± {pair.error:.{digits}f}"


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979): the k-th smallest of n is multiplied by n - k + 1, and made
    monotone."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[place]))
        found[place] = least
    return found


def claims_table(claims: Sequence[Compared], scores: Mapping[str, Scores], *, lower_is_better: bool) -> Table:
    """A table of the paper's claims, and whether they are seen here; without claims on runs with fewer than two common
    seeds."""
    claims = [claim for claim in claims if paired(scores[claim.better], scores[claim.worse]) is not None]
    pairs = [paired(scores[claim.better], scores[claim.worse]) for claim in claims]
    corrected = iter(holm([pair.p for pair in pairs if pair is not None]))
    rows = []
    for claim, pair in zip(claims, pairs, strict=True):
        p = None if pair is None else next(corrected)
        shown = tables.MISSING if p is None else f"{p:.1g}"
        rows.append((claim.says, difference(pair), shown, _verdict(pair, p, lower_is_better)))
    sure = f"{100 * (1 - _SURE):.0f} %"
    note = (
        f"Difference: the mean over seeds ± its standard error. p: a two-sided paired t-test, corrected for the "
        f"{len(rows)} tests of this table (Holm). Seen, or the other way round: p is at most {sure}."
    )
    return Table(("the paper says", "difference here", "p", "verdict"), tuple(rows), notes=(note,) if rows else ())


def _verdict(pair: Difference | None, p: float | None, lower_is_better: bool) -> str:
    if pair is None or p is None:
        return tables.MISSING
    if p > 1 - _SURE:
        return "not settled"
    return "seen" if (pair.mean < 0) is lower_is_better else "the other way round"
