"""What is behind shapes: strides, memory without entries, what memory held before, and numbers that reach Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from broadcasting import Held, rows
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Mixes, proved
from discreet.clipping.separation.examine import recorded
from discreet.clipping.separation.recording.recorder import as_proved

LOSS = nn.CrossEntropyLoss(reduction="none")
aten: Any = torch.ops.aten


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*rows(count)), Clip(1.0, 2.0**-30))

    return run


def overlapping(h: Tensor, make: Callable[..., Tensor]) -> Tensor:
    """Rows that are written to memory in which they overlap."""
    made = make((len(h), 20), (1, 1))
    made.copy_(h.reshape(len(h), 20))
    return made.reshape(len(h), 5, 4)


def statistics(h: Tensor) -> Tensor:
    """Statistics of the batch that no schema names."""
    mean, spread = torch.zeros(5), torch.ones(5)
    torch.batch_norm_update_stats(h, mean, spread, 1.0)
    return mean[:, None]


def lengths(h: Tensor) -> Tensor:
    """Sequences as long as numbers of the examples say."""
    pack_padded_sequence(h, (h[:, 0, 0] > 2).long() + 1, batch_first=True, enforce_sorted=False)
    return h


BEHIND: dict[str, Callable[[Tensor], Tensor | float]] = {
    "a row behind no rows": lambda h: h[:0].as_strided((1,), (1,), 0),
    "a copy of it": lambda h: torch.as_strided_copy(h[:0], (1,), (1,), 0),
    "an alias of it": lambda h: aten._reshape_alias(h[:0], [1], [1]),
    "rows by other strides": lambda h: aten._reshape_alias(h, [len(h), 5, 4], [0, 4, 1]),
    "memory that overlaps": lambda h: overlapping(h, torch.empty_strided),
    "memory like it that overlaps": lambda h: overlapping(h, h.new_empty_strided),
    "memory of before": lambda h: torch.empty_permuted((4,), (0,)),
    "memory of before behind a constant": lambda h: aten.resize(torch.zeros(1), [4]),
    "memory of before, quantised": lambda h: torch._empty_affine_quantized(
        (4,), scale=1.0, zero_point=0, dtype=torch.quint8
    ).int_repr(),
    "statistics of the batch": statistics,
    "a number for Python": lambda h: torch.quantize_per_tensor_dynamic(h, torch.qint8, False).q_scale(),
    "numbers for Python": lambda h: torch.tensor(aten._tensor_to_list(h.reshape(-1)[:4].int())),
    "a length": lengths,
}
"""What a row gets of others, or of what was there before, by ways of which shapes say nothing."""


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("way", BEHIND)
def test_what_is_behind_shapes_is_not_proved(way: str) -> None:
    with pytest.raises(Mixes):
        proved(running(Held(lambda _, h: h + BEHIND[way](h.detach()))))


def test_memory_in_order_is_no_cause_for_alarm() -> None:
    def meets(_: nn.Module, h: Tensor) -> Tensor:
        made = torch.empty_strided((len(h), 5, 4), (20, 4, 1))
        return made.copy_(h.detach()) + h + torch.empty_permuted((len(h), 5, 4), (0, 2, 1)).fill_(1.0)

    proved(running(Held(meets)))


BITS: dict[str, Callable[[Tensor], Tensor]] = {
    "conjugate": lambda z: torch.view_as_real(z.clone())[..., 1],
    "negative": lambda z: z.imag.clone(),
}


@pytest.mark.parametrize("bit", BITS)
def test_numbers_and_their_conjugates_are_told_apart(bit: str) -> None:
    """They lie in the same memory, and the same operators follow."""

    def meets(_: nn.Module, h: Tensor) -> Tensor:
        number = torch.complex(torch.zeros(4), torch.ones(4))
        conjugate = number.conj()
        return h * BITS[bit](number if len(h) == 9 else conjugate)

    run = running(Held(meets))
    template = proved(run)
    with as_proved(template.one.broadcast):
        assert all(map(template.matches, recorded(run, 8)))
        assert not any(map(template.matches, recorded(run, 9)))
