"""Standard normals in float64 from a sub-stream."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.core import checks
from discreet.randomness.stream import Substream

ASSUMPTION = (
    "ideal continuous Gaussian sampler: noise is the Box-Muller transform, in float64, of 64-bit words of an "
    "AES-256-CTR stream and is taken to be independent and exactly normal. Known differences: rounding below "
    "2^-45 standard deviations per value; radius and angle on a grid of 2^64 equally likely points; no value "
    "beyond 9.42 standard deviations, which an ideal normal passes with probability below 2^-67."
)
"""What a certificate cites where noise came from `normals`."""

_BLOCK_PAIRS = 1 << 14  # the temporaries of a block stay in the cache
_WORD_UNIT = 2.0**-64


def normals(substream: Substream, n: int) -> npt.NDArray[np.float64]:
    """Return the next `n` standard normals of `substream`; shape (n,). See `ASSUMPTION` for what "normal" means.

    Two words are consumed per pair of normals, and the second value of the last pair is dropped if `n` is odd;
    up to that, the values do not depend on how a request is divided. The last bits of a value may differ
    between processors (the words never do). `InputError` if `n` is not a whole number of at least 0.

    Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    count = checks.count("n", n, least=0)
    pairs = np.empty(((count + 1) // 2, 2))
    for start in range(0, len(pairs), _BLOCK_PAIRS):
        block = pairs[start : start + _BLOCK_PAIRS]
        words = substream.words(2 * len(block)).reshape(-1, 2)
        radius = np.sqrt(2.0 * _exponentials(words[:, 0]))
        cosine, sine = _directions(words[:, 1])
        np.multiply(radius, cosine, out=block[:, 0])
        np.multiply(radius, sine, out=block[:, 1])
    return pairs.reshape(-1)[:count]


def _exponentials(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return -ln(u) for u = 1 - w / 2^64, which is uniform on the grid 2^-64, 2 x 2^-64, ..., 1 and never 0.

    Each half of the range is computed from the side on which float64 loses nothing. Words read as signed
    numbers y 2^64 give both: u = 1 - y where y >= 0 (values near 0), u = -y where y < 0 (the tail, up to
    64 ln 2). One of the two logarithms is that of 1, exactly 0, so their sum selects without branching;
    np.where, or a cast from unsigned words, mispredicts on random bits and doubles the time of a normal.
    """
    y = words.view(np.int64).astype(np.float64) * _WORD_UNIT
    return -(np.log1p(-np.maximum(y, 0.0)) + np.log(np.maximum(-y, y >= 0.0)))


def _directions(words: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (cos, sin) of an angle uniform on [-pi, pi), to within 2^-50.

    By the half-angle formulas: NumPy has a vector tangent, but no vector sine in double precision. The tangent
    is at most about 2^54 at the ends of the range, so its square is far from overflow.
    """
    half_angles = words.view(np.int64).astype(np.float64) * (math.pi * _WORD_UNIT)
    tangent = np.tan(half_angles)
    scale = 2.0 / (1.0 + tangent * tangent)
    return scale - 1.0, tangent * scale
