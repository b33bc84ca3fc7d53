"""Texts of digits as rows for a causal model: a token for each, behind a first token."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from discreet.language import TransformersRows


def fields_of(texts: Sequence[str]) -> list[dict[str, list[int]]]:
    """Digits as tokens, behind a first token, as a tokenizer gives them."""
    tokens = [[1, *(2 + int(digit) for digit in text)] for text in texts]
    return [{"input_ids": one, "attention_mask": [1] * len(one)} for one in tokens]


def rows_of(texts: Sequence[str]) -> TransformersRows:
    return TransformersRows(fields_of(texts), "causal-lm")


def encode(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    return rows_of(texts).tensors()
