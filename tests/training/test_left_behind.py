"""Private rows go through copies of the model: a model whose copies use its own layers is refused before a charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet import Plan, Training
from discreet.core.errors import UnsupportedModel

PLAN = Plan.poisson(population=100, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


class Lambda(nn.Module):
    """A lambda inside knows one of two layers from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 2)
        self.head = lambda x: self.last(torch.relu(x))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(self.first(x))
        return made


def forward_of_its_own() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    model.forward = lambda x: model[1](model[0](x))  # type: ignore[method-assign]
    return model


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    other = nn.Linear(4, 5)
    model[0].add_module("other", other)
    model[0].register_forward_hook(lambda _, given, made: made + other(given[0]))
    return model


def bound() -> nn.Module:
    """A method of the model, set on it: its copy has a method of its own."""
    model = Lambda()
    model.head = model.last.forward
    return model


def trained(model: nn.Module, folder: Path, engine: str) -> Training:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows: Any = torch.randn(60, 4), torch.randint(2, (60,))
    return Training(PLAN, model, nn.CrossEntropyLoss(), optimizer, rows, run=str(folder / "run"), engine=engine)


@pytest.mark.parametrize("engine", ["auto", "reference", "exact"])
@pytest.mark.parametrize(
    ("made", "named"), [(Lambda, "last.weight"), (forward_of_its_own, "0.weight"), (hooked, "0.other.weight")]
)
def test_a_layer_that_a_function_holds_is_refused(made: Any, named: str, engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=f"copies of the model use '{named}' of the model itself"):
        trained(made(), tmp_path, engine)
    assert not (tmp_path / "run").exists()


def test_a_method_of_a_layer_goes_with_the_copy(tmp_path: Path) -> None:
    model = bound()
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    trained(model, tmp_path, "auto").run()
    assert all(not torch.equal(one, before[name]) for name, one in model.named_parameters())
