"""Sums that travel by NCCL, in a group of one card: the bits that they have without it, and a clean end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sharded_runs
import shared_runs
import torch
import torch.distributed as dist
from torch import Tensor

from discreet.distributed.connection.carriers import (
    BACKENDS,
    Carrier,
    Collectives,
    adds_exactly,
    by_collectives,
    own_place,
)
from discreet.distributed.connection.process_groups import Groups
from discreet.distributed.ranks import Ranks

DEVICE = torch.device("cuda", 0)

pytestmark = pytest.mark.filterwarnings("ignore:`torch.distributed:FutureWarning")  # 2.13 renames two collectives


@pytest.fixture
def nccl(card: str) -> Iterator[Collectives]:
    """NCCL in a group of this process alone, with a group of gloo beside it."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        groups = (dist.new_group(backend=one) for one in (BACKENDS["cuda"].name, "gloo"))
        yield Collectives(*groups, BACKENDS["cuda"], DEVICE, 0, 1, timedelta(seconds=60))
    finally:
        dist.destroy_process_group()


def through(carrier: Carrier, patch: pytest.MonkeyPatch) -> None:
    """Let the one process of a run send itself what several would send each other."""

    def added(self: Ranks, whole: Tensor, each: int) -> Tensor:
        return carrier.added_share(whole, each)

    def gathered(self: Ranks, share: Tensor, each: int) -> Tensor:
        return carrier.gathered(share, each)

    patch.setattr(Ranks, "device", carrier.device)
    patch.setattr(Ranks, "added_share", added)
    patch.setattr(Ranks, "gathered", gathered)


def test_whole_numbers_add_up_exactly(nccl: Collectives) -> None:
    assert adds_exactly(nccl, 0, 1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.float64])
def test_shares_come_together_as_they_are(nccl: Collectives, dtype: torch.dtype) -> None:
    share = torch.arange(-100, 100).to(dtype)
    found = nccl.gathered(share, len(share))
    assert found.device == DEVICE
    assert torch.equal(found.cpu(), share)


@pytest.mark.parametrize("name", ["vmap, fast noise", "bookkeeping, exact noise", "adaptive clipping", "metrics"])
def test_a_run_whose_sums_go_by_nccl_releases_the_same(
    nccl: Collectives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shared = {"shard": "replicate", "lanes": shared_runs.LANES}
    wanted, _ = shared_runs.digest_of(shared_runs.CASES[name], tmp_path / "without", shared)
    through(nccl, monkeypatch)
    assert shared_runs.digest_of(shared_runs.CASES[name], tmp_path / "with", shared)[0] == wanted


@pytest.mark.parametrize("name", ["bookkeeping, Adam", "ghost, Adam", "bfloat16"])
def test_so_does_one_whose_weights_are_gathered_by_it(
    nccl: Collectives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shared = {"shard": "fully", "lanes": sharded_runs.LANES}
    wanted, _ = sharded_runs.digest_of(sharded_runs.CASES[name], tmp_path / "without", shared)
    through(nccl, monkeypatch)
    assert sharded_runs.digest_of(sharded_runs.CASES[name], tmp_path / "with", shared)[0] == wanted


def test_a_card_has_a_name_that_no_other_has(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_COLLECTIVES", "1")
    place = own_place(DEVICE)
    assert place is not None
    assert place[0] == "nccl"
    assert by_collectives([place])
    assert not by_collectives([place, place])  # NCCL refuses two processes on one card


def test_a_collective_that_does_not_end_is_an_error(nccl: Collectives) -> None:
    stuck = replace(nccl, backend=replace(nccl.backend, ended=lambda _: False), timeout=timedelta(seconds=1))
    with pytest.raises(RuntimeError, match="did not end within 1 s"):
        stuck.added_share(torch.ones(4, dtype=torch.int64), 4)


def test_a_process_that_leaves_closes_the_group_of_its_card(nccl: Collectives) -> None:
    assert adds_exactly(nccl, 0, 1)  # NCCL connects when it is first used
    groups = Groups(dist.group.WORLD, nccl.beside, dist.new_group(backend="gloo"), {"nccl": nccl.group}, nccl)
    groups.leave()
    assert groups.left
    with pytest.raises(ValueError, match="is not registered"):
        dist.get_rank(nccl.group)
