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
from discreet.randomness.blocks import in_blocks
from discreet.randomness.machine_code import machine_code

LARGEST_MULTIPLE = 2.0**52
"""Multiples of the grid up to here are exact in float64, also after the noise is added."""


def rounded(values: Array, grid: float) -> Array:
    """Every value rounded to the nearest multiple of `grid`, a power of two: float64, same shape; in place if the
    values can be written to."""
    out = np.require(values, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
    flat, round_part = out.reshape(-1), compiled().round_double

    def part(start: int, stop: int) -> int:
        round_part(flat[start:stop], grid)
        return 0

    in_blocks(part, flat.size)
    return out


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


def round_and_add_noise(values: npt.NDArray[np.float32], noise: IntArray, grid: float) -> int:
    """As `add_noise`, of values that are rounded to the nearest multiple of `grid` first.

    Returns how many values are not finite, or too large for the grid.
    """
    noisy = noise.view(np.float64)
    wrong = 0
    for place in range(len(values)):
        units = np.rint(np.float64(values[place]) / grid)
        fits = abs(units) < LARGEST_MULTIPLE
        whole = np.int64(units if fits else 0.0)
        wrong += not fits
        noisy[place] = float(whole + noise[place]) * grid
    return wrong


def add_multiples(values: Array, multiples: IntArray, unit: float, least: float) -> int:
    """Add to `multiples` what `values` are in multiples of `unit`, each rounded to the nearest whole number.

    Returns how many values are not finite, or `least` multiples or more; these add nothing.
    """
    wrong = 0
    for place in range(len(values)):
        units = np.rint(np.float64(values[place]) / unit)
        fits = abs(units) < least  # not so for NaN
        multiples[place] += np.int64(units if fits else 0.0)
        wrong += not fits
    return wrong


def folded(multiples: IntArray, fold: int, grid: float) -> None:
    """Overwrite multiples of a grid that is `fold` bits finer, in their own memory, with the nearest multiples of
    `grid` as float64 values; halves go up. Values beyond `LARGEST_MULTIPLE` are not exact."""
    values = multiples.view(np.float64)
    half = (1 << fold) >> 1
    for place in range(len(multiples)):
        values[place] = float((multiples[place] + half) >> fold) * grid


@dataclass(frozen=True)
class Compiled:
    """The functions above as machine code. `add_multiples` takes values in single or double precision."""

    round_double: Callable[[Array, float], None]
    add_noise: Callable[[Array, IntArray, float], int]
    round_and_add_noise: Callable[[npt.NDArray[np.float32], IntArray, float], int]
    add_multiples: Callable[[npt.NDArray[np.floating], IntArray, float, float], int]
    folded: Callable[[IntArray, int, float], None]


@cache
def compiled() -> Compiled:
    """Compile the functions, once in a process."""
    return Compiled(
        machine_code(round_double, "void(float64[::1], float64)", exact=False),
        machine_code(add_noise, "int64(float64[::1], int64[::1], float64)", exact=False),
        machine_code(round_and_add_noise, "int64(float32[::1], int64[::1], float64)", exact=False),
        machine_code(
            add_multiples,
            "int64(float32[::1], int64[::1], float64, float64)",
            "int64(float64[::1], int64[::1], float64, float64)",
            exact=False,
        ),
        machine_code(folded, "void(int64[::1], int64, float64)", exact=False),
    )
