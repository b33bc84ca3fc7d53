"""Noise that a thread draws while the step computes is the noise that would have been drawn after it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import tiny_plan, tiny_training
from sessions import take, weights
from torch import Tensor

from discreet.core.errors import PrivacyViolation
from discreet.mechanism import noise
from discreet.training import training as training_module
from discreet.training.batch import Batch

ADAPTIVE = {"kind": "adaptive", "initial": 0.05, "bit_multiplier": 2.0, "quantile": 0.75, "rate": 0.5}

KINDS: dict[str, dict[str, Any]] = {
    "reference": {"engine": "reference"},
    "exact": {"engine": "exact"},
    "lanes": {"shard": "replicate", "lanes": 3},
    "weights that are shared out": {"shard": "fully", "engine": "bookkeeping"},
    "adaptive clipping": {"plan": tiny_plan(clip_norm=None, clipping=ADAPTIVE)},
}


def on_another_device(patch: pytest.MonkeyPatch) -> list[str]:
    """Runs behave as if their model were on another device; returns the threads that draw noise, as they do."""
    names: list[str] = []
    draw, run = noise.draw_noise, training_module.Run

    def noted(*args: Any) -> Any:
        names.append(threading.current_thread().name)
        return draw(*args)

    patch.setattr(noise, "draw_noise", noted)
    patch.setattr(training_module, "Run", lambda **parts: run(**parts | {"ahead": True}))
    return names


def trained(folder: Path, **options: Any) -> Tensor:
    training = tiny_training(folder, **options)
    training.run()
    return weights(training)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_the_weights_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    plainly = trained(tmp_path / "plainly", **options)
    threads = on_another_device(monkeypatch)
    assert torch.equal(trained(tmp_path / "ahead", **options), plainly)
    assert len(threads) == 7
    assert all(name.startswith("discreet-noise") for name in threads)


def test_a_sum_that_moves_further_than_foreseen_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_another_device(monkeypatch)
    total = Batch.total
    monkeypatch.setattr(
        Batch, "total", lambda self, most: replace(found := total(self, most), sensitivity=2 * found.sensitivity)
    )
    training = tiny_training(tmp_path)
    before = weights(training)
    with training.session() as session, pytest.raises(PrivacyViolation, match="drawn ahead for another release"):
        take(session)
    assert torch.equal(weights(training), before)


def test_the_noise_of_a_step_that_is_broken_off_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step has its own noise, as if noise were drawn after every step."""

    def second_step(folder: Path) -> Tensor:
        training = tiny_training(folder)

        def broken(_chunk: tuple[Tensor, Tensor]) -> None:
            raise KeyError("a bug of the user")

        with training.session() as session:
            with pytest.raises(KeyError):
                take(session, before_add=broken)
            take(session)
        return weights(training)

    plainly = second_step(tmp_path / "plainly")
    threads = on_another_device(monkeypatch)
    assert torch.equal(second_step(tmp_path / "ahead"), plainly)
    assert len(threads) == 2
