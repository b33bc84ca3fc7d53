"""Attention whose backward pass adds up in one order: the same numbers as attention, by other operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping.capture import repeatable
from discreet.clipping.capture.repeatable import RepeatableAttention

KERNEL = "aten._scaled_dot_product_flash_attention_for_cpu.default"


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[str(func)] += 1
        return func(*args, **(kwargs or {}))


def parts() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, 17, 8, generator=generator, requires_grad=True) for _ in range(3)]


def passed(given: list[Tensor], **options: Any) -> list[Tensor]:
    """Outputs and gradients."""
    torch.manual_seed(1)
    query, key, value = given
    found = F.scaled_dot_product_attention(query=query, key=key, value=value, **options)
    return [found, *torch.autograd.grad(found.square().sum(), given)]


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_it_is_attention(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatable, "_IN_ANY_ORDER", ("cpu",))
    with Seen() as usual:
        wanted = passed(parts(), **options)
    with Seen() as seen, RepeatableAttention():
        found = passed(parts(), **options)
    torch.testing.assert_close(found, wanted)
    assert usual.count[KERNEL] > 0
    assert seen.count[KERNEL] == 0


def test_its_dropout_is_the_same_in_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeatable, "_IN_ANY_ORDER", ("cpu",))
    wanted = passed(parts(), dropout_p=0.4)  # with dropout it is products on the processor, too
    with RepeatableAttention():
        torch.testing.assert_close(passed(parts(), dropout_p=0.4), wanted)


def test_the_processor_keeps_its_kernel() -> None:
    with Seen() as seen, RepeatableAttention():
        passed(parts())
    assert seen.count[KERNEL] > 0
