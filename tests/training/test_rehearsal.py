"""The engine is chosen and checked on random data before a run."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, FEATURES, linear, tiny_training
from torch import Tensor, nn

from discreet.clipping.digests import state_digests
from discreet.clipping.engines import bookkeeping, ghost
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight import engine_check
from discreet.training.preflight.engine_check import try_engines


class Shifting(nn.Module):
    """Works on the examples at other places of the batch, and puts them back."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()
        self.shift = Shift()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.shift(x)).roll(-1, 0)


class Shift(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll(1, 0)


class Bypass(nn.Module):
    """Uses a weight without calling its module."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.head.weight, self.head.bias)


class TimeFirst(nn.Module):
    """A linear layer on (time, examples, features)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x).transpose(0, 1)).mean(0)


class Hooked(nn.Module):
    """A hook on what the last layer returns."""

    def __init__(self, hook: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.hook = linear(), hook

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(x)
        if output.requires_grad:
            output.register_hook(self.hook)
        return output


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first engine that works is taken, however long it takes."""
    monkeypatch.setattr(engine_check, "NEGLIGIBLE", math.inf)


@pytest.mark.usefixtures("untimed")
def test_an_ordinary_model_is_trained_by_book_keeping_and_one_line_says_so(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    assert training.engine.name == "bookkeeping"
    assert "reference" in training.preflight.line
    assert "\n" not in training.preflight.line


@pytest.mark.usefixtures("untimed")
def test_dropout_is_switched_off_for_the_comparison_only(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Dropout(0.5), linear()).train()
    training = tiny_training(tmp_path, model=model)
    assert training.engine.name == "bookkeeping"
    assert "within" in training.preflight.line
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    ("model", "words"),
    [(Shifting(), r"'shift' \(Shift\) mixes"), (Bypass(), "'head.weight' is used outside")],
)
def test_what_book_keeping_cannot_do_goes_to_vmap_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, model: nn.Module, words: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="discreet"):
        training = tiny_training(tmp_path, model=model)
    assert training.engine.name == "vmap"
    with pytest.raises(UnsupportedModel, match=words):
        tiny_training(tmp_path, model=model, engine="bookkeeping")
    assert "not bookkeeping" in training.preflight.line
    assert len(caplog.records) == 1


def test_a_backward_pass_in_which_examples_meet_is_refused(tmp_path: Path) -> None:
    model = Hooked(lambda g: g * min(1.0, 100.0 / (float(g.norm()) + 1e-12)))
    for engine in ("bookkeeping", "ghost"):
        with pytest.raises(UnsupportedModel, match="influence each other on the way back, near module 'head'"):
            tiny_training(tmp_path, model=model, engine=engine)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_examples_on_another_axis_are_noticed_at_any_length(tmp_path: Path, length: int) -> None:
    """Also where one of the batches that are tried is as long as the sequences."""
    data = torch.randint(9, (24, length)), torch.arange(24) % CLASSES
    assert tiny_training(tmp_path, model=TimeFirst(), data=data).engine.name == "vmap"


def test_an_engine_that_disagrees_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, others in ((bookkeeping, "bookkeeping", {"ghost", "vmap"}), (ghost, "ghost", {"vmap"})):
        real = module.decide
        patched = lambda clip, *rest, real=real: real(replace(clip, norm=1.01 * clip.norm), *rest)  # noqa: E731
        monkeypatch.setattr(module, "decide", patched)
        with pytest.raises(UnsupportedModel, match="of the clip norm away from 'reference'"):
            tiny_training(tmp_path, engine=name)
        assert tiny_training(tmp_path).engine.name in others


def test_the_model_and_the_generator_are_left_as_they_were(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, model=nn.Sequential(nn.Dropout(0.5), linear()))
    model = training.model.eval()
    digests, generator = state_digests(model), torch.get_rng_state()
    try_engines("auto", model, training.criterion, training.data, CLASSES)
    assert state_digests(model) == digests
    assert torch.equal(torch.get_rng_state(), generator)
    assert not any(module.training for module in model.modules())


def test_a_chunk_is_small_where_an_example_is_large(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 200_000), nn.ReLU(), nn.Linear(200_000, CLASSES))
    assert tiny_training(tmp_path / "a", model=model, engine="bookkeeping").preflight.chunk < 1024
    assert tiny_training(tmp_path / "b", engine="bookkeeping").preflight.chunk == 1024
