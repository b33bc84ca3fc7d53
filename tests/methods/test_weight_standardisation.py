"""Weight standardisation: its formula, and that engines clip it as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from layers import Around, criterion, difference, typical_norm
from problems import FEATURES, tiny_training
from torch import nn

from discreet import UnsupportedModel
from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.methods import standardise_weights

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3), (4,)),
    "linear over positions": (lambda: nn.Linear(4, 3, bias=False), (5, 4)),
    "conv1d": (lambda: nn.Conv1d(3, 2, 3, padding=1), (3, 6)),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, stride=2, bias=False), (2, 7, 6)),
    "conv2d in groups": (lambda: nn.Conv2d(4, 4, (2, 3), groups=2, padding_mode="circular", padding=1), (4, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2), (2, 4, 4, 4)),
}


def made(name: str, rows: int, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    build, shape = LAYERS[name]
    model = Around(standardise_weights(build()), nn.PReLU(1)).to(dtype)
    return model, torch.randn(rows, *shape, dtype=dtype), torch.rand(rows, dtype=dtype) + 0.1


@pytest.mark.parametrize("name", LAYERS)
def test_weights_of_each_output_have_mean_zero_and_one_size(name: str) -> None:
    layer = standardise_weights(LAYERS[name][0]())
    original = layer.parametrizations.weight.original.detach()
    for row, raw in zip(layer.weight.detach(), original, strict=True):
        variance = float(raw.var(unbiased=False))
        assert float(row.mean()) == pytest.approx(0, abs=1e-6)
        assert float(row.square().sum()) == pytest.approx(variance / (variance + 1e-5), rel=1e-5)
        torch.testing.assert_close(row, (raw - raw.mean()) / (raw.numel() * (variance + 1e-5)) ** 0.5)


def test_outputs_of_random_inputs_have_variance_one() -> None:
    """In many dimensions, by definition; a standard error is 0.014."""
    torch.manual_seed(1)
    layer = standardise_weights(nn.Linear(400, 50, bias=False))
    out = layer(torch.randn(200, 400)).detach()
    assert float(out.var()) == pytest.approx(1, abs=0.07)


@pytest.mark.parametrize("engine", ["bookkeeping", "vmap", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_engines_agree(name: str, dtype: torch.dtype, engine: str) -> None:
    """The battery's comparison: against one backward pass per example."""
    model, inputs, targets = made(name, 4, dtype)
    norm = typical_norm(model, inputs, targets)
    for clip_norm in (norm, 0.1 * norm):
        assert difference(engine, model, inputs, targets, clip_norm) <= (1e-5 if dtype == torch.float32 else 1e-8)


@pytest.mark.parametrize("name", LAYERS)
def test_of_a_user_the_mean_is_clipped(name: str) -> None:
    model, inputs, targets = made(name, 5)
    clip, units = Clip(0.2 * typical_norm(model, inputs, targets), 2.0**-30), Units((2, 3))
    sums = [
        ENGINES[e].clipped_sum(model, criterion, Chunk(inputs, targets, units), clip)
        for e in ("bookkeeping", "reference")
    ]
    for key in sums[1]:
        torch.testing.assert_close(sums[0][key], sums[1][key], rtol=1e-9, atol=1e-11)


def test_a_row_that_is_not_finite_contributes_nothing() -> None:
    model, inputs, targets = made("conv2d", 4)
    clip = Clip(0.5, 2.0**-30)
    rest = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs[1:], targets[1:]), clip)
    inputs[0] = torch.nan
    with_it = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
    for key in rest:
        torch.testing.assert_close(with_it[key], rest[key])


def test_a_model_with_it_is_trained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = standardise_weights(nn.Sequential(nn.Linear(FEATURES, 6), nn.ReLU(), nn.Linear(6, 3)))
    names = [name for name, _ in model.named_parameters()]
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    training = tiny_training(tmp_path, model=model, engine="bookkeeping")
    assert training.engine.name == "bookkeeping"
    trained = training.run()
    assert sorted(trained.final) == sorted(names)
    assert all(not torch.equal(before[name], parameter) for name, parameter in trained.model.named_parameters())


def test_done_twice_is_done_once_and_layers_outside_are_left() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    once = standardise_weights(model)[0].weight.detach().clone()
    assert torch.equal(standardise_weights(model)[0].weight, once)
    assert "1.weight" in model.state_dict()


def test_what_has_nothing_to_standardise_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="no Linear or Conv"):
        standardise_weights(nn.LayerNorm(3))
    with pytest.raises(UnsupportedModel, match="one weight for each output"):
        standardise_weights(nn.Sequential(nn.Linear(1, 3)))
