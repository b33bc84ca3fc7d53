"""delta and epsilon of sampled Gaussian releases by exponential tilting: a reference that keeps its digits where delta
is tiny. Nothing is shared with the library.

One step's privacy loss L under P is written as masses at Gauss-Legendre nodes of the outcome, multiplied by exp(a L)
and normed, split over the six nearest points of a grid so that five moments stay, and composed by FFT. With a for which
the losses add up to about epsilon on average, the transform errs by 1e-16 of the mass that lies there, and so delta by
about 1e-11 of itself, however small it is. Without the factor the largest mass is at 0, and the error is absolute.

Splitting is Lagrange interpolation of exp(z L) between the points of the grid: wrong by (|z| h)^6 / 200 a step. The sum
over losses above epsilon is corrected for the corner of (1 - exp(epsilon - L))_+ (Euler and Maclaurin). Held against
thirty digits of mpmath and closed forms in tests/accounting/test_small_delta.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar

Array = npt.NDArray[np.float64]

Part = tuple[float, float, int]
"""(rate, noise multiplier, steps)"""

_TAIL = 11.0
"""Deviations beyond which a normal law is left out: 4e-28 of it."""

_PANELS = 128
"""In a deviation, each with four nodes."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)

_AROUND = np.arange(-2, 4)
"""Points of the grid, counted from the one below a loss, that it is split over."""

_LARGEST_TILT = 148.0


class Direction:
    """The losses of all steps where a unit leaves (`removal`) or comes."""

    def __init__(self, parts: Sequence[Part], *, removal: bool) -> None:
        self.steps = [steps for _, _, steps in parts]
        self._laws = [(rate, noise) for rate, noise, _ in parts]
        self._removal = removal

    def cumulant(self, a: float, panels: int = 8) -> float:
        """log E exp(a L) of the sum of all losses."""
        return sum(n * self._nodes(*law, a, panels)[0] for n, law in zip(self.steps, self._laws, strict=True))

    def delta(self, epsilon: float) -> float:
        """E[(1 - exp(epsilon - L))_+], at the tilt that is best for this epsilon."""
        a = _least(lambda a: self.cumulant(a) - a * epsilon)
        return self._composed(a, epsilon).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """The epsilon >= 0 with this delta, at the tilt that is best for it."""
        a = _least(lambda a: (self.cumulant(a) - np.log(delta)) / a)
        most = (self.cumulant(a) - np.log(delta)) / a  # Chernoff's bound, which is above by a few times 1 / a
        found = most
        for _ in range(2):  # again on a grid for what was found
            composed = self._composed(a, found)
            found = _root(lambda e, one=composed: one.log_delta(e) - np.log(delta), most, 0.5 / a)
        return found

    def _composed(self, a: float, epsilon: float) -> Composed:
        """The law of the sum of all losses, tilted."""
        laws = [self._nodes(*law, a, _PANELS) for law in self._laws]
        mean, spread = 0.0, 0.0
        for n, (_, losses, masses) in zip(self.steps, laws, strict=True):
            mean += n * float(losses @ masses)
            spread += n * float((losses - losses @ masses) ** 2 @ masses)
        # beyond a deviation or so the tails may be those of a single loss
        reach = 2 * _TAIL * np.sqrt(spread) + max(float(np.ptp(losses[masses > 1e-20])) for _, losses, masses in laws)
        grid = min(np.sqrt(spread) / 200, max(epsilon, 0.01) / 1000, 0.05 / a)
        size = 1 << int(np.ceil(np.log2(reach / grid)))
        transform = np.ones(size // 2 + 1, complex)
        for n, (_, losses, masses) in zip(self.steps, laws, strict=True):
            transform *= np.fft.rfft(_split(losses / grid, masses, a * grid, size)) ** n
        first = round(mean / grid) - size // 2
        places = np.arange(first, first + size)
        law = np.fft.irfft(transform, size)[places % size]
        shift = sum(n * cumulant for n, (cumulant, _, _) in zip(self.steps, laws, strict=True))
        return Composed(places, law, a, grid, shift)

    def _nodes(self, rate: float, noise: float, a: float, panels: int) -> tuple[float, Array, Array]:
        """log E exp(a L) of a step, losses, and their tilted masses."""
        low, high = -_TAIL * noise, 1 + _TAIL * noise
        low, high = (low, high + a) if self._removal else (low - a * (rate == 1), high)
        edges = np.linspace(low, high, 1 + int(np.ceil((high - low) / noise * panels)))
        middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        x = (middle[:, None] + half[:, None] * _NODES).ravel()
        ratio = _log_ratio(x, rate, noise)
        logs = (
            -(x**2) / (2 * noise**2) - np.log(noise * np.sqrt(2 * np.pi)) + np.log((half[:, None] * _WEIGHTS).ravel())
        )
        loss = ratio if self._removal else -ratio
        logs += a * loss + (ratio if self._removal else 0)
        masses = np.exp(logs - logs.max())
        return float(logs.max() + np.log(masses.sum())), loss, masses / masses.sum()


class Composed:
    """Masses `law` at the losses `places` x `grid`, which stand for law x exp(shift - a loss)."""

    def __init__(self, places: npt.NDArray[np.int64], law: Array, a: float, grid: float, shift: float) -> None:
        self._first, self._law, self._a, self._grid, self._shift = int(places[0]), law, a, grid, shift

    def delta(self, epsilon: float) -> float:
        """delta at an epsilon."""
        return float(np.exp(self.log_delta(epsilon)))

    def log_delta(self, epsilon: float) -> float:
        """Its logarithm, between four points of the grid."""
        below = int(np.floor(epsilon / self._grid)) - 1
        found = np.array([self._at(below + k) for k in range(4)])
        return float(_lagrange(np.array([epsilon / self._grid - below]), np.arange(4))[:, 0] @ found)

    def _at(self, place: int) -> float:
        """log delta at a point of the grid."""
        start = max(place - self._first, 0)
        law = self._law[start:]
        beyond = (self._first + start + np.arange(len(law)) - place) * self._grid
        total = float(np.sum(law * np.exp(-self._a * beyond) * -np.expm1(-beyond)))
        if len(law) and place >= self._first:
            total += float(law[0]) * self._grid / 12
        return self._shift - self._a * place * self._grid + np.log(max(total, 1e-300))


def delta_of(parts: Sequence[Part], epsilon: float) -> float:
    """delta at an epsilon, of the worse direction."""
    return max(Direction(parts, removal=removal).delta(epsilon) for removal in (True, False))


def epsilon_of(parts: Sequence[Part], delta: float) -> float:
    """epsilon at a delta, of the worse direction."""
    return max(Direction(parts, removal=removal).epsilon(delta) for removal in (True, False))


def _root(excess: Callable[[float], float], high: float, step: float) -> float:
    """Where what falls is 0, looked for downwards from `high`; 0 if it is negative down to there."""
    while high > 0 and excess(max(0.0, high - step)) < 0:
        high -= step
    return float(brentq(excess, max(0.0, high - step), high, xtol=1e-14, rtol=1e-14)) if high > 0 else 0.0


def _split(losses: Array, masses: Array, tilt: float, size: int) -> Array:
    """Tilted masses on a circle of so many points of the grid, for losses in steps of the grid."""
    below = np.floor(losses)
    law = np.zeros(size)
    for k, weight in zip(_AROUND, _lagrange(losses - below, _AROUND), strict=True):
        here = masses * weight * np.exp(tilt * (below + k - losses))
        law += np.bincount((below + k).astype(np.int64) % size, here, minlength=size)
    return law


def _lagrange(at: Array, points: npt.NDArray[np.int64]) -> Array:
    """The weights of values at `points` in their interpolation `at` each place: (points, places)."""
    rows = [np.prod([(at - q) / (p - q) for q in points if q != p], axis=0) for p in points]
    return np.array(rows)


def _least(function: Callable[[float], float]) -> float:
    """About where a function of the tilt is least."""
    end = np.log(_LARGEST_TILT)
    found = minimize_scalar(lambda t: function(np.exp(t)), bounds=(-3, end), method="bounded", options={"xatol": 1e-2})
    return float(np.exp(found.x))


def _log_ratio(x: Array, rate: float, noise: float) -> Array:
    """log (P / Q) of an outcome: log(1 - q + q exp(y)), y = (2 x - 1) / (2 s^2)."""
    y = (2 * x - 1) / (2 * noise**2)
    if rate == 1:
        return y
    large = np.logaddexp(np.log1p(-rate), np.log(rate) + y)
    return np.where(y < 30, np.log1p(rate * np.expm1(np.minimum(y, 30))), large)
