"""Sums over equal tokens on CPUs: one pass over the tokens, with a slot for each row of the table.

numba compiles the functions when the first embedding is clipped. All sums are in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.core.array_types import Array, IntArray
from discreet.randomness.machine_code import machine_code


def token_squares(tokens: Tensor, values: Tensor, size: int) -> Tensor:
    """The squared norm of each example's gradient for a table of `size` rows: float64, shape (batch,).

    `tokens`: (batch, length), whole numbers in 0 .. `size` - 1. `values`: their gradients, (batch, length, features).
    """
    count, length, features = values.shape
    squares = np.empty(count)
    slots, sums = np.full(size, -1), np.empty((length, features))
    _compiled()[0](tokens.numpy(), np.ascontiguousarray(values.numpy()), slots, sums, squares)
    return torch.from_numpy(squares)


def token_table(tokens: Tensor, values: Tensor, weights: Tensor, size: int) -> Tensor:
    """The sums, by token, of weight x value: float64, shape (size, features).

    `tokens`, `weights`: (batch, length). `values`: (batch, length, features), or (batch, features) if all tokens of an
    example have the same value.
    """
    table = np.zeros((size, values.shape[-1]))
    rows = np.ascontiguousarray(values.numpy()).reshape(-1, values.shape[-1])
    each = tokens.shape[1] if values.dim() == 2 else 1
    factors = np.ascontiguousarray(weights.double().numpy()).reshape(-1)
    _compiled()[1](tokens.numpy().reshape(-1), each, rows, factors, table)
    return torch.from_numpy(table)


def alike(values: Tensor) -> bool:
    """Whether the values of each example, shape (batch, length, features), are the same at every place."""
    return bool(_compiled()[2](np.ascontiguousarray(values.numpy())))


def checked_tokens(tokens: Tensor, size: int) -> Tensor:
    """The tokens as contiguous int64; `IndexError` outside the table, since the compiled functions check no bounds."""
    if tokens.numel() and not (int(tokens.min()) >= 0 and int(tokens.max()) < size):
        raise IndexError(f"tokens must be in 0 .. {size - 1}")
    return tokens.long().contiguous()


def _squares(tokens: IntArray, values: Array, slots: IntArray, sums: Array, squares: Array) -> None:
    """Each new token of an example gets the next row of `sums`; `slots` holds its number until the example ends."""
    count, length, features = values.shape
    for example in range(count):
        used, total = 0, 0.0
        for place in range(length):
            slot = slots[tokens[example, place]]
            if slot < 0:
                slots[tokens[example, place]] = used
                for feature in range(features):
                    sums[used, feature] = values[example, place, feature]
                used += 1
            else:
                for feature in range(features):
                    sums[slot, feature] += values[example, place, feature]
        for slot in range(used):
            for feature in range(features):
                total += sums[slot, feature] * sums[slot, feature]
        for place in range(length):
            slots[tokens[example, place]] = -1
        squares[example] = total


def _table(tokens: IntArray, each: int, rows: Array, factors: Array, table: Array) -> None:
    features = rows.shape[1]
    for place in range(len(tokens)):
        factor, token, row = factors[place], tokens[place], place // each
        for feature in range(features):
            table[token, feature] += factor * rows[row, feature]


def _alike(values: Array) -> bool:
    count, length, features = values.shape
    for example in range(count):
        for place in range(1, length):
            different = 0
            for feature in range(features):
                different += values[example, place, feature] != values[example, 0, feature]
            if different:
                return False
    return True


@cache
def _compiled() -> tuple[Callable[..., Any], ...]:
    """The functions as machine code, for values in single and in double precision."""
    tokens, number = "int64[:, ::1]", ("float32", "float64")
    return (
        machine_code(
            _squares,
            *(f"void({tokens}, {one}[:, :, ::1], int64[::1], float64[:, ::1], float64[::1])" for one in number),
            exact=False,
        ),
        machine_code(
            _table,
            *(f"void(int64[::1], int64, {one}[:, ::1], float64[::1], float64[:, ::1])" for one in number),
            exact=False,
        ),
        machine_code(_alike, *(f"boolean({one}[:, :, ::1])" for one in number), exact=False),
    )
