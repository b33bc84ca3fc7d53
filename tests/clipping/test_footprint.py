"""The memory that an example takes in a chunk, and how many fit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from discreet.clipping.engines.footprint import Footprint, footprint


def test_a_chunk_may_take_an_eighth_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a gibibyte, as on a processor, where that is more."""
    taken = Footprint(values=2**28, gradients=2**28, largest=0)
    for memory, wanted in ((80 * 2**30, 20), (4 * 2**30, 2)):
        card = SimpleNamespace(total_memory=memory)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, card=card: card)
        assert taken.fitting("bookkeeping", torch.device("cuda")) == wanted
        assert taken.fitting("bookkeeping", torch.device("cpu")) == 2
        assert taken.fitting("ghost", torch.device("cuda")) == 2 * wanted


def test_a_footprint_counts_what_is_held() -> None:
    """Eleven numbers go in and seven come out of the first layer, of which tanh keeps its result; three at the end."""
    model = nn.Sequential(nn.Linear(11, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    inputs = torch.randn(5, 11, dtype=torch.float64)

    def loss(output: Tensor, _: Tensor) -> Tensor:
        return output.sum()

    found = footprint(model, loss, inputs, torch.zeros(5))
    assert found.gradients == 8 * (7 + 3)
    assert found.largest == 8 * 7
    assert found.values == 8 * (11 + 7)


class OfItsSlope(nn.Module):
    """A model that takes gradients of its own, as of an energy: torch lets nobody see what these save."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(11, 7).double()

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        slopes: Tensor = vmap(grad(lambda row: row.square().sum()))(made)
        return slopes


def test_the_footprint_of_a_model_that_takes_gradients_is_no_less() -> None:
    """Of the layer at least its input and its output are held."""
    found = footprint(OfItsSlope(), lambda output, _: output.sum(), torch.randn(5, 11).double(), torch.zeros(5))
    assert found.gradients == found.largest == 8 * 7
    assert found.values >= 8 * (11 + 7)
