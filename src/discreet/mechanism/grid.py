"""Arithmetic on the grid; each operation takes one pass over memory.

numba compiles the functions when the first sum is released. The machine code computes what is written, value by value:
no reordering, no reduced precision. Dividing by the grid and multiplying by it are exact, since the grid is a power of
two. So one pass gives the same bits as a separate pass for each operation, and the sensitivity argument is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from discreet.core.array_types import Array, IntArray
from discreet.randomness.machine_code import machine_code

LARGEST_MULTIPLE = 2.0**52
"""Multiples of the grid up to here are exact in float64, also after the noise is added."""


def rounded(values: Array, grid: float) -> Array:
    """Every value rounded to the nearest multiple of `grid`, a power of two: float64, same shape.

    Values in single precision are widened in the same pass. Others are rounded in place if they can be written to.
    """
    if values.dtype == np.float32:
        out = np.empty(values.shape)
        compiled().round_single(values.reshape(-1), grid, out.reshape(-1))
        return out
    out = np.require(values, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
    compiled().round_double(out.reshape(-1), grid)
    return out


def round_single(values: npt.NDArray[np.float32], grid: float, out: Array) -> None:
    """Set `out` to the nearest multiples of `grid`; both of shape (n,)."""
    for place in range(len(values)):
        out[place] = np.rint(np.float64(values[place]) / grid) * grid


def round_double(values: Array, grid: float) -> None:
    """Replace every value by the nearest multiple of `grid`."""
    for place in range(len(values)):
        values[place] = np.rint(values[place] / grid) * grid


def add_noise(values: Array, noise: IntArray, grid: float) -> int:
    """Overwrite `noise`, in its own memory, with `values` + `noise` x grid as float64; both are added as integers.

    Returns how many values are not multiples of the grid below `LARGEST_MULTIPLE`; the results for these values are
    meaningless.
    """
    noisy = noise.view(np.float64)  # in here, so that the compiler knows that they share memory: four times faster
    wrong = 0
    for place in range(len(values)):
        units = values[place] / grid
        on_grid = (abs(units) < LARGEST_MULTIPLE) & (np.rint(units) == units)  # not so for NaN
        whole = np.int64(units if on_grid else 0.0)
        wrong += not on_grid
        noisy[place] = float(whole + noise[place]) * grid
    return wrong


@dataclass(frozen=True)
class Compiled:
    """The three functions above as machine code."""

    round_single: Callable[[npt.NDArray[np.float32], float, Array], None]
    round_double: Callable[[Array, float], None]
    add_noise: Callable[[Array, IntArray, float], int]


@cache
def compiled() -> Compiled:
    """Compile the functions, once in a process."""
    return Compiled(
        machine_code(round_single, "void(float32[::1], float64, float64[::1])", exact=False),
        machine_code(round_double, "void(float64[::1], float64)", exact=False),
        machine_code(add_noise, "int64(float64[::1], int64[::1], float64)", exact=False),
    )
