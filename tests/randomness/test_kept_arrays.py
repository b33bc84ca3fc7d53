"""Long arrays take the memory of earlier ones, but never that of one that something still refers to."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from discreet.core.processes import keep_freed_memory
from discreet.randomness import kept_arrays
from discreet.randomness.kept_arrays import whole_numbers


@pytest.fixture
def _kept() -> Iterator[None]:
    keep_freed_memory()
    yield
    kept_arrays._SPARE.clear()


LONG = (1 << 22) + 1000
"""Numbers that take more than 32 MiB."""


@pytest.mark.usefixtures("_kept")
def test_long_arrays_take_the_memory_of_those_that_nothing_refers_to() -> None:
    first = whole_numbers(LONG)
    address, part = first.ctypes.data, first.view(np.float64)[5:].reshape(-1)
    del first
    second = whole_numbers(LONG)  # a view of the first is in use
    assert second.ctypes.data != address
    del part
    assert whole_numbers(LONG).ctypes.data == address
    assert second.ctypes.data != address


@pytest.mark.usefixtures("_kept")
def test_tensors_hold_the_memory_too() -> None:
    first = whole_numbers(LONG)
    address, tensor = first.ctypes.data, torch.from_numpy(first.view(np.float64))
    del first
    assert whole_numbers(LONG).ctypes.data != address
    del tensor
    assert address in {whole_numbers(LONG).ctypes.data for _ in range(2)}


@pytest.mark.usefixtures("_kept")
def test_what_an_array_is_based_on_holds_the_memory_too() -> None:
    first = whole_numbers(LONG)
    address, base = first.ctypes.data, first.base
    del first
    assert whole_numbers(LONG).ctypes.data != address
    del base
    assert address in {whole_numbers(LONG).ctypes.data for _ in range(2)}


@pytest.mark.usefixtures("_kept")
def test_memory_of_another_length_is_freed() -> None:
    whole_numbers(LONG)
    assert len(kept_arrays._SPARE) == 1
    other = whole_numbers(LONG + 1)
    assert len(kept_arrays._SPARE) == 0
    assert other.shape == (LONG + 1,)


def test_short_arrays_and_processes_that_did_not_ask_take_fresh_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole_numbers(10).shape == (10,)
    keep_freed_memory.cache_clear()
    array = whole_numbers(LONG)
    assert array.flags.owndata
