"""Rows on which layers that are computed once fail, make something else, or write: they change no other row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from front_end_runs import features, linear, made, rows
from torch import Tensor, nn


def test_a_row_on_which_the_front_end_fails_adds_nothing(tmp_path: Path) -> None:
    """It is not refused either: its features are not a number."""

    class Roots(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x + 20_000.0).sqrt()

    inputs, labels = rows()
    inputs[3, 0] = -30_000.0
    training = made(tmp_path, nn.Sequential(Roots(), linear(4)), (inputs, labels))
    assert "computed once" in training.preflight.line
    assert bool(features(training)[3].isnan().any())
    assert all(bool(one.isfinite().all()) for one in training.run(progress=False).model.parameters())


class Other(nn.Module):
    """Makes something else of a marked row while it is trained."""

    def __init__(self, how: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        return self.how(x) if self.training and bool((x == 77).any()) else x * 1.0


def ends(x: Tensor) -> Tensor:
    raise SystemExit(len(x))


class Odd(BaseException):
    """Raised by a row, and no `Exception`."""


def raises(x: Tensor) -> Tensor:
    raise Odd(len(x))


@pytest.mark.parametrize("how", [Tensor.double, lambda x: torch.cat([x, x], 1), ends, raises, lambda x: x[0]])
def test_a_row_of_which_something_else_is_made_changes_no_other(
    how: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    inputs, labels = rows()
    wanted = inputs.clone()
    inputs[5], wanted[5] = 77.0, torch.nan
    training = made(tmp_path, nn.Sequential(Other(how), linear(4)), (inputs, labels), engine="exact")
    assert "computed once" in training.preflight.line
    torch.testing.assert_close(features(training), wanted, rtol=0, atol=0, equal_nan=True)
    assert all(bool(one.isfinite().all()) for one in training.run(progress=False).model.parameters())


class Writing(nn.Module):
    """Writes a marked row into its own table while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 1).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        try:
            return x + self.table((x[:, :1] == 77).long() * 1000)[:, 0]
        except IndexError:
            if self.training:
                self.table.weight.data[:4] = x[x[:, 0] == 77][0].view(4, 1)
            return x * 1.0


@pytest.mark.parametrize("engine", ["exact", "bookkeeping"])
def test_a_row_is_not_written_into_the_model(engine: str, tmp_path: Path) -> None:
    inputs, labels = rows()
    inputs[5] = torch.tensor([77.0, 1, 2, 3])
    model = nn.Sequential(Writing(), linear(4))
    before = model[0].table.weight.clone()
    trained = made(tmp_path, model, (inputs, labels), engine=engine).run(progress=False)
    assert torch.equal(model[0].table.weight, before)
    assert torch.equal(trained.model[0].table.weight, before)  # type: ignore[index, union-attr]
