"""The privacy loss of one Poisson-sampled Gaussian step, put on a grid: once from above, once from below.

Notation. In units of the noise deviation, base N = N(0,1), mixture M = (1-q) N(0,1) + q N(mu,1), ratio e(z) = exp(mu z
- mu^2/2), loss l(z) = ln(1 - q + q e(z)) = ln dM/dN, increasing. The dominating pairs of the step (Zhu, Dong and Wang
2022, theorem 11) are (M, N) when the unit is removed, loss L = l under M, and (N, M) when it is added, loss L = -l
under N. Composed,

    delta(epsilon) = E[(1 - e^epsilon Y_1 ... Y_k)+],   Y = exp(-L),   Z under the first of the pair,

is convex and decreasing in every Y. That is all that is used:
  above: Y is spread to the ends of its bin with its mean kept (Jensen; "connect the dots", Doroshenko et al. 2022);
  below: Y is replaced by its mean over a cell (Jensen again), and that by a grid point that is not smaller.

Bin i is the set of z between two floats z_i, z_{i+1} at which l is t_i, t_{i+1} up to rounding: there a clipped loss
within `slip` of l lies exactly between grid points. Everything else needs two non-negative wedges of each bin,

    U = int (e - e_i) dN = N(mu,1)[bin] - e_i N[bin],      V = int (e_{i+1} - e) dN = e_{i+1} N[bin] - N(mu,1)[bin],

with e_i = (exp(t_i) - (1-q)) / q, from which the large common part 1-q has cancelled by algebra, not by rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.verification.recompute.events import Part

Array = NDArray[np.float64]
EPS = 2.0**-52
MU_ERROR = 2.0**-49
FARTHEST = 36.0
"""Beyond this many deviations tails come near the smallest double."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Mass at grid points (first + 0, 1, ...) h, mass at infinity, and how far a loss may be off (`slip`)."""

    first: int
    mass: Array
    infinite: float
    slip: float


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins between the grid points (first + i) h, each functional with a bound on its float error."""

    first: int
    t: Array  # n + 1 grid points
    base: tuple[Array, Array]  # N[bin] and error, n
    moved: tuple[Array, Array]  # N(mu,1)[bin] and error, n
    u: tuple[Array, Array]
    v: tuple[Array, Array]
    left: tuple[float, float]  # N and M mass (upper bounds) below the first bin
    right: tuple[float, float]  # and above the last
    slip: float


def above(part: Part, h: float, reach: float, removal: bool) -> Loss:
    """A grid loss whose composition has a delta of at least that of `part`; `reach`: deviations before the tails."""
    bins = _bins(part.rate, part.mu * (1 + MU_ERROR), h, reach)
    # The share p - a of a bin's mass p that goes up: int (1 - e^{t_i} Y) / (1 - e^-h). Removal: q U / (1 - e^-h) up and
    # q V / (e^h - 1) down. Addition is the same pair swapped: the mass at -t_j is exp(-t_j) times that at t_j.
    mass = np.zeros(len(bins.t))
    mass[1:] += (bins.u[0] + bins.u[1]) * (part.rate / -math.expm1(-h))
    mass[:-1] += (bins.v[0] + bins.v[1]) * (part.rate / math.expm1(h))
    mass = np.maximum(mass, 0.0) * (1 + 16 * EPS)
    if removal:
        mass[0] += bins.left[1]  # raised to the first grid point
        return Loss(bins.first, mass, bins.right[1], bins.slip)
    mass *= np.exp(-bins.t) * (1 + (2 * np.abs(bins.t) + 8) * EPS)
    mass[-1] += bins.right[0]
    return Loss(1 - bins.first - len(mass), mass[::-1], bins.left[0], bins.slip)


def above_symmetric(part: Part, h: float, reach: float) -> Loss:
    """A grid loss as in `above`, for a batch of fixed size under replace_one, whose curve is min{f, f^-1}** of either
    direction's f.

    That curve is self-inverse, with the profile of removal for epsilon >= 0. Losses above 0 are therefore removal's,
    those below 0 addition's (both from z > mu / 2, where l = 0), and what is left of the mass, (1 - q)(1 - 2 Phi(-mu /
    2)), has loss 0 (Dong, Roth and Su 2019, theorem 4.2 and proposition 2.12).
    """
    bins = _bins(part.rate, part.mu * (1 + MU_ERROR), h, reach)
    zero = max(-bins.first, 0)  # the bins from t = 0 on; z is exactly mu / 2 there
    t = bins.t[zero:]
    mass = np.zeros(len(t))
    mass[1:] += (bins.u[0] + bins.u[1])[zero:] * (part.rate / -math.expm1(-h))
    mass[:-1] += (bins.v[0] + bins.v[1])[zero:] * (part.rate / math.expm1(h))
    mass = np.maximum(mass, 0.0) * (1 + 16 * EPS)
    mirrored = mass * np.exp(-t) * (1 + (2 * np.abs(t) + 8) * EPS)
    mirrored[-1] += bins.right[0]
    both = np.concatenate((mirrored[:0:-1], mass))
    level = (1 - part.rate) * math.erf(part.mu * (1 + MU_ERROR) / math.sqrt(8))
    both[len(t) - 1] += mirrored[0] + level * (1 + 32 * EPS)
    return Loss(1 - len(t), both, bins.right[1], bins.slip)


def below(part: Part, h: float, reach: float, removal: bool) -> Loss:
    """A grid loss whose composition has a delta of at most that of `part`.

    A fixed share s_i of bin i joins the cell of t_{i+1}, the rest that of t_i. The mean of Y over the cell of t_i is at
    most exp(t_i) (addition) or exp(-t_i) (removal) iff (1 - s_i) U_i - s_{i-1} V_{i-1} is <= 0 or >= 0. Reversing the
    order of the bins and exchanging s with 1 - s and U with V turns the first problem into the second.
    """
    q = part.rate
    bins = _bins(q, part.mu * (1 - MU_ERROR), h, reach)
    mixed = [(1 - q) * bins.base[k] + q * bins.moved[k] for k in (0, 1)] if removal else bins.base
    bin_mass = np.maximum(mixed[0] - mixed[1], 0.0) * (1 - 16 * EPS)
    gain, loss = (bins.u, bins.v) if removal else (bins.v, bins.u)
    order = 1 if removal else -1
    floor, ceiling = np.maximum(gain[0] - gain[1], 0.0), np.maximum(loss[0] + loss[1], 0.0)
    share = _shares(floor[::order], ceiling[::order], bin_mass[::order], h)
    rise, stay = share * bin_mass[::order], (1 - share) * bin_mass[::order]
    mass = np.asarray(np.append(stay, 0.0) + np.append(0.0, rise), dtype=np.float64)
    first = bins.first if removal else -(bins.first + len(bin_mass))
    return Loss(first, mass, 0.0, bins.slip)  # tails are dropped: less mass, less delta


def _shares(u: Array, v: Array, weight: Array, h: float) -> Array:
    """Large s in [0, 1] with s_i U_i + s_{i-1} V_{i-1} <= U_i for all i >= 1 and s_{n-1} = 0.

    Feasible: s_i = min(c_i, c_{i+1}), c_i = U_i / (U_i + V_{i-1}); and with any s also every smaller one, entry by
    entry. Where that wastes little (slack below h / 100) it is kept. In between, the inequalities are made equalities:
    forwards where the mass rises, backwards where it falls, the directions in which s = (U - s' V) / U forgets its
    start. What makes the result feasible is the backward pass alone: it meets the inequality of each i by choice of
    s_{i-1}.
    """
    c = np.divide(u[1:], u[1:] + v[:-1], out=np.zeros(len(u) - 1), where=u[1:] > 0) * (1 - 8 * EPS)
    share = np.asarray(np.minimum(np.append(1.0, c), np.append(c, 0.0)), dtype=np.float64)
    slack = weight * np.abs(np.append(c[:1], c) - np.append(c, 0.0))
    wasteful = np.flatnonzero((np.cumsum(slack) > h / 200) & (np.cumsum(slack[::-1])[::-1] > h / 200))
    if not len(wasteful):
        return share
    start, stop = max(int(wasteful[0]), 1), min(int(wasteful[-1]) + 1, len(u) - 1)
    rho = np.divide(v[:-1], u[1:], out=np.full(len(c), np.inf), where=u[1:] > 0)[start - 1 : stop].tolist()
    point, s = c[start - 1 : stop].tolist(), share[start - 1 : stop + 1].tolist()
    if start == 1:
        s[0] = point[0] if rho[0] <= 1 else 1.0
    last = share[start - 1]
    for i in range(1, len(s) - 1):
        rising = rho[i - 1] <= 1
        last = 1 - last * rho[i - 1] if rising else point[i - 1]
        s[i] = last if rising else 1.0
    for i in range(len(s) - 1, 0, -1):
        most = (1 - s[i]) / rho[i - 1] * (1 - 8 * EPS) if rho[i - 1] > 0 else 1.0
        s[i - 1] = max(min(s[i - 1], most), 0.0)
    share[start - 1 : stop + 1] = s
    return share


def loss_range(part: Part, reach: float) -> tuple[float, float]:
    """The losses between which z stays within `reach` deviations of both means."""
    low, high = loss_at(part, np.array([-reach, part.mu + reach]))
    return float(low), float(high)


def loss_at(part: Part, z: Array) -> Array:
    """l(z). Not directed: used to choose bins and orders, never to bound."""
    m = part.mu * z - part.mu**2 / 2
    rest = math.log1p(-part.rate) if part.rate < 1 else -math.inf
    return np.asarray(np.logaddexp(rest, math.log(part.rate) + m), dtype=np.float64)


def _bins(q: float, mu: float, h: float, reach: float) -> Bins:
    low, high = loss_range(Part(q, mu, 1), reach)
    if not reach + mu <= FARTHEST:
        raise ArithmeticError("noise too small for double precision")
    first, last = math.floor(low / h) - 1, math.ceil(high / h) + 1  # one more: `low` and `high` are rounded
    t = np.arange(first, last + 1, dtype=np.float64) * h
    e, e_error = _thresholds(t, q)
    m = np.log(e, out=np.full(len(e), -np.inf), where=e > 0)
    z = m / mu + mu / 2
    # z_i is off by rounding; e(z_i) then differs from e_i by e_error + e_i |d m|, |d m| <= mu |d z|.
    e_error = e_error + np.multiply(e, EPS * (4 * np.abs(m) + 2 * mu * mu), out=np.zeros(len(e)), where=e > 0)
    base, base_error = _masses(z, 0.0)
    moved, moved_error = _masses(z, mu)
    outside = (e_error[:-1] + e_error[1:]) * base  # clipping, and the rounding of e_i

    def wedge(edge: Array) -> Array:
        return moved_error + np.abs(edge) * (base_error + 8 * EPS * base) + 8 * EPS * moved + 2 * outside

    return Bins(
        first,
        t,
        (base, base_error),
        (moved, moved_error),
        (moved - e[:-1] * base, wedge(e[:-1])),
        (e[1:] * base - moved, wedge(e[1:])),
        _tails(float(z[0]), q, mu),
        _tails(-float(z[-1]), q, -mu),
        float(np.max(2 * q * e_error * np.exp(-t))),
    )


def _thresholds(t: Array, q: float) -> tuple[Array, Array]:
    """e_i = (exp(t_i) - (1-q)) / q by the better conditioned of two formulas, and an error bound."""
    near, size = np.expm1(t) + q, np.abs(np.expm1(t)) + q
    far, far_size = np.exp(t) - (1 - q), np.exp(t) + (1 - q)
    use_near = size < far_size
    return np.where(use_near, near, far) / q, 4 * EPS * np.where(use_near, size, far_size) / q


def _masses(z: Array, mean: float) -> tuple[Array, Array]:
    """N(mean, 1) of each bin as a difference in the nearer tail, and an error bound.

    Assumed of scipy.special.ndtr: relative error at most (24 + 2 x^2) EPS (a test checks). A rounding
    d of x = z - mean changes Phi(-|x|) by a factor exp(d (1 + |x|)) to first order (Mills' ratio), |d| <= EPS |x|.
    """
    x = z - mean
    down, up = ndtr(x), ndtr(-x)
    flipped = x[:-1] + x[1:] > 0
    mass = np.where(flipped, up[:-1] - up[1:], down[1:] - down[:-1])
    size = np.minimum(np.abs(x), 64.0)
    relative = EPS * (32 + 4 * size * size)
    down, up = relative * down, relative * up
    return np.maximum(mass, 0.0), np.where(flipped, up[:-1] + up[1:], down[:-1] + down[1:])


def _tails(z: float, q: float, mu: float) -> tuple[float, float]:
    """Upper bounds on the masses of N and M below z."""
    relative = 1 + EPS * (40 + 6 * min(abs(z) + abs(mu), 64.0) ** 2)
    base, moved = float(ndtr(z)) * relative, float(ndtr(z - mu)) * relative
    return base, ((1 - q) * base + q * moved) * (1 + 8 * EPS)
