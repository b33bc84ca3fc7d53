"""Sums that travel by collectives: the bits of sums that travel by messages, and nothing released if one fails.

On cards they are those of NCCL (tests/cards). Here gloo's take their place, between processors, on the same way through
the library.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from collective_runs import MET, RUNS, alone_digest, check, ends_in_all
from forked import forked, started
from hypothesis import given
from problems import linear
from torch import nn

from discreet.clipping.host_memory import OnDevice
from discreet.core.events import Gaussian
from discreet.core.release import Receipt, Release
from discreet.distributed.connection.carriers import BACKENDS, Backend, by_collectives, own_place
from discreet.distributed.team import _sums_there
from discreet.distributed.whole_sums import FineGrid, SumsOnGrid
from discreet.training.apply import apply


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], str]:
    """What one process releases in a case."""

    def found(shard: str, name: str) -> str:
        return alone_digest(shard, name, tmp_path_factory.mktemp("alone") / "run")

    return cache(found)


@pytest.mark.parametrize("shard", RUNS)
def test_two_processes_release_what_one_does(tmp_path: Path, alone: Callable[[str, str], str], shard: str) -> None:
    check(forked, alone, shard, 2, tmp_path, RUNS[shard][2][:1])


@pytest.mark.parametrize("processes", [2, 3, 4])
@pytest.mark.parametrize("shard", RUNS)
def test_so_do_three_and_four_in_other_ways_to_train(
    tmp_path: Path, alone: Callable[[str, str], str], shard: str, processes: int
) -> None:
    """All ways on two processes, the first in the test above; on three and four two of them each."""
    check(forked, alone, shard, processes, tmp_path, RUNS[shard][2][:2] if processes == 3 else RUNS[shard][2][1:])


@pytest.mark.parametrize("name", MET)
def test_what_goes_wrong_ends_the_step_in_all(tmp_path: Path, name: str) -> None:
    ends_in_all(started, tmp_path, name, within=40)  # of the 60 seconds that they wait


@pytest.mark.parametrize("asked", ["", "0", "1"])
def test_a_process_says_its_place_where_collectives_are_asked_for(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_COLLECTIVES", asked)
    assert own_place(torch.device("cpu")) is None  # which has none, unless a test says otherwise
    monkeypatch.setitem(BACKENDS, "cpu", Backend("gloo", lambda _: "here", lambda _: True))
    assert own_place(torch.device("cpu")) == (["gloo", "here"] if asked == "1" else None)


def test_who_has_a_device_alone_uses_collectives() -> None:
    assert list(BACKENDS) == ["cuda"]
    assert by_collectives([["nccl", "a"], ["nccl", "b"]])
    assert not by_collectives([["nccl", "a"], ["nccl", "a"]])  # two processes on one card
    assert not by_collectives([["nccl", "a"], None])
    assert not by_collectives([["nccl", "a"], ["gloo", "b"]])
    assert not by_collectives([None, None])


GRID = FineGrid({"w": (64,)}, 2.0**-30, 8, 9, 1.0)
ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 2.0**22.5, 2.0**23, 2.0**40, -(2.0**63), 3e38]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("grid", [2.0**-130, 2.0**-30, 0.5, 2.0**70])
@given(seed=st.integers(0, 2**20))
def test_chunks_are_rounded_on_a_card_as_on_the_processor(seed: int, grid: float, dtype: torch.dtype) -> None:
    """By torch's operators, bit for bit what compiled loops do; halves, numbers that do not fit and NaN among them."""
    drawn = np.random.default_rng(seed)
    fine = replace(GRID, grid=grid).fine
    values = np.ldexp(drawn.standard_normal(64), drawn.integers(-30, 66, 64)) * fine
    values[:20] = (drawn.integers(-(2**20), 2**20, 20) + 0.5) * fine
    values[20 : 20 + len(ODD)] = ODD
    given = torch.from_numpy(values).to(dtype)
    here, there = SumsOnGrid(replace(GRID, grid=grid)), SumsOnGrid(replace(GRID, grid=grid))
    found, wanted = torch.arange(64), torch.arange(64)
    for _ in range(2):
        here._multiples(given, wanted)
        there._multiples_there(given, found)
    assert torch.equal(found, wanted)
    assert here.unusable == there.unusable > 0


@given(st.integers(0, 2**20), st.integers(0, 42), st.integers(0, 7))
def test_one_other_bit_is_seen_in_weights_on_a_card(seed: int, byte: int, bit: int) -> None:
    content = torch.randint(256, (43,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    other = content.clone()
    other[byte] ^= 1 << bit

    def sums(one: torch.Tensor) -> list[int]:
        return torch.stack(_sums_there(one[:40].view(torch.int64), one[40:])).tolist()

    assert sums(content) == sums(content.clone()) != sums(other)


def test_means_on_a_device_reach_the_optimizer_as_they_are() -> None:
    receipt, stepped = Receipt("r", 0, 0, Gaussian(1.0)), []
    held = {name: torch.randn(one.shape) for name, one in linear().named_parameters()}
    for tensors, divisor in ((OnDevice(held), 1.0), ({name: one.numpy() for name, one in held.items()}, 1.0)):
        model = linear()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        apply(Release(tensors, receipt.event, receipt), dict(model.named_parameters()), optimizer, divisor)
        stepped.append(nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*stepped)
    assert not torch.equal(stepped[0], nn.utils.parameters_to_vector(linear().parameters()))
    assert {name: one.tolist() for name, one in OnDevice(held).items()} == {n: one.tolist() for n, one in held.items()}
