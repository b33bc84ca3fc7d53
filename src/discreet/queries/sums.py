"""Queries that are sums over rows, answered with Gaussian noise on a public grid.

| query      | contribution of one row          | event                              |
|------------|----------------------------------|------------------------------------|
| Count      | 0 or 1                           | Gaussian(multiplier, count)        |
| Sum        | the row, clipped to L2 norm `bound` | Gaussian(multiplier)            |
| Mean       | as Sum, and as Count unless the population is declared | one or two      |
| Histogram  | 1 in one bin                     | Gaussian(multiplier, histogram)    |
| Covariance | outer product of the clipped row | Gaussian(multiplier, covariance)   |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.array_types import Array, IntArray
from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.queries.rows import GRAM_BITS, Column, Whole, check_column, columns_of, unit_gram, unit_sum

GRID_BITS = 30
"""The grid of a sum lies this many bits below its noise."""

LEAST_MULTIPLIER = 2.0**-20
"""Grids are made for multipliers from here on."""

_LEAST_BOUND = 2.0**-400


@dataclass(frozen=True, slots=True)
class NoisySum:
    """An exact sum before noise: whole numbers `units`, which one row moves by at most `contribution` in L2 norm.

    `unit` is the value that a 1 in `units` stands for. With little noise the grid is so fine that 64 bits would hold a
    few thousand rows only, so `units` are numbers of any size.
    """

    kind: Query
    units: Whole
    contribution: float
    unit: float

    def deviation(self, multiplier: float) -> float:
        """The standard deviation of the noise, in units of the sum, rounded up."""
        return multiplier * self.contribution * (1 + 2.0**-50)


class SumQuery(Protocol):
    """A query answered from sums with Gaussian noise."""

    @property
    def kinds(self) -> tuple[Query, ...]:
        """The kind of each sum, in order; their Gaussian events all have the query's multiplier."""
        ...

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The sums over usable rows, on a grid that suits the noise multiplier."""
        ...

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The answer, from the noisy sums (already divided by the sampling rate)."""
        ...


def events(query: SumQuery, multiplier: float) -> tuple[Gaussian, ...]:
    """The events of answering `query`, one per sum."""
    return tuple(Gaussian(multiplier, kind) for kind in query.kinds)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows, or of those with low <= value < high in one `column`. Answer: shape ()."""

    column: Column | None = None
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if self.column is not None:
            check_column("column", self.column)
        if not checks.real("low", self.low) < checks.real("high", self.high):
            raise InputError(f"low must be below high, got {self.low!r} and {self.high!r}")

    @property
    def kinds(self) -> tuple[Query, ...]:
        """One count."""
        return (Query.COUNT,)

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The count, in multiples of the grid."""
        if self.column is None:
            number = len(rows)
        else:
            values = columns_of(rows, (self.column,))[:, 0]
            number = int(np.count_nonzero((values >= self.low) & (values < self.high)))
        return (counted(Query.COUNT, np.array(number, np.int64), multiplier),)

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The noisy count."""
        return noisy[0]


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of rows (or of some `columns` of them), each scaled down to an L2 norm of `bound`. Shape (columns,)."""

    bound: float
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", _bound(self.bound))
        object.__setattr__(self, "columns", _column_list(self.columns))

    @property
    def kinds(self) -> tuple[Query, ...]:
        """One clipped sum."""
        return (Query.CLIPPED_SUM,)

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The clipped sum, in multiples of the grid."""
        unit = _grid(multiplier * self.bound)
        total = unit_sum(columns_of(rows, self.columns), self.bound, unit)
        return (NoisySum(Query.CLIPPED_SUM, total, self.bound / unit, unit),)

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The noisy sum."""
        return noisy[0]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of clipped rows, within the ball of radius `bound`; shape (columns,).

    The divisor is a declared public `population`, or else a noisy count, released in the same event.
    """

    bound: float
    population: float | None = None
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", _bound(self.bound))
        object.__setattr__(self, "columns", _column_list(self.columns))
        if self.population is not None:
            object.__setattr__(self, "population", checks.positive("population", self.population))

    @property
    def kinds(self) -> tuple[Query, ...]:
        """A clipped sum, and a count where no population is declared."""
        return (Query.CLIPPED_SUM,) if self.population is not None else (Query.CLIPPED_SUM, Query.COUNT)

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The clipped sum, and the count where no population is declared."""
        total = Sum(self.bound, self.columns).sums(rows, multiplier)
        return total if self.population is not None else total + Count().sums(rows, multiplier)

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The ratio, pulled back into the ball if noise carried it out."""
        divisor = self.population if self.population is not None else max(1.0, float(noisy[1]))
        mean: Array = noisy[0] / divisor
        return mean * min(1.0, self.bound / max(float(np.linalg.norm(mean)), 1e-300))


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of rows in each bin edges[i] <= value < edges[i + 1] of one column; shape (bins,).

    Edges are public. Bins are disjoint, so all of them are one query that a row moves by 1.
    """

    edges: tuple[float, ...]
    column: Column = 0

    def __post_init__(self) -> None:
        if isinstance(self.edges, str) or not isinstance(self.edges, Iterable):
            raise InputError(f"edges must be a list of numbers, got {self.edges!r}")
        edges = tuple(checks.real("edges", edge) for edge in self.edges)
        if len(edges) < 2 or not all(a < b for a, b in pairwise(edges)):
            raise InputError("edges must be at least two numbers in increasing order")
        object.__setattr__(self, "edges", edges)
        check_column("column", self.column)

    @property
    def kinds(self) -> tuple[Query, ...]:
        """One histogram."""
        return (Query.HISTOGRAM,)

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The counts of all bins, in multiples of the grid."""
        values = columns_of(rows, (self.column,))[:, 0]
        bins = np.searchsorted(np.array(self.edges), values, side="right")  # 0: below, len(edges): beyond
        counts = np.bincount(bins, minlength=len(self.edges) + 1)[1 : len(self.edges)]
        return (counted(Query.HISTOGRAM, counts.astype(np.int64), multiplier),)

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The noisy counts."""
        return noisy[0]


@dataclass(frozen=True, slots=True)
class Covariance:
    """X^T X of rows scaled down to an L2 norm of `bound` ("Analyze Gauss", Dwork, Talwar, Thakurta, Zhang 2014).

    Shape (columns, columns). Noise is added to the upper triangle and mirrored. One unit's contribution is bound^2;
    under replace-one two outer products differ by at most sqrt 2 of that.
    """

    bound: float = 1.0
    columns: tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", _bound(self.bound))
        object.__setattr__(self, "columns", _column_list(self.columns))

    @property
    def kinds(self) -> tuple[Query, ...]:
        """One covariance."""
        return (Query.COVARIANCE,)

    def sums(self, rows: Array, multiplier: float) -> tuple[NoisySum, ...]:
        """The upper triangle, in multiples of the grid."""
        bits = min(GRAM_BITS, (48 - math.frexp(multiplier)[1]) // 2)
        if not 2 * bits + math.frexp(multiplier)[1] >= 20 or bits < 10:
            raise InputError(f"a covariance needs a noise multiplier between 2^-21 and 2^28, got {multiplier!r}")
        gram = unit_gram(columns_of(rows, self.columns), self.bound, bits)
        upper = gram[np.triu_indices(len(gram))]
        return (NoisySum(Query.COVARIANCE, upper, 4.0**bits, self.bound**2 / 4.0**bits),)

    def read(self, noisy: tuple[Array, ...]) -> Array:
        """The symmetric matrix with that upper triangle."""
        size = (math.isqrt(8 * len(noisy[0]) + 1) - 1) // 2
        matrix = np.zeros((size, size))
        upper = np.triu_indices(size)
        matrix[upper] = noisy[0]
        matrix.T[upper] = noisy[0]
        return matrix


def _bound(bound: float) -> float:
    """A `bound` whose square and whose much smaller grid float64 holds at full precision."""
    found = checks.positive("bound", bound)
    if not _LEAST_BOUND <= found <= 1 / _LEAST_BOUND:
        raise InputError(f"a bound must be between 2^-400 and 2^400, got {bound!r}; give the data in another unit")
    return found


def check_multiplier(multiplier: float) -> None:
    """`InputError` for a noise multiplier whose epsilon is in the hundreds of billions."""
    if not multiplier >= LEAST_MULTIPLIER:
        raise InputError(f"a noise multiplier below 2^-20 protects nobody, got {multiplier!r}")


def _grid(noise: float) -> float:
    """A power of two, `GRID_BITS` bits below `noise`."""
    return math.ldexp(1.0, math.frexp(noise)[1] - 1 - GRID_BITS)


def counted(kind: Query, counts: IntArray, multiplier: float) -> NoisySum:
    """Counts as exact multiples of a grid, a power of two at most 1; one row moves them by 1 / grid multiples.

    The grid is public: it follows from the noise, never from the counts.
    """
    unit = min(1.0, _grid(multiplier))
    units = np.asarray(counts.astype(object) * round(1 / unit), dtype=object)  # of shape () it is a number
    return NoisySum(kind, units, 1 / unit, unit)


def _column_list(columns: Sequence[Column] | None) -> tuple[Column, ...] | None:
    if columns is not None and (isinstance(columns, str) or not isinstance(columns, Iterable)):
        raise InputError(f"columns must be a list of columns, got {columns!r}; for one of them give ({columns!r},)")
    return None if columns is None else tuple(check_column("columns", column) for column in columns)
