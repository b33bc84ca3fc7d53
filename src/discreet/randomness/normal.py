"""Standard normals in float64 from a sub-stream."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.core import checks
from discreet.randomness.blocks import fill_in_blocks
from discreet.randomness.stream import Substream, Words

ASSUMPTION = (
    "ideal continuous Gaussian sampler: noise is the Box-Muller transform, in float64, of 64-bit words of an "
    "AES-256-CTR stream and is taken to be independent and exactly normal. Known differences: rounding below "
    "2^-45 standard deviations per value; radius and angle on a grid of 2^64 equally likely points; no value "
    "beyond 9.42 standard deviations, which an ideal normal passes with probability below 2^-67."
)
"""What a certificate cites where noise came from `normals`."""

_WORD_UNIT = 2.0**-64

Floats = npt.NDArray[np.float64]


def normals(substream: Substream, n: int) -> Floats:
    """Return the next `n` standard normals of `substream`; shape (n,). See `ASSUMPTION` for what "normal" means.

    Two words are consumed per pair of normals, and the second value of the last pair is dropped if `n` is odd;
    up to that, the values do not depend on how a request is divided. Long requests use all cores, and no bit
    depends on their number. The last bits of a value may differ between processors (the words never do).
    `InputError` if `n` is not a whole number of at least 0.

    Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    count = checks.count("n", n, least=0)
    values = np.empty(count + count % 2)
    fill_in_blocks(substream, values, BoxMuller, words=int)
    return values[:count]


class BoxMuller:
    """Fills blocks of at most `size` numbers (even) with normals. Holds scratch space, so one for each thread."""

    def __init__(self, size: int) -> None:
        self._words = np.empty(size, np.uint64)
        self._scratch = np.empty((3, size // 2))

    def fill(self, substream: Substream, out: Floats) -> None:
        """Overwrite `out`, contiguous and of even length, with as many normals from as many words."""
        half = len(out) // 2
        words = substream.fill(self._words[: len(out)]).reshape(half, 2)
        pairs, (radius, cosine, sine) = out.reshape(half, 2), self._scratch[:, :half]
        _exponentials(words[:, 0], out=radius, spare=cosine)
        np.multiply(radius, 2.0, out=radius)
        np.sqrt(radius, out=radius)
        _directions(words[:, 1], cosine=cosine, sine=sine)
        np.multiply(radius, cosine, out=pairs[:, 0])
        np.multiply(radius, sine, out=pairs[:, 1])


def _exponentials(words: Words, out: Floats, spare: Floats) -> None:
    """Set `out` to -ln(u) for u = 1 - w / 2^64, which is uniform on 2^-64, 2 x 2^-64, ..., 1 and never 0.

    Each half of the range is computed from the side on which float64 loses nothing. Words read as signed
    numbers y 2^64 give both: u = 1 - y where y >= 0 (values near 0), u = -y where y < 0 (the tail, up to
    64 ln 2). One of the two logarithms is that of 1, exactly 0, so their sum selects without branching;
    np.where, or a cast from unsigned words, mispredicts on random bits and doubles the time of a normal.
    """
    np.multiply(words.view(np.int64), -_WORD_UNIT, out=out)
    np.minimum(out, 0.0, out=spare)
    np.log1p(spare, out=spare)
    np.maximum(out, out <= 0.0, out=out)
    np.log(out, out=out)
    np.add(out, spare, out=out)
    np.negative(out, out=out)


def _directions(words: Words, cosine: Floats, sine: Floats) -> None:
    """Set `cosine` and `sine` to those of an angle uniform on [-pi, pi), to within 2^-50.

    By the half-angle formulas: NumPy has a vector tangent, but no vector sine in double precision. The tangent
    is at most about 2^54 at the ends of the range, so its square is far from overflow.
    """
    half_angle = np.multiply(words.view(np.int64), math.pi * _WORD_UNIT, out=sine)
    tangent = np.tan(half_angle, out=sine)
    np.multiply(tangent, tangent, out=cosine)
    np.add(cosine, 1.0, out=cosine)
    scale = np.divide(2.0, cosine, out=cosine)
    np.multiply(tangent, scale, out=sine)
    np.subtract(scale, 1.0, out=cosine)
