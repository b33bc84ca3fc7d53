"""Processes compare the gradient of a random unit: by digests, and by numbers where these differ."""

from __future__ import annotations

import math
from threading import Barrier, Thread
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from discreet.core.errors import PrivacyViolation
from discreet.distributed.same_gradient import refuse_other_gradients

Gradient = dict[str, Tensor] | None


class Table:
    """Where two processes talk, here two threads."""

    def __init__(self, early: bool = False) -> None:
        self.said: list[Any] = [None, None]
        self.early = early
        self.meet, self.sent = Barrier(2, timeout=20), 0

    def exchange(self, rank: int, fact: object) -> list[Any]:
        self.said[rank] = fact
        self.meet.wait()
        told = [*self.said]
        self.meet.wait()
        return told


class Talker:
    """One of them."""

    def __init__(self, table: Table, rank: int) -> None:
        self.table, self.rank, self.first, self.left = table, rank, rank == 0, False

    def leave(self) -> None:
        self.left = True
        self.table.meet.abort()

    def all_facts(self, purpose: str, fact: object) -> list[Any]:
        told = self.table.exchange(self.rank, [purpose, fact])
        assert told[0][0] == told[1][0]
        return [one[1] for one in told]

    def bytes_from_first(self, content: bytes | None) -> bytes:
        self.table.sent += len(content or b"")
        found: bytes = self.table.exchange(self.rank, content)[0]
        return found


def compared(ones: tuple[Gradient, Gradient], error: float | None) -> tuple[list[bool], int]:
    """Whether each of two processes is refused, and how many bytes of a gradient were sent."""
    table, refused = Table(), [False, False]

    def process(rank: int) -> None:
        try:
            refuse_other_gradients(Talker(table, rank), ones[rank], error)
        except PrivacyViolation:
            refused[rank] = True

    threads = [Thread(target=process, args=(rank,)) for rank in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return refused, table.sent


def gradient(seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.1 * torch.randn(size, generator=generator).to(dtype) for name, size in (("a", 7), ("b", 4))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nothing_is_sent_of_what_is_the_same(dtype: torch.dtype) -> None:
    assert compared((gradient(dtype=dtype), gradient(dtype=dtype)), None) == ([False, False], 0)
    assert compared((None, None), None) == ([False, False], 0)


@given(st.floats(0, 4e-3), st.integers(0, 6))
def test_what_differs_is_sent_and_may_differ_by_the_slack_of_both(by: float, at: int) -> None:
    one, other = gradient(dtype=torch.float64), gradient(dtype=torch.float64)
    other["a"][at] += by
    differ = abs(float(other["a"][at] - one["a"][at]))
    refused, sent = compared((one, other), 1e-3)
    assert refused == [differ > 2e-3] * 2
    assert sent == (7 * 8 if differ else 0)


def reordered() -> Gradient:
    return {name: part.flip(0) for name, part in gradient().items()}


@pytest.mark.parametrize(
    "other",
    [
        reordered(),
        None,
        {"a": gradient()["a"]},
        gradient() | {"c": torch.zeros(1)},
        gradient() | {"b": torch.zeros(5)},
        gradient() | {"b": gradient()["b"].view(2, 2)},
        gradient() | {"b": torch.full((4,), math.nan)},
    ],
)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("error", [1e-6, 1e308, math.inf, math.nan])
def test_other_gradients_are_refused_in_both(other: Gradient, first: bool, error: float) -> None:
    ones = (other, gradient()) if first else (gradient(), other)
    assert compared(ones, error)[0] == [True, True]


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_so_are_equal_ones_that_are_no_numbers(number: float) -> None:
    spoilt = gradient() | {"b": torch.full((4,), number)}
    assert compared((spoilt, spoilt), 1e-6) == ([True, True], 0)


class Short(Talker):
    """A process that has no memory for a gradient, or for its digest."""

    def all_facts(self, purpose: str, fact: object) -> list[Any]:
        if self.table.early:
            raise torch.OutOfMemoryError("no memory")
        return super().all_facts(purpose, fact)

    def bytes_from_first(self, content: bytes | None) -> bytes:
        raise torch.OutOfMemoryError("no memory")


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_fails_leaves_the_other(rank: int, early: bool) -> None:
    table, failed = Table(early), ["", ""]
    talkers = [(Short if at == rank else Talker)(table, at) for at in range(2)]

    def process(at: int) -> None:
        try:
            refuse_other_gradients(talkers[at], gradient(at), 1.0)
        except Exception as error:
            failed[at] = type(error).__name__

    threads = [Thread(target=process, args=(at,)) for at in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (failed[rank], failed[1 - rank]) == ("OutOfMemoryError", "BrokenBarrierError")
    assert talkers[rank].left
