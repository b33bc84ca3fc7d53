"""The backward pass of attention on cards adds up in one order where runs are compared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from discreet.clipping.capture.repeatable import AttentionInOrder, repeatable, without_cudnn_attention

KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
"""Takes the place of the one of cards."""

Ways = dict[str, list[tuple[bool, bool]]]


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Whether deterministic algorithms are demanded of the attention's operator, and of others."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Ways = {"attention": [], "others": []}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        enabled = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        self.found["attention" if func is KERNEL else "others"].append(enabled)
        return func(*args, **(kwargs or {}))


def test_threads_that_overlap_leave_the_settings_as_they_were() -> None:
    """The first to enter leaves first: it must neither end what the other needs, nor keep what it found."""
    entered, left = Event(), Event()

    def other() -> None:
        with repeatable():
            entered.set()
            assert left.wait(60)
            assert torch.are_deterministic_algorithms_enabled()

    with ThreadPoolExecutor(1) as threads:
        with repeatable():
            done = threads.submit(other)
            assert entered.wait(60)
        left.set()
        done.result()
    assert not torch.are_deterministic_algorithms_enabled()


def attention(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x.tanh(), x.sin(), is_causal=True)


def kept_apart(x: Tensor) -> Tensor:
    found: Tensor = checkpoint(attention, x, use_reentrant=False)
    return found


def of_torch(x: Tensor) -> Tensor:
    found: Tensor = nn.MultiheadAttention(x.shape[-1], 2, batch_first=True)(x[0], x[0], x[0], need_weights=False)[0]
    return found


@pytest.mark.parametrize("model", [attention, kept_apart, of_torch])
def test_it_is_demanded_of_attention_alone(model: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 3, 17, 8, requires_grad=True)
    with Seen() as seen, repeatable(), AttentionInOrder((KERNEL,)):
        torch.autograd.grad(model(x).square().sum(), x)
    assert set(seen.found["attention"]) == {(True, False)}
    assert set(seen.found["others"]) == {(True, True)}
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_operators_that_take_functions_run_as_they_are() -> None:
    """Others would be refused by a mode of operators."""
    x = torch.randn(2, 3, 128, 16)
    with AttentionInOrder((KERNEL,)):
        found = flex_attention(x, x.tanh(), x.sin())
    torch.testing.assert_close(found, F.scaled_dot_product_attention(x, x.tanh(), x.sin()))


def test_cudnn_has_no_part_in_attention() -> None:
    """Its backward pass adds up in any order (torch 2.11 on an H200: gradients of two equal calls differ)."""
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with repeatable():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_it_stays_where_nothing_else_is_allowed() -> None:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        with without_cudnn_attention():
            assert torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled()
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]), without_cudnn_attention():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()


def test_what_no_other_kernel_takes_is_computed_plainly() -> None:
    """Flash attention takes no masks."""
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
        with without_cudnn_attention():
            assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.math_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled()
