"""The ziggurat: one word nearly always gives a normal; spare words decide the few cases that it leaves open.

The area under f(x) = exp(-x^2 / 2), x >= 0, is cut into 1024 layers of equal area. Layer i >= 1 is a rectangle
from 0 to x_i, between the heights f(x_i) and f(x_(i+1)). Layer 0 is [0, r] below f(r), together with the tail
beyond r = x_1, and is treated as a rectangle of width x_0 = area / f(r). A word proposes a point in a layer:

    bits 0-9      the layer, 1024 equally likely ones
    bits 10-63    signed, with its last bit set: the position in (-x_i, x_i), 2^53 equally likely points

No bit is used for two purposes, and the points are symmetric about 0. A point closer to 0 than x_(i+1) is below the
curve whatever its height, and is the normal (99.6 %). Otherwise fresh spare words decide:

    layers 1-1023    a height in the layer, 2^52 equally likely ones; the point stands if it is below the curve,
                     otherwise another word makes a new proposal
    layer 0          a value beyond r by Marsaglia's exact method: r + E / r if 2 E' > (E / r)^2, for exponentials
                     E and E' of a word each; otherwise tried again. The sign is that of the proposal.

In exact arithmetic the result would be exactly normal. In float64, `ASSUMPTION` in normal.py bounds the difference.

Sources: Marsaglia and Tsang, "The ziggurat method for generating random variables", J. Stat. Softw. 5 (2000),
issue 8, except that the bits of the layer do not enter the position; Marsaglia, "Generating a variable from
the tail of the normal distribution", Technometrics 6 (1964), 101-102.

numba compiles the functions below when the first number is drawn (see `machine_code`). Compiled code runs without
Python's lock, starts no threads and keeps no state, so threads and forked processes may use it. Whether noise has its
scale is tested before every run (`training.preflight.noise_check`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np
import numpy.typing as npt

from discreet.randomness.machine_code import machine_code

LAYER_BITS = 10
LAYERS = 1 << LAYER_BITS
TAIL = 4.0388498461095045
"""r, where the tail begins."""

_LAYER_MASK = LAYERS - 1
_POSITION_UNIT = 2.0 ** (LAYER_BITS - 63)
_HEIGHT_BITS = 53
_HEIGHT_UNIT, _HEIGHT_SHIFT = 2.0**-_HEIGHT_BITS, 64 - _HEIGHT_BITS
_TWO_64 = 2.0**64

# r, and the area of each of the 1024 layers, chosen so that the last layer ends at height 1.
_R = Decimal("4.0388498461095045227144234053359312047009919558946")
_AREA = Decimal("0.0012263246463530880728853709277371270618927068849358")

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tables:
    """The ziggurat in float64, each number the nearest to its ideal value."""

    units: Floats
    """x_i / 2^53: positions in layer i are odd multiples of this; shape (1024,)."""
    edges: Floats
    """x_0, x_1 = r, ..., x_1024 = 0; shape (1025,)."""
    heights: Floats
    """The height at which layer i begins: f(x_i), but 0 for i = 0; f(x_1024) = 1; shape (1025,)."""


@cache
def tables() -> Tables:
    """Compute the tables with 45 digits; the height of a layer is its area / width."""
    with localcontext(Context(prec=45)):
        height = (-_R * _R / 2).exp()
        edges, heights = [_AREA / height, _R], [Decimal(0), height]
        for _ in range(2, LAYERS):
            height += _AREA / edges[-1]
            edges.append((-2 * height.ln()).sqrt())
            heights.append(height)
    edges.append(Decimal(0))
    heights.append(Decimal(1))
    x = np.array([float(edge) for edge in edges])
    return Tables(x[:LAYERS] * _POSITION_UNIT, x, np.array([float(height) for height in heights]))


def propose(words: Integers, values: Floats, units: Floats, edges: Floats, places: Integers, left: Integers) -> int:
    """Set `values` to the points that `words` propose; both have shape (n,) and may share memory.

    Where the height of the point matters, its place and its word are appended to `places` and `left`, of shape at
    least (n,). Returns the number of these undecided words.
    """
    undecided = 0
    for place in range(len(words)):
        word = words[place]
        layer = word & _LAYER_MASK
        point = float((word >> LAYER_BITS) | 1) * units[layer]
        values[place] = point
        places[undecided] = place  # kept only if the count goes up: a branch would cost more
        left[undecided] = word
        undecided += not abs(point) < edges[layer + 1]
    return undecided


def settle(
    places: Integers, left: Integers, spares: Integers, values: Floats, units: Floats, edges: Floats, heights: Floats
) -> int:
    """Decide the words in `left` with two spare words each: `spares` has shape (m, 2), `places` and `left` (m,).

    Words that are still undecided, and new proposals that are, move to the front of `places` and `left`. Returns
    their number.
    """
    undecided = 0
    for lane in range(len(places)):
        place, word = places[lane], left[lane]
        layer = word & _LAYER_MASK
        point = float((word >> LAYER_BITS) | 1) * units[layer]
        if layer == 0:
            # Both words in (0, 1), without loss near 0, where the exponentials are large.
            first, second = float(spares[lane, 0]), float(spares[lane, 1])
            first += _TWO_64 if first < 0.0 else 0.0
            second += _TWO_64 if second < 0.0 else 0.0
            beyond = -math.log((first + 0.5) / _TWO_64) / TAIL
            stands = -2.0 * math.log((second + 0.5) / _TWO_64) > beyond * beyond
            point = math.copysign(TAIL + beyond, point)
        else:
            share = 0.5 + float((spares[lane, 0] >> _HEIGHT_SHIFT) | 1) * _HEIGHT_UNIT
            low, high = heights[layer], heights[layer + 1]
            stands = low + share * (high - low) < math.exp(-0.5 * point * point)
            if not stands:
                word = spares[lane, 1]
                layer = word & _LAYER_MASK
                point = float((word >> LAYER_BITS) | 1) * units[layer]
                stands = abs(point) < edges[layer + 1]
        if stands:
            values[place] = point
        else:
            places[undecided], left[undecided] = place, word
            undecided += 1
    return undecided


def round_to_grid(values: Floats, scale: float) -> None:
    """Turn `values` into `scale` x `values`, each rounded to the nearest integer: int64, in the same memory."""
    out = values.view(np.int64)  # in here, so that the compiler knows that they share memory: four times faster
    for place in range(len(values)):
        out[place] = int(np.rint(scale * values[place]))


@dataclass(frozen=True)
class Compiled:
    """The three functions above as machine code."""

    propose: Callable[[Integers, Floats, Floats, Floats, Integers, Integers], int]
    settle: Callable[[Integers, Integers, Integers, Floats, Floats, Floats, Floats], int]
    round_to_grid: Callable[[Floats, float], None]


@cache
def compiled() -> Compiled:
    """Compile the functions, once in a process."""
    return Compiled(
        machine_code(propose, "int64(int64[::1], float64[::1], float64[::1], float64[::1], int64[::1], int64[::1])"),
        machine_code(
            settle,
            "int64(int64[::1], int64[::1], int64[:, ::1], float64[::1], float64[::1], float64[::1], float64[::1])",
        ),
        machine_code(round_to_grid, "void(float64[::1], float64)"),
    )
