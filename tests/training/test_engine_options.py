"""What engines are given: a generator, precision, chunks of fixed rows; and what is refused or told of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from problems import CLASSES, blobs, linear, tiny_training
from torch import Tensor, nn

from discreet import publish, verify
from discreet.clipping.engines import bookkeeping
from discreet.clipping.rules import base
from discreet.clipping.rules import linear as linear_rule
from discreet.core.errors import InputError, UnsupportedModel
from discreet.jobs.command_line import CommandLine
from discreet.jobs.train import Job
from discreet.recipes.assemble import engine_of
from discreet.training import EngineOptions


class OwnNoise(nn.Module):
    """Random numbers from a generator that torch does not rewind; none while gradients are off."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.generator = linear(), torch.Generator().manual_seed(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * torch.rand(x.shape, generator=self.generator) if torch.is_grad_enabled() else x)


def test_random_numbers_that_are_not_drawn_again_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedModel, match="keeps state between calls"):
        tiny_training(tmp_path, model=OwnNoise(), engine="ghost")
    monkeypatch.setattr("discreet.training.preflight.engine_check.check_loss", lambda *_: None)
    monkeypatch.setattr("discreet.training.preflight.engine_comparison.refuse_mixing_backward", lambda *_: None)
    with pytest.raises(UnsupportedModel, match="two passes of the engine 'ghost' would see different ones"):
        tiny_training(tmp_path, model=OwnNoise(), engine="ghost")
    with pytest.raises(UnsupportedModel, match="module 'model' draws from a generator of its own"):
        tiny_training(tmp_path, model=OwnNoise(), engine="bookkeeping")
    monkeypatch.setattr("discreet.training.preflight.engine_comparison.proved", lambda *_: [])
    assert "not compared" in tiny_training(tmp_path, model=OwnNoise(), engine="bookkeeping").preflight.line


def test_dropout_is_on_while_the_two_passes_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.clipping.replay import Generators

    model = nn.Sequential(nn.Dropout(0.5), linear())
    assert tiny_training(tmp_path / "a", model=model, engine="ghost").engine.name == "ghost"
    monkeypatch.setattr(Generators, "rewind", lambda self: None)
    with pytest.raises(UnsupportedModel, match="would see different ones"):
        tiny_training(tmp_path / "b", model=model, engine="ghost")


def test_the_slack_of_ghost_is_that_of_book_keeping(tmp_path: Path) -> None:
    """Also where a gradient cancels before a normalisation."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 1), nn.GroupNorm(1, 1), nn.Flatten(), linear())
    bits = [
        tiny_training(tmp_path / name, model=model, engine=name).engine.float_bits for name in ("bookkeeping", "ghost")
    ]
    assert bits[0] is not None
    assert bits[1] == bits[0] <= 20


AUTOCAST = EngineOptions("bookkeeping", autocast=torch.bfloat16)


def test_a_run_under_autocast_says_so_and_computes_in_it(tmp_path: Path) -> None:
    seen = set()
    model = nn.Sequential(linear())
    model.register_forward_hook(lambda module, args, output: seen.add(output.dtype))
    training = tiny_training(tmp_path, model=model, engine=AUTOCAST)
    assert "under autocast to torch.bfloat16" in training.preflight.line
    seen.clear()
    training.run()
    assert seen == {torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_ghost_is_refused_under_autocast_and_in_half_precision(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="with autocast use engine='bookkeeping'"):
        tiny_training(tmp_path, engine=EngineOptions("ghost", autocast=torch.bfloat16))
    inputs, targets = blobs()
    with pytest.raises(UnsupportedModel, match="bfloat16, and the engine 'ghost' computes in single or double"):
        tiny_training(tmp_path, model=linear().bfloat16(), data=(inputs.bfloat16(), targets), engine="ghost")


@pytest.mark.parametrize("autocast", [True, False])
def test_a_norm_in_half_precision_costs_noise_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autocast: bool
) -> None:
    """What is measured is how much too long a single gradient is; a norm in single precision is within 2^-18."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, CLASSES))
    inputs, targets = blobs()
    changes = {"model": model, "engine": EngineOptions("bookkeeping", autocast=torch.bfloat16)}
    if not autocast:
        changes = {"model": model.bfloat16(), "data": (inputs.bfloat16(), targets), "engine": "bookkeeping"}
    right = tiny_training(tmp_path / "a", **changes).engine.float_bits
    assert right is not None
    assert right >= 17

    def squared_norms(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), -1).bfloat16().square().sum(1).double()

    for module in (base, linear_rule, bookkeeping.base):
        monkeypatch.setattr(module, "squared_norms", squared_norms)
    try:
        wrong = tiny_training(tmp_path / "b", **changes).engine.float_bits
    except UnsupportedModel as error:
        wrong = 5 if "too much noise to cover" in str(error) else None
    assert wrong is not None
    assert wrong <= 10


def test_fixed_rows_train_the_same_model_and_show_it_one_shape(tmp_path: Path) -> None:
    results, shapes = [], set()
    for fixed in (True, False):
        model = linear()
        options = EngineOptions("bookkeeping", fixed_rows=fixed)
        training = tiny_training(tmp_path / str(fixed), model=model, engine=options, physical_batch=5)
        if fixed:
            model.register_forward_pre_hook(lambda module, args: shapes.add(args[0].shape))
        training.run()
        results.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert shapes == {(5, 4)}
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"name": "magic"}, "unknown engine 'magic'"), ({"autocast": torch.float16}, "must be torch.bfloat16")],
)
def test_bad_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        EngineOptions(**options)  # type: ignore[arg-type]


def test_recipes_have_the_same_options(tmp_path: Path) -> None:
    settings = ["engine=bookkeeping", "autocast=bfloat16", "fixed_rows=true"]
    job = Job.new(CommandLine("digits", out=tmp_path / "out", settings=settings))
    wanted = EngineOptions("bookkeeping", autocast=torch.bfloat16, fixed_rows=True, noise="exact")
    assert engine_of(job.recipe) == wanted
    plain = Job.new(CommandLine("digits", out=tmp_path / "out"))
    assert engine_of(plain.recipe) == EngineOptions("exact", noise="exact")
    with pytest.raises(InputError, match="autocast"):
        Job.new(CommandLine("digits", out=tmp_path / "out", settings=["autocast=float16"]))


def test_a_certificate_of_ghost_is_accepted_and_says_what_is_assumed(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path, engine="ghost", stream=None).run()
    publish(trained, tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"]["engine"] == "ghost"
    assert any("second pass that measures again what it adds up" in text for text in facts["assumptions"])
    assert verify(tmp_path / "out").accepted
