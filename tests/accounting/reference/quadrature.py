"""Thirty plans at thirty digits, by mpmath: makes quadrature.json. Nothing here is shared with the library.

python tests/accounting/reference/quadrature.py      (a few minutes)

- one step: delta(eps) is the integral of (P - e^eps Q)_+ over the outcomes, both directions;
- two steps: delta(eps) is the integral over the outcomes x of the first of P(x) x delta_2(eps - loss(x)), where
  delta_2 of the second is a difference of normal distribution functions;
- several phases at rate 1: the Gaussian of mu = sqrt(sum of steps / s^2), in closed form (Balle and Wang 2018).

P = (1 - q) N(0, s^2) + q N(1, s^2) and Q = N(0, s^2) for removal; exchanged for addition (Zhu, Dong, Wang 2022). The
smallest epsilon >= 0 with delta(eps) <= delta comes from the root of log delta(eps); of two directions the larger
counts. Every value is confirmed: with other nodes, and with two steps exchanged, delta(eps) passes delta
within 1e-25 of it (relative, or absolute below 1).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

HERE = Path(__file__).parent
DATA = HERE / "quadrature.json"
DIGITS = 30
AGREE = mp.mpf("1e-25")

Part = tuple[float, float, int]
"""(rate, noise, steps)"""


def plans() -> list[tuple[str, list[Part], float]]:
    """Kind, parts, delta: twelve of one step, ten of two, eight without sampling."""
    rng = random.Random("quadrature")

    def log_uniform(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}")

    found: list[tuple[str, list[Part], float]] = []
    for number in range(30):
        kind = "one step" if number < 12 else "two steps" if number < 22 else "rate 1"
        delta = log_uniform(1e-10, 1e-3)
        if kind == "rate 1":
            parts = [(1.0, log_uniform(0.3, 60), round(log_uniform(1, 3000))) for _ in range(rng.randint(1, 5))]
        else:
            steps = 1 if kind == "one step" else 2
            parts = [(log_uniform(1e-3, 0.95), log_uniform(0.3, 5), 1) for _ in range(steps)]
        found.append((kind, parts, delta))
    return found


def normal(z: mp.mpf) -> mp.mpf:
    """The distribution function, without cancellation on either side."""
    return mp.erfc(-z / mp.sqrt(2)) / 2


def mixture(rate: mp.mpf, noise: mp.mpf, x: mp.mpf) -> mp.mpf:
    """The density of the sampled release when the unit is in."""
    return (1 - rate) * mp.npdf(x, 0, noise) + rate * mp.npdf(x, 1, noise)


def loss(rate: mp.mpf, noise: mp.mpf, x: mp.mpf) -> mp.mpf:
    """The privacy loss of removal."""
    return mp.log1p(rate * mp.expm1((2 * x - 1) / (2 * noise**2)))


def outcome(rate: mp.mpf, noise: mp.mpf, at: mp.mpf) -> mp.mpf:
    """Where `loss` is `at`; minus infinity below its range."""
    inside = 1 + mp.expm1(at) / rate
    return -mp.inf if inside <= 0 else noise**2 * mp.log(inside) + mp.mpf(1) / 2


def integral(f: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, width: mp.mpf, kink: mp.mpf) -> mp.mpf:
    """Gauss and Legendre on pieces no wider than `width`; beside a kink, by tanh and sinh."""
    ends = [low, kink - width, kink, kink + width, high]
    points = [low, *sorted(end for end in ends if low < end < high), high]
    total = mp.mpf(0)
    for a, b in pairwise(points):
        if kink in (a, b):
            total += mp.quad(f, [a, b])
            continue
        pieces = mp.linspace(a, b, max(1, int(mp.ceil((b - a) / width))) + 1)
        for c, d in pairwise(pieces):
            total += (d - c) / 2 * mp.fsum(w * f((c + d) / 2 + (d - c) / 2 * x) for x, w in nodes(mp.mp.prec))
    return total


@cache
def nodes(precision: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Points and weights on [-1, 1]; more of them at a higher precision."""
    degree = 4 if precision < 80 else 5 if precision < 150 else 6
    return GaussLegendre(mp.mp).calc_nodes(degree, precision)  # 3 x 2^(degree - 1) points


def one_step(part: Part, removal: bool, width: float) -> Callable[[mp.mpf], mp.mpf]:
    """delta(eps) of one step as an integral of densities."""
    q, s = mp.mpf(part[0]), mp.mpf(part[1])
    reach = 16 * s

    def delta(eps: mp.mpf) -> mp.mpf:
        def gap(x: mp.mpf) -> mp.mpf:
            first, second = mixture(q, s, x), mp.npdf(x, 0, s)
            return first - mp.exp(eps) * second if removal else second - mp.exp(eps) * first

        edge = outcome(q, s, eps if removal else -eps)
        if removal:
            return integral(gap, edge, max(edge, mp.mpf(1)) + reach, width * s, mp.inf)
        return integral(gap, min(edge, mp.mpf(0)) - reach, edge, width * s, mp.inf) if edge > -mp.inf else mp.mpf(0)

    return delta


def tail(part: Part, eps: mp.mpf, removal: bool) -> mp.mpf:
    """delta(eps), any sign of eps, of one step by distribution functions."""
    q, s = mp.mpf(part[0]), mp.mpf(part[1])
    x = outcome(q, s, eps if removal else -eps)
    if removal:
        if x == -mp.inf:
            return -mp.expm1(eps)
        null, shifted = normal(-x / s), normal((1 - x) / s)
        return (1 - q) * null + q * shifted - mp.exp(eps) * null
    if x == -mp.inf:
        return mp.mpf(0)
    null, shifted = normal(x / s), normal((x - 1) / s)
    return null - mp.exp(eps) * ((1 - q) * null + q * shifted)


def two_steps(first: Part, second: Part, removal: bool, width: float) -> Callable[[mp.mpf], mp.mpf]:
    """delta(eps) of two steps as an integral over the outcomes of the first."""
    q, s = mp.mpf(first[0]), mp.mpf(first[1])
    end = mp.log1p(-mp.mpf(second[0]))  # where the losses of the second end: below for removal, above for addition

    def delta(eps: mp.mpf) -> mp.mpf:
        def inside(x: mp.mpf) -> mp.mpf:
            if removal:
                return mixture(q, s, x) * tail(second, eps - loss(q, s, x), True)
            return mp.npdf(x, 0, s) * tail(second, eps + loss(q, s, x), False)

        kink = outcome(q, s, eps - end) if removal else outcome(q, s, -end - eps)
        return integral(inside, -16 * s, 1 + 16 * s, width * s, kink)

    return delta


def without_sampling(parts: list[Part]) -> Callable[[mp.mpf], mp.mpf]:
    """delta(eps) of the Gaussian that all parts are together."""
    mu = mp.sqrt(sum(steps / mp.mpf(noise) ** 2 for _, noise, steps in parts))
    return lambda eps: normal(mu / 2 - eps / mu) - mp.exp(eps) * normal(-mu / 2 - eps / mu)


def root(profile: Callable[[mp.mpf], mp.mpf], delta: float) -> mp.mpf:
    """The smallest eps >= 0 with profile(eps) <= delta: bisection at low precision, then the secant on log delta."""
    target = mp.log(mp.mpf(delta))

    def excess(eps: mp.mpf) -> mp.mpf:
        value = profile(eps)
        return mp.log(value) - target if value > 0 else -(mp.mpf(10) ** 6)

    with mp.workdps(18):
        low, high = mp.mpf(0), mp.mpf(1)
        if excess(low) <= 0:
            return low
        while excess(high) > 0:
            low, high = high, 2 * high
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return mp.findroot(excess, (low, high), solver="secant", tol=mp.mpf(10) ** (-2 * DIGITS - 8), verify=False)


def profiles(kind: str, parts: list[Part], width: float = 1.0) -> list[Callable[[mp.mpf], mp.mpf]]:
    """delta(eps) in each direction; integrals in pieces `width` times the noise wide."""
    if kind == "rate 1":
        return [without_sampling(parts)]
    if kind == "one step":
        return [one_step(parts[0], removal, width) for removal in (True, False)]
    return [two_steps(parts[0], parts[1], removal, width) for removal in (True, False)]


def confirm(kind: str, parts: list[Part], delta: float, epsilon: mp.mpf) -> None:
    """Fail unless the largest delta(eps) passes `delta` within `AGREE` of `epsilon`, computed otherwise."""
    with mp.workdps(DIGITS + 8):
        for sign in (1, -1):
            near = epsilon + sign * AGREE * max(1, epsilon)
            # Of two steps the other is integrated over.
            value = max(profile(near) for profile in profiles(kind, parts[::-1], 0.7))
            if (sign == 1) != (value < delta):
                raise ArithmeticError(f"{kind} {parts} {delta}: no sign change at {mp.nstr(near, DIGITS)}")


def main() -> None:
    """Add what is missing."""
    rows = json.loads(DATA.read_text()) if DATA.exists() else []
    for kind, parts, delta in plans()[len(rows) :]:
        with mp.workdps(DIGITS + 12):
            epsilon = max(root(profile, delta) for profile in profiles(kind, parts))
            if epsilon > 0:
                confirm(kind, parts, delta, epsilon)
            rows.append({"kind": kind, "parts": parts, "delta": delta, "epsilon": mp.nstr(epsilon, DIGITS)})
        DATA.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
