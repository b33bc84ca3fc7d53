"""Whole runs on a card: with the same stream, the weights of a run on the processor, up to rounding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sharded_models
import sharded_runs
import shared_runs
import torch
from problems import certified_run, tiny_training
from torchrun import torchrun

from discreet.cli.app import run as command
from discreet.publication import publish
from discreet.training import EngineOptions, Training
from discreet.verification import verify

SHARED = {"shard": "replicate", "lanes": shared_runs.LANES}
ALIKE = [name for name in shared_runs.CASES if "dropout" not in name]  # a card has other random numbers
SHARDED = ["bookkeeping, Adam", "ghost, Adam", "users", "exact noise", "bfloat16", "LoRA"]


def weights(made: Training) -> torch.Tensor:
    return torch.cat([one.detach().cpu().double().reshape(-1) for one in made.model.parameters()])


def trained(name: str, folder: Path, shared: dict[str, Any]) -> torch.Tensor:
    made = shared_runs.CASES[name](folder, shared)
    made.run()
    return weights(made)


@pytest.mark.parametrize("name", ALIKE)
def test_a_run_has_the_weights_of_the_processor(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import problems

    here = trained(name, tmp_path / "here", {})
    monkeypatch.setattr(problems, "DEVICE", "cuda")
    torch.testing.assert_close(trained(name, tmp_path / "there", {}), here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["vmap, fast noise", "bookkeeping, exact noise", "adaptive clipping"])
def test_noise_drawn_beside_the_step_is_that_drawn_after_it(
    card: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.training import training as training_module

    ahead, real = trained(name, tmp_path / "ahead", {}), training_module.Run
    monkeypatch.setattr(training_module, "Run", lambda **parts: real(**parts | {"ahead": False}))
    assert torch.equal(trained(name, tmp_path / "after", {}), ahead)


def test_two_processes_on_one_card_release_what_one_does(card: str, tmp_path: Path) -> None:
    names = ("vmap, fast noise", "bookkeeping, fast noise", "exact, exact noise", "poisson, user", "metrics")
    (line,) = torchrun(2, "shared_runs.py", str(tmp_path), *names).splitlines()
    alone = {
        name: shared_runs.digest_of(shared_runs.CASES[name], tmp_path / f"alone {name}", SHARED)[0] for name in names
    }
    assert json.loads(line) == alone


@pytest.mark.parametrize("name", sharded_runs.CASES)
def test_one_process_that_gathers_its_weights_releases_the_same(card: str, tmp_path: Path, name: str) -> None:
    assert in_shards(name, tmp_path / "shards", "fully") == in_shards(name, tmp_path / "whole", "replicate")


def test_so_do_two_with_half_of_the_weights_each(card: str, tmp_path: Path) -> None:
    (line,) = torchrun(2, "sharded_runs.py", str(tmp_path), *SHARDED).splitlines()
    assert json.loads(line) == {name: in_shards(name, tmp_path / f"alone {name}", "replicate") for name in SHARDED}


def in_shards(name: str, folder: Path, shard: str) -> str:
    """A digest of the weights after every step of one process."""
    return sharded_runs.digest_of(sharded_runs.CASES[name], folder, {"shard": shard, "lanes": sharded_runs.LANES})[0]


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_long_rows_of_attention_pass_the_checks(card: str, tmp_path: Path, autocast: torch.dtype | None) -> None:
    """Kernels for attention add gradients of many blocks up in any order, which is not the model's doing."""
    words = torch.randint(sharded_models.WORDS, (24, 1024), generator=torch.Generator().manual_seed(2))
    data, engine = (words, words[:, 0] % 3), EngineOptions("bookkeeping", autocast=autocast, physical_batch=8)
    tiny_training(tmp_path, model=sharded_models.gpt(), data=data, engine=engine).run()


def test_a_run_beside_nccl_is_a_run_of_one_process(card: str, tmp_path: Path) -> None:
    """A program may have connected itself by NCCL; one process needs no conversation."""
    here = trained("vmap, fast noise", tmp_path / "plainly", SHARED)
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert torch.equal(trained("vmap, fast noise", tmp_path / "nccl", SHARED), here)
    finally:
        torch.distributed.destroy_process_group()


def test_a_certified_run_verifies(card: str, tmp_path: Path) -> None:
    publish(certified_run(tmp_path), tmp_path / "published")
    assert verify(tmp_path / "published").accepted


def test_the_command_trains_on_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["train", "digits", "--device", "cuda", "--set", "steps=40", "--out", "out"]
    assert command(given) == 0
    assert command(["verify", "out"]) == 0


def test_secret_seeds_reach_the_generators_of_cards(card: str) -> None:
    from discreet.clipping.seeding import seed_torch

    drawn = []
    for seed in (1, 1, 2):
        seed_torch(seed)
        drawn.append((float(torch.rand(())), float(torch.rand((), device=card))))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[2][0]
    assert drawn[0][1] != drawn[2][1]
