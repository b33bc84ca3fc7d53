"""Runs of a model that give the same numbers again, so that what differs is the model's doing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

_IN_ANY_ORDER = ("cuda",)
"""Kinds of devices whose kernels for attention add up in an order of their own each time."""


@contextmanager
def repeatable() -> Iterator[None]:
    """Inside, torch uses deterministic algorithms, where it has them."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*deterministic")
            torch.use_deterministic_algorithms(True, warn_only=True)
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


class RepeatableAttention(TorchFunctionMode):
    """Inside, attention on a card is products and a softmax.

    The backward pass of its kernels (torch 2.11) adds gradients up in any order, unless deterministic algorithms are
    demanded of all operators, and some have none. In half precision the last digits of that are large. Attention
    weights are computed again for the backward pass, so there is memory for those of one layer only.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is scaled_dot_product_attention and _query(*args, **given).device.type in _IN_ANY_ORDER:
            return checkpoint(partial(_by_products, func), *args, use_reentrant=False, **given)
        return func(*args, **given)


def _by_products(attention: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return attention(*args, **kwargs)


def _query(query: Tensor, *_: Any, **__: Any) -> Tensor:
    return query
