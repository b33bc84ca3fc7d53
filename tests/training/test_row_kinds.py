"""Rows of another type than the weights, and targets that do not fit the outputs: the error says what to convert."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discreet import InputError, Plan, Training

ROWS, KINDS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
PLAN = Plan.poisson(population=40, batch=10, steps=2, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3)


def refused(rows: Tensor, targets: Tensor, model: nn.Module, criterion: nn.Module) -> str:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError) as error:
        Training(PLAN, model, criterion, optimizer, (rows, targets))
    return str(error.value)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.int64, torch.uint8])
def test_rows_of_another_type(kind: torch.dtype) -> None:
    said = refused(ROWS.to(kind), KINDS, nn.Linear(3, 2), nn.CrossEntropyLoss())
    assert f"the rows are {kind} and the weights torch.float32: convert one, as rows.to(torch.float32)" in said
    assert "convert" not in refused(ROWS[:, :2], KINDS, nn.Linear(3, 2), nn.CrossEntropyLoss())


def test_targets_of_another_type_or_shape() -> None:
    said = refused(ROWS, KINDS.float(), nn.Linear(3, 2), nn.CrossEntropyLoss())
    assert "targets are torch.float32 of shape () for a row, and outputs torch.float32 of shape (2,)" in said
    said = refused(ROWS, KINDS.float(), nn.Linear(3, 1), nn.BCEWithLogitsLoss())
    assert "targets are torch.float32 of shape () for a row, and outputs torch.float32 of shape (1,)" in said


class Two(nn.Module):
    """Returns a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 2)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(rows), rows


def test_a_model_that_returns_more_than_the_loss_takes() -> None:
    assert "the model returns a tuple, which the loss gets as it is" in refused(
        ROWS, KINDS, Two(), nn.CrossEntropyLoss()
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (([[1.0] * 3] * 40, [0] * 40), "got a pair of list and list; make tensors of them"),
        ({"x": ROWS, "y": KINDS}, "got dict; say which field is the target"),
        (ROWS, "got Tensor; give the targets too"),
    ],
)
def test_data_in_another_form(data: object, said: str) -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(InputError, match=said):
        Training(PLAN, model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1), data)
