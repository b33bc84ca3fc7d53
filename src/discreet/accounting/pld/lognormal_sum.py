"""The sum of independent lognormal variables of mean 1, on a grid of equal ratios, bounded from both sides.

All that is read off a sum S are means of f(S / n), for f(x) = (x - c)+ (removal) or (1 - c x)+ (addition), c >= 0. Both
are convex; the first increases, the second decreases. So a bound from above may *spread* the mass of a variable, with
the mean kept, and move it up (removal) or down (addition). A bound from below may *merge* masses, with the mean kept,
move them the other way, and drop them. That may be done to each term of a sum by itself, as the others are independent
of it. (Spreading on a grid of losses is "connect the dots", Doroshenko et al. 2022; here it is done at each doubling
of n.)

A value g_i + g_j of grid points g_i = e^(i h) is g_max(i, j) times a ratio that depends on i - j alone. So all pairs
with one difference are one product of slices, and the sum of two variables of n points takes n^2 multiplications and no
exponentials. Mean-preserving moves err in the second order of the step. Sums of few terms are wide; if their grid would
have too many points, it has a step that is 2, 4, 8, ... times larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction, gaussian_masses
from discreet.core.array_types import Array

_MOST = 4096
"""The most grid points of a sum of few terms: beyond, its grid is coarser."""


class Side(Enum):
    """From where a mean is bounded."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True)
class Rule:
    """The terms of a bound: for which means, from which side, and how much mass at either end it may move."""

    direction: Direction
    side: Side
    tail: float

    @property
    def spreads(self) -> bool:
        """Whether masses are spread, not merged."""
        return self.side is Side.ABOVE

    @property
    def rises(self) -> bool:
        """Whether masses may be moved up, not down."""
        return (self.direction is Direction.REMOVAL) == self.spreads


@dataclass(frozen=True, slots=True)
class GridSum:
    """A variable with `masses[i]` at e^((first + i) step), mass `zero` at 0, and `infinite` of its mean at infinity.

    The last two are above 0 only in bounds from above.
    """

    step: float
    first: int
    masses: Array
    zero: float = 0.0
    infinite: float = 0.0

    @property
    def logs(self) -> Array:
        """The logarithms of the grid points, of the shape of `masses`."""
        result: Array = (self.first + np.arange(len(self.masses))) * self.step
        return result


def summed(noise: float, count: int, step: float, rule: Rule) -> GridSum:
    """The sum of `count` variables exp(x / noise - 1 / (2 noise^2)), x standard normal, on a grid with this `step`.

    `rule.tail` bounds the mass that is moved at either end, for each term.
    """
    span = 2 * (_reach(noise, rule) + 1 / (2 * noise**2))
    known = {1: _term(noise, step * 2 ** max(0, math.ceil(math.log2(span / (step * _MOST)))), rule)}

    def of(terms: int) -> GridSum:
        if terms not in known:
            one, other = of(terms // 2), of(terms - terms // 2)
            width = min(one.step, other.step)
            found = _trimmed(_added(_refined(one, width), _refined(other, width), rule), rule, terms)
            while found.step > step and 2 * len(found.masses) <= _MOST:
                found = _refined(found, found.step / 2)
            known[terms] = found
        return known[terms]

    return _refined(of(count), step)


def _reach(noise: float, rule: Rule) -> float:
    """A loss beyond which a term has at most the mass `rule.tail`: P(x > r) <= exp(-r^2 / 2)."""
    return math.sqrt(-2 * math.log(rule.tail)) / noise


def _term(noise: float, step: float, rule: Rule) -> GridSum:
    """One variable. Under the tilted law, where x has mean 1 / noise, a cell has as mass the mean that it has here."""
    reach, middle = _reach(noise, rule), 1 / (2 * noise**2)
    low, high = math.floor((-reach - middle) / step), math.ceil((reach + middle) / step)
    logs = np.arange(low, high + 1) * step
    at = noise * (logs + middle)
    mass, mass_error = gaussian_masses(at)
    mean, mean_error = gaussian_masses(at - 1 / noise)
    sign = 1 if rule.spreads else -1
    mass = np.maximum(mass + sign * mass_error, 0.0)
    values = mean[1:-1] * np.exp(-logs[:-1])
    errors = (mean_error[1:-1] + 64 * UNIT_ROUNDOFF * (1 + np.abs(logs[:-1])) * mean[1:-1]) * np.exp(-logs[:-1])
    errors += mass_error[1:-1] * math.exp(step)
    found = _settled(GridSum(step, low, mass[1:-1]), values, errors, rule)
    if not rule.spreads:
        return found
    masses, end = found.masses, float(np.exp(logs[-1]))
    masses[-1] += mass[-1]
    if rule.rises:
        masses[0] += mass[0]
        above = float(mean[-1] + mean_error[-1]) * (1 + 2.0**-40)
        return replace(found, infinite=max(0.0, above - float(mass[-1]) * end * (1 - 2.0**-40)))
    return replace(found, zero=float(mass[0]))


def _added(one: GridSum, other: GridSum, rule: Rule) -> GridSum:
    """The sum of two independent variables on one grid."""
    step, a, b = one.step, one.masses, other.masses
    rows, columns, shift, same = len(a), len(b), one.first - other.first, one is other
    least, most = shift - columns + 1, shift + rows - 1
    nearest = max(0, least, -most)
    ratios, places = _ratios(nearest, max(most, -least), step)
    first = max(one.first, other.first) + int(places.min())  # no sum of two is lower
    size = max(one.first + rows, other.first + columns) - first + int(places.max()) + 1
    masses, values = np.zeros(size), np.zeros(size)
    times, up, room = ratios.tolist(), places.tolist(), np.empty(min(rows, columns))  # a loop of many short steps
    for difference in range(0 if same else least, most + 1):
        # pairs of place i in a and i + shift - difference in b, so that a's grid point is `difference` above b's
        start, stop, apart = max(0, difference - shift), min(rows, columns + difference - shift), abs(difference)
        pairs = room[: stop - start]
        np.multiply(a[start:stop], b[start + shift - difference : stop + shift - difference], out=pairs)
        if same and difference:
            pairs *= 2
        top = start + (one.first if difference >= 0 else one.first + apart) - first + up[apart - nearest]
        cells = masses[top : top + stop - start]
        np.add(cells, pairs, out=cells)
        np.multiply(pairs, times[apart - nearest], out=pairs)
        cells = values[top : top + stop - start]
        np.add(cells, pairs, out=cells)
    rounding = (len(a) + len(b) + 16) * UNIT_ROUNDOFF
    masses *= 1 + 2 * rounding if rule.spreads else 1 - 2 * rounding
    errors = 4 * (rounding + 32 * UNIT_ROUNDOFF) * masses * math.exp(step)
    found = _settled(GridSum(step, first, masses[:-1]), values[:-1], errors[:-1], rule)
    # A sum with a term at 0 counts as 0; the mean of a term at infinity stays there.
    zero, infinite = (one.zero + other.zero) * (1 + 2.0**-50), (one.infinite + other.infinite) * (1 + 2.0**-50)
    return replace(found, zero=zero, infinite=infinite)


def _ratios(nearest: int, farthest: int, step: float) -> tuple[Array, Array]:
    """For each difference d from nearest to farthest: 1 + e^(-d step), divided by e^(s step) to lie in [1, e^step); and
    s."""
    sums = 1 + np.exp(-step * np.arange(nearest, farthest + 1))
    places = np.floor(np.log(sums) / step).astype(np.int64)
    return sums * np.exp(-step * places), places


def _settled(cells: GridSum, values: Array, errors: Array, rule: Rule) -> GridSum:
    """The variable on grid points, one more than there are cells.

    `cells`: masses between consecutive grid points; `values`: their means times masses, in units of the lower point,
    with rounding up to `errors`.
    """
    masses, ratio = cells.masses, math.exp(cells.step)
    sign = 1 if rule.rises else -1
    if rule.spreads:
        upper = np.clip((values - masses + sign * errors) / math.expm1(cells.step), 0.0, masses)
        return replace(cells, masses=np.append(masses - upper, 0.0) + np.append(0.0, upper))
    mean = np.clip((values + sign * errors) / np.where(masses > 0, masses, 1.0), 1.0, ratio)
    return replace(cells, masses=_merged(masses, mean - 1, 1 - mean / ratio, rises=rule.rises))


def _merged(masses: Array, above: Array, below: Array, *, rises: bool) -> Array:
    """Masses on grid points, each merged from parts of the cells on both sides, so that its mean is that point.

    `above`, `below`: how far the mean of a cell is above its lower and below its upper point, relative to that point.
    From both ends towards the largest mass: so that what finds no partner, and moves to the next point, stays little.
    """
    middle = int(np.argmax(masses))
    result = np.zeros(len(masses) + 1)
    low = _swept(masses[:middle], above[:middle], below[:middle], result[: middle + 1], moves_on=rises)
    backwards = slice(None, middle - 1 if middle else None, -1)
    high = _swept(masses[backwards], below[backwards], above[backwards], result[backwards], moves_on=not rises)
    most = min(low[0] * low[1], high[0] * high[1])  # what meets at the middle point
    parts = [most / lacks if lacks > 0 else 0.0 for _, lacks in (low, high)]
    result[middle] += sum(parts)
    result[middle if rises else max(middle - 1, 0)] += max(0.0, low[0] - parts[0]) * (1 if rises or middle else 0)
    result[middle + 1 if rises else middle] += max(0.0, high[0] - parts[1])
    return result * (1 - 2.0**-48)


def _swept(masses: Array, near: Array, far: Array, points: Array, *, moves_on: bool) -> tuple[float, float]:
    """Add to `points`, one more than cells, what merges at all points but the last; cell i lies between i and i + 1.

    `near`, `far`: how far the mean of a cell is from its first and from its second point. What finds no partner at a
    point stays there (`moves_on`) or goes back to the point before. Returns what is left for the last point: a mass,
    and how far its mean is from that point.
    """
    waiting, lacks = 0.0, 1.0
    for i, (mass, first, second) in enumerate(zip(masses.tolist(), near.tolist(), far.tolist(), strict=True)):
        taken = min(mass, waiting * lacks / first) if first > 0 else mass
        met = min(waiting, taken * first / lacks) if lacks > 0 else waiting
        points[i] += taken + met
        points[i if moves_on else i - 1] += waiting - met
        waiting, lacks = mass - taken, second
    return waiting, lacks


def _refined(one: GridSum, step: float) -> GridSum:
    """The same variable on a grid with this step, or half of it, or a quarter, ..."""
    while one.step > step:
        masses = np.zeros(2 * len(one.masses) - 1)
        masses[::2] = one.masses
        one = replace(one, step=one.step / 2, first=2 * one.first, masses=masses)
    return one


def _trimmed(one: GridSum, rule: Rule, terms: int) -> GridSum:
    """Without the ends that hold next to nothing: moved inward or outward in bounds from above, dropped from below."""
    masses, points = one.masses, np.exp(one.logs)
    low = int(np.searchsorted(np.cumsum(masses), terms * rule.tail))
    means = (masses * points)[::-1] if rule.direction is Direction.REMOVAL else masses[::-1]
    high = len(masses) - int(np.searchsorted(np.cumsum(means), terms * rule.tail))
    if high - low < 2:
        return one
    kept, zero, infinite = masses[low:high].copy(), one.zero, one.infinite
    if rule.spreads:
        below, above = float(masses[:low].sum()) * (1 + 2.0**-40), masses[high:]
        kept[-1] += float(above.sum()) * (1 + 2.0**-40)
        if rule.rises:
            kept[0] += below
            infinite += float(above @ (points[high:] - points[high - 1])) * (1 + 2.0**-30)
        else:
            zero += below
    return GridSum(one.step, one.first + low, kept, zero, infinite)
