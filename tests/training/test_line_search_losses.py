"""Which models a line search refuses: those whose losses, read in evaluation mode, depend on other rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from agd_runs import agd, agd_training
from problems import linear, tiny_training
from torch import Tensor, nn

from discreet.core.errors import InputError, UnsupportedModel
from discreet.training.control.step_size_search import difference

SMALL = agd(bound=0.5)
"""Less than any loss of a row at first, about log 3: what is cut to it is the same for all rows."""


class Evaluated(nn.Module):
    """A linear model that does as it should in training mode, and `spoil` to its inputs in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        return self.head(x if self.training else self.spoil(x))

    def spoil(self, x: Tensor) -> Tensor:
        return x


class Centred(Evaluated):
    def spoil(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class WithLargeRows(Evaluated):
    """Only rows beyond all that is drawn at random tell the others anything."""

    def spoil(self, x: Tensor) -> Tensor:
        return x + (x.abs().max() > 100.0)


class Counting(Evaluated):
    def spoil(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Sized(Evaluated):
    """It tells a batch from a single row, though not by what other rows hold."""

    def spoil(self, x: Tensor) -> Tensor:
        return x + 1e-3 * (len(x) > 1) * torch.arange(x.shape[1])


@pytest.mark.parametrize("engine", ["auto", "exact"])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Centred, r"in evaluation mode, module 'model' \(Centred\) lets the examples of a batch influence each other"),
        (WithLargeRows, r"in evaluation mode, module 'model' \(WithLargeRows\) lets the examples"),
        (Counting, r"in evaluation mode, module 'model' \(Counting\) returns something else when it is called again"),
    ],
)
def test_rows_that_meet_in_evaluation_mode_are_refused(
    tmp_path: Path, model: type[Evaluated], message: str, engine: str
) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        agd_training(tmp_path, plan=SMALL, model=model(), engine=engine)
    assert not (tmp_path / "run").exists()


def test_without_a_line_search_evaluation_mode_is_no_matter(tmp_path: Path) -> None:
    tiny_training(tmp_path, model=Centred())


def test_an_honest_model_is_admitted_and_left_as_it_was(tmp_path: Path) -> None:
    model = nn.Sequential(linear(), nn.Dropout(0.5))
    model[1].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    agd_training(tmp_path, plan=SMALL, model=model)
    assert [module.training for module in model] == [True, False]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_losses_beyond_the_bound_are_compared_too(tmp_path: Path) -> None:
    """Cut to the bound, every loss is the bound, in a batch or alone."""
    agd_training(tmp_path, plan=SMALL, model=Evaluated())
    with pytest.raises(InputError, match=r"rounding moves the losses of this model by [0-9.]+e-0[34] of their bound"):
        agd_training(tmp_path / "other", plan=SMALL, model=Sized())
    agd_training(tmp_path / "alone", plan=SMALL, model=Sized(), engine="exact")


def test_the_difference_of_losses_is_in_units_of_the_bound() -> None:
    ones, others = torch.tensor([7.0, 0.25, math.nan, math.inf]), torch.tensor([6.0, 0.25, -math.inf, math.nan])
    assert difference(ones, others, 0.5) == 2.0 / 4
    assert difference(ones, others, 2.0) == 0.5 / 4
    for broken in (math.nan, math.inf, -math.inf):
        assert difference(torch.tensor([1.0, broken]), torch.tensor([1.0, 1.0]), 3.0) == math.inf
        assert difference(torch.tensor([1.0, 1.0]), torch.tensor([1.0, broken]), 3.0) == math.inf
