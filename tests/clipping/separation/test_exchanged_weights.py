"""What a row adds that gives a weight of its copy of the model another shape: nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Apart, Twins

CLIP, MARK = Clip(1.0, 2.0**-30), 1.2345


def first_row(layer: nn.Linear, x: Tensor) -> Tensor:
    layer.weight.data = layer.weight.data[:1].clone()
    return F.linear(x, layer.weight).expand(-1, 6)


def one_number(layer: nn.Linear, x: Tensor) -> Tensor:
    layer.weight.data = torch.tensor(1.0)
    return (x.sum(1, keepdim=True) * layer.weight).expand(-1, 6)


def more_rows(layer: nn.Linear, x: Tensor) -> Tensor:
    layer.weight.data = torch.ones(7, 4)
    return F.linear(x, layer.weight)[:, :6]


def shorter_bias(layer: nn.Linear, x: Tensor) -> Tensor:
    layer.bias.data = layer.bias.data[:1].clone()
    return (x.sum(1, keepdim=True) + layer.bias).expand(-1, 6)


class Exchanging(nn.Module):
    """A layer whose numbers a marked row exchanges."""

    def __init__(self, exchange: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.exchange = nn.Linear(4, 6), exchange

    def forward(self, x: Tensor) -> Tensor:
        if bool((x == MARK).any()):
            return 1e3 * self.exchange(self.layer, x)
        output: Tensor = self.layer(x)
        return output


def summed(model: nn.Module, rows: Tensor, engine: str) -> Tensor:
    apart = Apart(ENGINES[engine].clipped_sum, Twins(lambda *_: None))
    sums = apart(model, nn.MSELoss(), Chunk(rows, torch.zeros(len(rows), 6)), CLIP)
    return torch.cat([one.double().flatten() for one in sums.values()])


@pytest.mark.parametrize("engine", ["reference", "exact"])
@pytest.mark.parametrize("exchange", [first_row, one_number, more_rows, shorter_bias])
def test_a_row_that_exchanges_the_numbers_of_a_weight_adds_nothing(
    exchange: Callable[[nn.Linear, Tensor], Tensor], engine: str
) -> None:
    """Repeated to fit the shape of the weight, what it adds would be up to five clip norms long."""
    model, rows = Exchanging(exchange), torch.randn(5, 4)
    without = summed(model, rows, engine)
    rows[2] = MARK
    others = summed(model, rows[[0, 1, 3, 4]], engine)
    assert torch.equal(summed(model, rows, engine), others)
    assert not torch.equal(without, others)


APART = {
    "no modules": lambda model: model.__dict__.pop("_modules"),
    "nothing at all": lambda model: model.__dict__.clear(),
    "a module without a name": lambda model: model._modules.update({3: nn.Linear(1, 1)}),
    "a module that is none": lambda model: model._modules.update({"other": "text"}),
    "a weight that is none": lambda model: model.layer._parameters.update({"weight": "text"}),
}


class TakenApart(nn.Module):
    """A layer; a marked row takes its model apart once it has an output."""

    def __init__(self, how: Callable[[nn.Module], object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.how = nn.Linear(4, 6), how

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x)
        if bool((x == MARK).any()):
            self.how(self)
        return output


@pytest.mark.parametrize("engine", ["reference", "exact"])
@pytest.mark.parametrize("how", APART)
def test_a_row_that_takes_its_copy_of_the_model_apart_ends_nothing(how: str, engine: str) -> None:
    model, rows = TakenApart(APART[how]), torch.randn(5, 4)
    rows[2] = MARK
    others, whole = (summed(model, rows[kept], engine) for kept in ([0, 1, 3, 4], [0, 1, 2, 3, 4]))
    assert 0 < float((whole - others).norm()) <= CLIP.norm
