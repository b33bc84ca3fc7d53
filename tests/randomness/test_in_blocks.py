"""Passes over long arrays in several threads: every place once, and the bits of one pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import tiny_training
from sessions import weights

from discreet.mechanism import divide
from discreet.randomness import blocks
from discreet.randomness.blocks import in_blocks


@given(length=st.integers(0, 300), size=st.integers(1, 64), cores=st.integers(1, 3))
def test_every_place_is_visited_once(length: int, size: int, cores: int) -> None:
    visits = np.zeros(length, np.int64)

    def visit(start: int, stop: int) -> int:
        visits[start:stop] += 1
        return stop - start

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_PASS", size)
        patch.setattr(blocks, "usable_cores", lambda: cores)
        assert in_blocks(visit, length) == length
    assert (visits == 1).all()


def test_what_fails_in_a_thread_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PASS", 4)
    monkeypatch.setattr(blocks, "usable_cores", lambda: 2)

    def work(start: int, stop: int) -> int:
        raise KeyError(start)

    with pytest.raises(KeyError):
        in_blocks(work, 20)


@pytest.mark.parametrize("shape", [(), (0,), (3, 7)])
def test_division_rounds_once(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PASS", 4)
    noisy, found = np.random.default_rng(1).normal(size=shape), np.empty(shape, np.float32)
    divide(np.asarray(noisy), 3.0, found)
    np.testing.assert_array_equal(found, (np.asarray(noisy) / 3.0).astype(np.float32))


@pytest.mark.parametrize("engine", ["exact", "bookkeeping"])
def test_a_run_in_blocks_has_the_bits_of_one_pass(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(folder: Path) -> torch.Tensor:
        training = tiny_training(folder, engine=engine)
        training.run()
        return weights(training)

    wanted = run(tmp_path / "one")
    monkeypatch.setattr(blocks, "_PASS", 2)
    monkeypatch.setattr(blocks, "usable_cores", lambda: 3)
    assert torch.equal(run(tmp_path / "blocks"), wanted)
