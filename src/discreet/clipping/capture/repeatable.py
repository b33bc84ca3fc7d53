"""Runs of a model that give the same numbers again, so that what differs is the model's doing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ATTENTION = (
    torch.ops.aten._scaled_dot_product_flash_attention_backward.default,
    torch.ops.aten._flash_attention_backward.default,
)
"""Operators of cards that have a deterministic algorithm, and take it only where all others must have one, too."""


@contextmanager
def repeatable() -> Iterator[None]:
    """Inside, torch uses deterministic algorithms, where it has them."""
    with _deterministic(warn_only=True), _attention():
        yield


def _attention() -> AbstractContextManager[Any]:
    used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return AttentionInOrder(_ATTENTION) if used else nullcontext()


class AttentionInOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, the backward pass of flash attention adds gradients up in one order.

    Otherwise the order changes with each call, which looks like state that a model keeps. `operators`: those that are
    demanded to be deterministic. Other operators have no deterministic algorithm, so it is not demanded of them.
    """

    def __init__(self, operators: tuple[Any, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operators = operators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._operators:
            return func(*args, **(kwargs or {}))
        with _deterministic(warn_only=False):
            return func(*args, **(kwargs or {}))


@contextmanager
def _deterministic(*, warn_only: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*deterministic")
            torch.use_deterministic_algorithms(True, warn_only=warn_only)
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
