"""Composition of grid losses by one Fourier transform, with every error bounded, and the epsilon at a delta.

Masses are tilted first: x(t) = mass(t) exp(lambda t - c). With v the k-fold convolution of the x, C the sum of all c,

    delta(epsilon) = exp(C - lambda epsilon) sum_s v(s) w(s - epsilon),   w(u) = exp(-lambda u) (1 - e^-u)+.

At the lambda that makes Chernoff's bound best for delta, the factor is of the size of delta, so that all rounding
errors are relative to delta. An l2 error e of v moves the sum by at most |w|_2 e (Cauchy and Schwarz); a mass o of v
outside the window, which the circular transform folds into it, by at most max(w) o in either direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, rfft
from scipy.special import logsumexp, ndtr

from discreet.verification.recompute import allocation, truncated
from discreet.verification.recompute.events import Part
from discreet.verification.recompute.log_sums import log_sums
from discreet.verification.recompute.poisson_loss import EPS, Array, Loss, loss_at

OUTSIDE = 1e-14
"""Tilted mass left out at each side of the window."""

TILTS = np.geomspace(1e-3, 1e6, 400)
"""The tilts to choose from."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Free choices, valid whatever their values: the tilt, two Chernoff orders for the window, what they promise."""

    tilt: float
    rise: float
    fall: float
    epsilon: float  # near the answer
    width: float  # near the width of the window


@dataclass(frozen=True, slots=True)
class Curve:
    """delta as a function of epsilon, moved outward in direction `sign` (+1: never too small, -1: never too large)."""

    sign: int
    tilt: float
    h: float
    log_scale: float
    s: Array  # loss values of the window, ascending
    v: Array  # their tilted masses
    l2_error: float
    outside: float
    infinite: float

    def untilt(self, center: float, start: float) -> tuple[Array, Array]:
        """The part of the window above `start`, untilted relative to `center`."""
        begin = int(np.searchsorted(self.s, start, side="right"))
        s = self.s[begin:]
        return s, self.v[begin:] * np.exp(-self.tilt * (s - center))

    def delta(self, epsilon: float, center: float, s: Array, untilted: Array) -> float:
        """delta(epsilon) for epsilon at or above the start of `s`."""
        begin = int(np.searchsorted(s, epsilon, side="right"))
        total = float(np.dot(untilted[begin:], -np.expm1(epsilon - s[begin:])))
        largest = self.tilt * float(np.max(np.abs(self.s)) + abs(center) + abs(epsilon)) + abs(self.log_scale)
        rounding = EPS * (len(s) + 8 * largest + 64)  # a sum of non-negative terms, and the exponents
        a = self.tilt
        w_max = 1 / (1 + a)  # e^{-a u}(1 - e^-u) <= a^a / (1+a)^(1+a)
        w_l2 = math.sqrt(1 / (self.h * a * (2 * a + 1) * (2 * a + 2)) + w_max**2)  # unimodal: sum <= integral / h + max
        error = w_l2 * self.l2_error + w_max * self.outside
        main = math.exp(self.log_scale - a * center) * total * (1 + self.sign * rounding)
        bound = main + self.sign * error * math.exp(self.log_scale - a * epsilon) * (1 + rounding)
        return bound + self.infinite if self.sign > 0 else bound


def chernoff(parts: list[Part], delta: float, reach: float, removal: bool | None) -> Array:
    """The epsilon that Chernoff's bound on delta gives at each of `TILTS`. `removal` None: the symmetrised pair."""
    largest_weight = -np.log1p(TILTS) - TILTS * np.log1p(1 / TILTS)
    return np.asarray((_cumulants(parts, TILTS, reach, removal) + largest_weight - math.log(delta)) / TILTS)


def choose_orders(parts: list[Part], reach: float, removal: bool | None, bound: Array, goal: float = 0.0) -> Orders:
    """The tilt at which `bound`, made by `chernoff`, is smallest; the orders that make the window short.

    The smallest tilt that gives `goal` will do: the direction that does not decide needs no accuracy below the other's
    epsilon, and its best tilt may be huge (when a unit is added, the loss is at most -ln(1-q)).
    """
    best = int(np.argmax(bound <= goal)) if np.any(bound <= goal) else int(np.argmin(bound))
    a, step = float(TILTS[best]), np.geomspace(1e-2, 1e6, 300)
    here = float(_cumulants(parts, np.array([a]), reach, removal)[0])
    high = (_cumulants(parts, a + step, reach, removal) - here - math.log(OUTSIDE)) / step
    low = (_cumulants(parts, a - step, reach, removal) - here - math.log(OUTSIDE)) / -step
    i, j = int(np.argmin(high)), int(np.argmax(low))
    return Orders(a, float(step[i]), float(step[j]), max(float(bound[best]), 0.0), float(high[i] - low[j]))


def _cumulants(parts: list[Part], orders: Array, reach: float, removal: bool | None) -> Array:
    return np.asarray(sum(part.count * _log_moment(part, orders, reach, removal) for part in parts))


def _log_moment(part: Part, orders: Array, reach: float, removal: bool | None) -> Array:
    """ln E exp(order L) by the trapezoid rule, or by Simpson's where the density does not vanish at the range's end: a
    guide for choices, not part of any bound. Over many steps its errors add up, and no grid makes up for a bad tilt."""
    if part.filled > 0:
        found = [_log_moment(case, orders, reach, removal) for case in truncated.cases(part)]
        return np.asarray(
            np.logaddexp(found[0] + math.log1p(-min(part.filled, 0.999)), found[1] + math.log(part.filled))
        )
    if part.steps > 1 and removal is not None:
        return allocation.log_moment(part, orders, float(ndtr(-reach)), removal)
    low = -reach if removal is not None else part.mu / 2
    z = np.linspace(low, part.mu + reach, 1501)
    loss = loss_at(part, z)
    log_density = -z * z / 2 + math.log((z[1] - z[0]) / math.sqrt(2 * math.pi))
    if removal is not None:
        return log_sums(np.multiply.outer(orders + 1 if removal else -orders, loss) + log_density)
    log_density[1:-1] += np.log(np.resize([4.0, 2.0], len(z) - 2))
    log_density -= math.log(3)
    forth, back = (np.multiply.outer(a, loss) + log_density for a in (orders + 1, -orders))
    level = math.log(max((1 - part.rate) * math.erf(part.mu / math.sqrt(8)), 1e-300))
    return log_sums(np.concatenate((forth, back, np.full((len(orders), 1), level)), axis=1))


def compose(losses: list[tuple[Loss, int]], h: float, orders: Orders, sign: int, max_points: int) -> Curve:
    """The curve of all losses, each repeated its count. ArithmeticError if the window needs more than `max_points`."""
    tilted = [(loss.first, *_tilt(loss, h, orders.tilt, sign), count) for loss, count in losses]
    steps = sum(count for _, count in losses)
    # Chernoff: sum_{s > b} v(s) <= exp(sum_i k_i ln sum_t x_i(t) e^{r t} - r b), and likewise below a.
    high = (_cumulant(tilted, h, orders.rise) - math.log(OUTSIDE)) / orders.rise
    low = (_cumulant(tilted, h, -orders.fall) - math.log(OUTSIDE)) / -orders.fall
    start, stop = math.floor(low / h), math.ceil(high / h)
    n = 1 << max(stop - start, 16).bit_length()
    if n > max_points:
        raise ArithmeticError("the window needs more points than allowed")
    unit = 16 * EPS * math.log2(n)
    # Higham (2002), theorem 24.2: a transform errs by at most eta log2(n) |.|_2, eta = mu + gamma_4 (sqrt 2 + mu); with
    # twiddle factors good to 4 roundings eta < 10 roundings = 5 EPS, here 16 EPS. Powers are taken by squaring: complex
    # products err by at most sqrt 5 roundings (Brent, Percival and Zimmermann 2007), k-th powers by (1 + that)^(k-1).
    spectrum = np.ones(n // 2 + 1, dtype=np.complex128)
    l2_error, log_growth = 0.0, 0.0
    for first, x, _, count in tilted:
        additions = 1 + sign * EPS * (2 + len(x) // n)
        folded = np.bincount(np.arange(first, first + len(x)) % n, weights=x, minlength=n) * additions
        spectrum *= _power(rfft(folded), count)
        norm = float(np.linalg.norm(folded)) * (1 + n * EPS)
        l2_error += count * unit * norm
        log_growth += count * math.log(max(float(folded.sum()) * (1 + n * EPS) + unit * math.sqrt(n) * norm, 1.0))
    v = irfft(spectrum, n)
    relative = math.expm1(2.3 * EPS * (steps + len(tilted)) + 2 * unit)
    l2_error = l2_error * math.exp(log_growth) + 2 * relative * float(np.linalg.norm(v))
    window = np.arange(start, start + n)
    return Curve(
        sign=sign,
        tilt=orders.tilt,
        h=h,
        log_scale=math.fsum(count * scale for _, _, scale, count in tilted),
        s=np.asarray(window * h, dtype=np.float64),
        v=np.asarray(np.maximum(v[window % n], 0.0), dtype=np.float64),  # the true v >= 0: clipping brings it nearer
        l2_error=l2_error * (1 + 1e-6),
        outside=2 * OUTSIDE * math.exp(64 * EPS * steps),
        infinite=sum(count * loss.infinite for loss, count in losses) * (1 + 8 * EPS * len(losses)),
    )


def _tilt(loss: Loss, h: float, tilt: float, sign: int) -> tuple[Array, float]:
    """x and c, elementwise moved outward by the rounding of the exponent."""
    t = (loss.first + np.arange(len(loss.mass))) * h
    log_mass = np.log(loss.mass, out=np.full(len(t), -np.inf), where=loss.mass > 0)
    scale = float(logsumexp(log_mass + tilt * t))
    exponent = np.where(loss.mass > 0, tilt * t - scale, 0.0)
    rounding = EPS * (2 * tilt * np.abs(t) + 2 * np.abs(exponent) + 16)
    return np.maximum(loss.mass * np.exp(exponent) * (1 + sign * rounding), 0.0), scale


def _cumulant(tilted: list[tuple[int, Array, float, int]], h: float, order: float) -> float:
    total = 0.0
    for first, x, _, count in tilted:
        exponent = order * h * (first + np.arange(len(x)))
        total += count * float(logsumexp(exponent[x > 0] + np.log(x[x > 0])))
    return total


def _power(
    base: np.ndarray[tuple[int], np.dtype[np.complex128]], count: int
) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    result = None
    while True:
        if count & 1:
            result = base.copy() if result is None else result * base
        count >>= 1
        if not count:
            assert result is not None
            return result
        base = base * base


def first_below(curve: Curve, delta: float, orders: Orders, precision: float) -> float:
    """An epsilon at which the upper `curve` is verified to be at most delta, near the smallest; inf if none is."""
    start = max(0.0, orders.epsilon - 300 / orders.tilt)
    s, untilted = curve.untilt(orders.epsilon, start)

    def holds(epsilon: float) -> bool:
        return curve.delta(epsilon, orders.epsilon, s, untilted) <= delta

    if holds(start):
        return start
    low, high = start, max(orders.epsilon, start)
    for _ in range(64):
        if holds(high):
            break
        low, high = high, high + 2 * (high - low) + precision
    else:
        return math.inf
    while high - low > precision and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def last_above(curve: Curve, delta: float, orders: Orders, precision: float) -> float:
    """An epsilon at which the lower `curve` is verified to exceed delta, near the largest; -inf if none is found."""
    start = max(0.0, orders.epsilon - 300 / orders.tilt)
    s, untilted = curve.untilt(orders.epsilon, start)

    def exceeds(epsilon: float) -> bool:
        return curve.delta(epsilon, orders.epsilon, s, untilted) > delta

    high = max(orders.epsilon, start) + precision
    low, width = max(start, high - 0.5 / orders.tilt), 0.5 / orders.tilt
    while not exceeds(low):  # near the centre first: relative to the tilt's, errors grow with the distance from it
        if low <= start:
            return -math.inf
        high, width = low, 2 * width
        low = max(start, low - width)
    while high - low > precision and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return low
