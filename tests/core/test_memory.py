"""Memory is used again once nobody can see it, and not before."""

import numpy as np
import torch

from discreet.core import memory
from discreet.core.memory import LEAST, recycled


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_nobody_holds_is_used_again() -> None:
    size = LEAST + 8 * 101
    first = recycled(size // 8, np.float64)
    where = address(first)
    del first
    again = recycled((size // 8, 2), np.float32)
    assert address(again) == where
    assert again.shape == (size // 8, 2)
    assert again.flags.c_contiguous
    assert again.flags.writeable


def test_a_view_or_a_tensor_keeps_its_memory() -> None:
    size = LEAST + 8 * 102
    whole = recycled(size // 8, np.float64)
    whole[...] = 3.0
    view = whole[5:9].view(np.int64)[::2]
    before = view.copy()
    del whole
    others = [recycled(size // 8, np.float64) for _ in range(3)]
    tensor = torch.from_numpy(others.pop()).view(torch.float32)[7:]
    tensor.fill_(2.0)
    others += [recycled(size // 8, np.float64) for _ in range(3)]
    for other in others:
        other[...] = -1.0
    assert (view == before).all()
    assert bool((tensor == 2.0).all())
    assert len({address(other) for other in others}) == len(others)


def test_no_more_is_kept_than_said(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(memory, "_idle", memory.defaultdict(list))
    monkeypatch.setattr(memory, "MOST", 3 * LEAST)
    held = [recycled(LEAST, np.uint8) for _ in range(5)]
    held.clear()
    assert sum(map(len, memory._idle.values())) == 3


def test_small_arrays_are_ordinary() -> None:
    assert recycled((2, 3), np.float32).base is None
    assert recycled(0, np.int64).shape == (0,)
    assert recycled((), np.float64).shape == ()
