"""The precision of engines: their own products in full precision, the model's in the precision it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def full_precision(device: str) -> AbstractContextManager[None]:
    """Inside, matrix products and convolutions use no reduced precision: neither autocast nor TF32, nor partial sums in
    half precision."""
    before = torch.get_float32_matmul_precision()
    if device == "cpu" and before == "highest" and not torch.is_autocast_enabled("cpu"):
        return _NOTHING  # nothing to change; this check is faster than a change
    return _changed(device, before)


_NOTHING = nullcontext()


@contextmanager
def _changed(device: str, before: str) -> Iterator[None]:
    card = torch.backends.cuda.matmul
    reductions = card.allow_bf16_reduced_precision_reduction, card.allow_fp16_reduced_precision_reduction
    half = getattr(card, "allow_fp16_accumulation", False)  # of torch 2.7 and later
    with torch.autocast(device, enabled=False), torch.backends.cudnn.flags(allow_tf32=False):
        if before != "highest":
            torch.set_float32_matmul_precision("highest")
        card.allow_bf16_reduced_precision_reduction = card.allow_fp16_reduced_precision_reduction = False
        if half:
            card.allow_fp16_accumulation = False
        try:
            yield
        finally:
            card.allow_bf16_reduced_precision_reduction, card.allow_fp16_reduced_precision_reduction = reductions
            if half:
                card.allow_fp16_accumulation = True
            if before != "highest":
                torch.set_float32_matmul_precision(before)
