"""Makes torch repeat results exactly, so that a difference between two calls comes from the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.core.processes import ProcessWide

_ATTENTION = (
    torch.ops.aten._scaled_dot_product_flash_attention_backward.default,
    torch.ops.aten._flash_attention_backward.default,
    torch.ops.aten._scaled_dot_product_efficient_attention_backward.default,
    torch.ops.aten._efficient_attention_backward.default,
)
"""Operators of CUDA that have a deterministic algorithm, but use it only if torch demands it of all operators."""


@contextmanager
def repeatable() -> Iterator[None]:
    """Inside, torch uses deterministic algorithms, where it has them; so do all threads meanwhile."""
    with _SETTINGS(), _attention():
        yield


@contextmanager
def _settings() -> Iterator[None]:
    with _deterministic(warn_only=True), without_cudnn_attention():
        yield


_SETTINGS = ProcessWide(_settings)


def _attention() -> AbstractContextManager[Any]:
    used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return AttentionInOrder(_ATTENTION) if used else nullcontext()


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Inside, attention is not computed by cuDNN, for whose backward pass torch has no deterministic algorithm; plain
    operators take what no other kernel takes. Nothing changes where cuDNN alone is allowed."""
    cuda: Any = torch.backends.cuda
    enabled, plain = cuda.cudnn_sdp_enabled(), cuda.math_sdp_enabled()
    avoided = enabled and (plain or cuda.flash_sdp_enabled() or cuda.mem_efficient_sdp_enabled())
    if avoided:
        cuda.enable_cudnn_sdp(False)
        cuda.enable_math_sdp(True)
    try:
        yield
    finally:
        if avoided:
            cuda.enable_cudnn_sdp(enabled)
            cuda.enable_math_sdp(plain)


class AttentionInOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes the backward pass of attention deterministic.

    Otherwise it adds gradients up in another order with each call, which looks like state that a model keeps.
    `operators`: those that are demanded to be deterministic. Some others cannot be, so it is not demanded of them.
    """

    supports_higher_order_operators = True

    def __init__(self, operators: tuple[Any, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operators = operators

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True  # what torch.compile asks of a mode that changes no result

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
