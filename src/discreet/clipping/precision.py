"""The precision of engines: their own products in full precision, the model's in the precision it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


def full_precision(device: str) -> AbstractContextManager[None]:
    """Inside, matrix products and convolutions use no reduced precision: neither autocast nor TF32, nor partial sums in
    half precision."""
    before = product_precision()
    if before not in _NAMES or _differ_within(device):
        return _kept_apart(device)
    if before == "highest" and not torch.is_autocast_enabled(device) and (device == "cpu" or _full_on_cards()):
        return _NOTHING  # nothing to change; this check is faster than a change
    return _changed(device, before)


_NAMES = ("highest", "high", "medium")


def product_precision() -> str:
    """The precision of products of float32: `highest`, `high` or `medium`. If these cannot tell it, as kinds of devices
    or products differ in it, that of each kind."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return " ".join(one.fp32_precision for one in (*_kinds("cuda"), *_kinds("cpu")))


def arithmetic(device: str) -> str:
    """The settings of torch by which a model rounds on a device: autocast, the precision of products, and the type of
    new tensors."""
    cast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    return f"autocast {cast}, products {product_precision()}, new tensors {torch.get_default_dtype()}"


def _differ_within(device: str) -> bool:
    """Whether torch is set to compute convolutions or recurrent layers on a device in lower precision than matrix
    products."""
    if device == "cpu":
        return any(one.fp32_precision not in ("none", "ieee") for one in _kinds(device)[1:])
    try:
        torch.backends.cudnn.allow_tf32  # noqa: B018 - which raises if one of the two has TF32
    except RuntimeError:
        return True
    return False


def _kinds(device: str) -> list[Any]:
    """The kinds of products of a device whose precision can be set apart: matrix products, convolutions, recurrent
    layers; none before torch 2.9."""
    cudnn, processor = _BACKENDS.cudnn, _BACKENDS.mkldnn
    if not hasattr(processor, "conv"):
        return []
    if device == "cpu":
        return [processor.matmul, processor.conv, processor.rnn]
    return [_BACKENDS.cuda.matmul, cudnn.conv, cudnn.rnn]


_BACKENDS: Any = torch.backends

_NOTHING = nullcontext()


def _full_on_cards() -> bool:
    """Whether matrix products on cards are in full precision already and cuDNN is off, as `_changed` sets both."""
    if _BACKENDS.cudnn.enabled:
        return False
    card = _BACKENDS.cuda.matmul
    halves = card.allow_bf16_reduced_precision_reduction or card.allow_fp16_reduced_precision_reduction
    return not (_BACKENDS.cudnn.allow_tf32 or halves or getattr(card, "allow_fp16_accumulation", False))


@contextmanager
def _changed(device: str, before: str) -> Iterator[None]:
    with torch.autocast(device, enabled=False), torch.backends.cudnn.flags(allow_tf32=False), _whole_sums():
        if before != "highest":
            torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            if before != "highest":
                torch.set_float32_matmul_precision(before)


@contextmanager
def _kept_apart(device: str) -> Iterator[None]:
    """`_changed` where kinds of products differ: torch (2.13) then refuses to tell and to change all at once.

    Afterwards a kind follows the setting above it again if that gives the same; those of cuDNN do not by default.
    """
    kinds, cudnn = _kinds(device), _BACKENDS.cudnn
    before, enabled = [one.fp32_precision for one in kinds], cudnn.enabled
    with torch.autocast(device, enabled=False), _whole_sums():
        try:
            cudnn.enabled = False  # as `flags` does
            for one in kinds:
                one.fp32_precision = "ieee"
            yield
        finally:
            cudnn.enabled = enabled
            for one, value in zip(kinds, before, strict=True):
                if one not in (cudnn.conv, cudnn.rnn):
                    one.fp32_precision = "none"
                if one.fp32_precision != value:
                    one.fp32_precision = value


@contextmanager
def _whole_sums() -> Iterator[None]:
    """Inside, products of half precision are not added up in half precision."""
    card = torch.backends.cuda.matmul
    reductions = card.allow_bf16_reduced_precision_reduction, card.allow_fp16_reduced_precision_reduction
    half = getattr(card, "allow_fp16_accumulation", False)  # of torch 2.7 and later
    card.allow_bf16_reduced_precision_reduction = card.allow_fp16_reduced_precision_reduction = False
    if half:
        card.allow_fp16_accumulation = False
    try:
        yield
    finally:
        card.allow_bf16_reduced_precision_reduction, card.allow_fp16_reduced_precision_reduction = reductions
        if half:
            card.allow_fp16_accumulation = True
