"""Features of a fixed front end, computed once instead of in every step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import OTHER_ROWS, InputError, UnsupportedModel
from discreet.core.processes import keep_freed_memory

_TOLERANCE = 1e-3

_LARGE, _BYTE = 1e4, 127


def precompute(front_end: nn.Module, inputs: Tensor, *, at_once: int = 32) -> Tensor:
    """The features of every row, each computed by itself, so that training on features protects the rows.

    `inputs`: (rows, ...), finite or not; returns (rows, ...). The front end runs in evaluation mode and must have
    nothing to train. It is tried out on random rows first: it may take `at_once` rows together only if that changes no
    bit of any row's features, wherever the row stands and whatever stands beside it, large or NaN. If only rounding
    differs, the front end gets one row at a time. If rows influence each other, as in batch normalisation by batch
    statistics, that is an `UnsupportedModel`. The trial uses nothing of the data but its shape.
    """
    if inputs.dim() == 0 or len(inputs) == 0:
        raise InputError(f"precompute needs at least one row, got inputs of shape {tuple(inputs.shape)}")
    return Precomputed(front_end, at_once=at_once)(inputs)


class Precomputed:
    """A front end for many blocks of rows, each as in `precompute`; it is tried out once, on the shape of the first
    block."""

    def __init__(self, front_end: nn.Module, *, at_once: int = 32) -> None:
        trained = [name for name, parameter in front_end.named_parameters() if parameter.requires_grad]
        if trained:
            raise InputError(
                f"the front end would be trained (parameter {trained[0]!r}), so its features cannot be computed once; "
                "freeze it with requires_grad_(False), after its weights were declared public"
            )
        self._front_end, self._at_once = front_end, checks.count("at_once", at_once)
        self._size: int | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The features of these rows, at least one."""
        keep_freed_memory()
        front_end, was_training = self._front_end, self._front_end.training
        front_end.eval()
        try:
            with torch.no_grad():
                if self._size is None:
                    self._size = rows_together(front_end, inputs[:1], self._at_once)
                return in_blocks(front_end, inputs, self._size)
        finally:
            front_end.train(was_training)


def in_blocks(front_end: Callable[[Tensor], Tensor], inputs: Tensor, size: int) -> Tensor:
    """The features of all rows, computed in blocks of `size` rows; the last is filled up with zeros."""
    first = front_end(_block(inputs[:1], size))
    features = torch.empty(len(inputs), *first.shape[1:], dtype=first.dtype, device=first.device)
    for start in range(0, len(inputs), size):
        rows = inputs[start : start + size]
        features[start : start + size] = front_end(_block(rows, size))[: len(rows)]
    return features


def rows_together(front_end: nn.Module, example: Tensor, at_once: int) -> int:
    """`at_once`, or 1 if features depend on rounding by other rows; `UnsupportedModel` if they depend on more."""
    generator = torch.Generator().manual_seed(0)
    shape = (at_once + 1, *example.shape[1:])
    random = (2 * torch.rand(shape, generator=generator) - 1).to(example.dtype).to(example.device)
    if not example.is_floating_point():
        random = torch.randint(0, 2, shape, generator=generator).to(example.dtype).to(example.device)
    alone = torch.cat([_run(front_end, random[i : i + 1]) for i in range(at_once + 1)])
    exact, extreme = True, _extremes(front_end, random[-1:])
    for turn in range(at_once if at_once > 1 else 0):  # every row at every place, beside one that is extreme
        block = random[:-1].roll(turn, 0)
        spoilt = (turn + at_once // 2) % at_once
        block[spoilt] = random[-1] if extreme is None else extreme[turn % 2]
        together, expected = _run(front_end, block), alone[:-1].roll(turn, 0)
        keep = [i for i in range(at_once) if i != spoilt]
        one, other = together[keep], expected[keep]
        scale = max(1e-30, float(other.abs().max()))
        if not torch.allclose(one, other, rtol=0, atol=_TOLERANCE * scale):
            raise UnsupportedModel(
                f"the front end ({type(front_end).__name__}) lets rows influence each other, so features of one row "
                "would hold another's data; use a norm within one row, for instance torch.nn.GroupNorm"
            )
        exact = exact and torch.equal(one, other)
    again = torch.cat([_run(front_end, random[i : i + 1]) for i in range(at_once + 1)])
    if not torch.equal(again.nan_to_num(), alone.nan_to_num()):
        raise UnsupportedModel(
            f"the front end ({type(front_end).__name__}) makes something else of a row after it has seen others, so it "
            "remembers rows or draws random numbers; remove the state"
        )
    return at_once if exact else 1


def _extremes(front_end: nn.Module, row: Tensor) -> tuple[float, float] | None:
    """Extreme rows that replace a row, to test its influence on others: NaN and large numbers (a test for large numbers
    may ignore NaN), or the extreme values of a byte. None for whole numbers that are only codes."""
    if row.is_floating_point():
        return torch.nan, _LARGE
    if row.dtype != torch.uint8 and row.device.type != "cpu":  # looking up an unknown code would fail
        return None
    try:
        front_end(torch.full_like(row, _BYTE))
    except OTHER_ROWS:
        return None
    return _BYTE, _BYTE


def _run(front_end: nn.Module, rows: Tensor) -> Tensor:
    features = front_end(rows)
    if not isinstance(features, Tensor) or features.dim() == 0 or len(features) != len(rows):
        raise InputError(
            f"the front end must return a tensor with one row for each of its inputs, for {len(rows)} rows"
        )
    return features


def _block(rows: Tensor, size: int) -> Tensor:
    """The rows, filled up to `size` with zeros, so that every block has the same size."""
    if len(rows) == size:
        return rows
    return torch.cat([rows, rows.new_zeros(size - len(rows), *rows.shape[1:])])
