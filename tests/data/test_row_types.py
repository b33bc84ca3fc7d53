"""Rows of several types in one data set: put together, torch and NumPy would convert all of them to one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from discreet import Columns, InputError
from discreet.clipping import Chunk, Clip
from discreet.clipping.engines.engine import ENGINES
from discreet.data import as_private
from discreet.training.augmented_views import transformed
from discreet.training.preflight.data_check import try_every_row

Row = tuple[Any, Any]


class Wrapping(nn.Module):
    """Adds a constant that bytes wrap round at, and other numbers do not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)
        nn.init.constant_(self.inner.weight, 0.1)
        nn.init.zeros_(self.inner.bias)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.inner((rows + 200).float() / 100)
        return scores


BYTES: Row = torch.full((4,), 100, dtype=torch.uint8), torch.tensor([-1.0])
NUMBERS: Row = torch.full((4,), 0.5), torch.tensor([0.0])


def summed(rows: list[Row]) -> Tensor:
    """The clipped sum, by an engine that takes one row at a time."""
    inputs, targets = as_private(rows).fetch(np.arange(len(rows)))
    sums = ENGINES["exact"].clipped_sum(Wrapping(), nn.MSELoss(), Chunk(inputs, targets), Clip(1.0, 2.0**-30))
    return torch.cat([part.flatten() for part in sums.values()])


def test_one_row_moves_the_sum_by_its_own_gradient_alone() -> None:
    """A row of another type would have the others as numbers that do not wrap round: it moved the sum by 4 norms."""
    assert float((summed([BYTES] * 7) - summed([BYTES] * 6)).norm()) <= 1.0
    with pytest.raises(InputError, match="row 6 of the data is of types"):
        summed([*[BYTES] * 6, NUMBERS])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BYTES, NUMBERS),
        ((torch.zeros(2), 1), (torch.zeros(2), 1.0)),
        ((torch.zeros(2), 1), (torch.zeros(2), True)),
        ((np.zeros(2), 1), (np.zeros(2, np.float32), 1)),
        ((torch.zeros(2), np.float64(1)), (torch.zeros(2), np.int64(1))),
    ],
)
def test_rows_of_two_types_are_refused(one: Row, other: Row) -> None:
    for rows in ([one, other], [other, one]):
        with pytest.raises(InputError, match="row 1 of the data is of types"):
            as_private(rows).fetch(np.arange(2))
        as_private(rows).fetch(np.array([1, 1]))


def test_so_are_fields_of_two_types() -> None:
    rows = [{"x": np.zeros(2, np.float32), "y": y} for y in (1, 2, 0.5)]
    columns = Columns(rows, target="y", inputs="x")
    columns.gather(np.array([0, 1]))
    with pytest.raises(InputError, match="'y' holds int64 in some rows and float64 in others"):
        columns.gather(np.array([0, 2]))


@pytest.mark.parametrize("last", [(torch.zeros(4, dtype=torch.float64), 0), (torch.zeros(5), 0)])
def test_a_row_that_is_unlike_the_first_is_found_beforehand(last: Row) -> None:
    """It is in a block of its own, and would meet others in a batch."""
    model = nn.Sequential(nn.Unflatten(1, (-1, 1)), nn.Linear(1, 2))
    rows = as_private([*[(torch.zeros(4), 0)] * 512, last])
    with pytest.raises(InputError, match="row 512 of the data: inputs are"):
        try_every_row(model, lambda output, _target: output.sum(), rows)


@pytest.mark.parametrize("fields", [False, True], ids=["pairs", "fields"])
def test_so_is_a_row_that_only_a_batch_would_refuse(fields: bool) -> None:
    """Its numbers become tensors of the same type as those of all others: the run went on until it met one of them."""
    pairs = [*[(np.zeros(4, np.float32), 0)] * 512, (np.zeros(4, np.float64 if fields else np.float32), np.int64(0))]
    rows = Columns([{"x": x, "y": y} for x, y in pairs], target="y", inputs="x") if fields else pairs
    with pytest.raises(InputError, match=r"float32 in some rows and float64 in others|row 512 of the data is of types"):
        try_every_row(nn.Linear(4, 2), nn.CrossEntropyLoss(), as_private(rows))


@pytest.mark.parametrize("room", [2, 3, 40])
def test_rows_that_do_not_fit_into_memory_are_tried_in_smaller_parts(room: int) -> None:
    """They are no fault of the data; one row that does not fit is."""
    tried: list[int] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if len(output) > room:
            raise torch.OutOfMemoryError("no room")
        tried.append(len(output))
        return nn.functional.cross_entropy(output, target)

    rows = torch.zeros(40, 4), torch.arange(40) % 2
    assert try_every_row(nn.Linear(4, 2), loss, as_private(rows)) is None
    assert sum(tried) >= 40
    assert max(tried) <= room
    with pytest.raises(torch.OutOfMemoryError):
        try_every_row(nn.Linear(4, 2), lambda *_: oom(), as_private(rows))


def oom() -> Tensor:
    raise torch.OutOfMemoryError("no room")


@pytest.mark.parametrize("whole", [True, False])
def test_rows_that_were_computed_from_weights_bring_no_history(whole: bool) -> None:
    """With it, no chunk was as proved, and each row was taken one at a time."""
    features = nn.Linear(4, 3)(torch.ones(5, 4))
    data: Any = (features, torch.zeros(5)) if whole else [(one, 0.0) for one in features]
    rows = as_private(data)
    assert not rows.fetch(np.arange(2))[0].requires_grad
    assert not transformed(
        replace(as_private((torch.ones(5, 4), torch.zeros(5))), transform=nn.Linear(4, 3)), torch.ones(2, 4)
    ).requires_grad


@pytest.mark.parametrize("kind", [pa.list_(pa.uint64()), pa.list_(pa.uint64(), 2)])
def test_a_number_beyond_int64_makes_no_fractions_of_other_lists(kind: pa.DataType) -> None:
    """NumPy would: of 16,777,217 in single precision 16,777,216."""
    lists = [[1, 2**24 + 1], [3, 4]]
    table = {"codes": pa.array(lists, kind), "y": pa.array([0, 1])}
    inputs, _ = as_private(Columns(pa.table(table), "y", "codes")).fetch(np.arange(2))
    assert inputs.dtype == torch.int64
    assert inputs.tolist() == lists
    more = {"codes": pa.array([*lists, [5, 2**63]], kind), "y": pa.array([0, 1, 1])}
    with pytest.raises(InputError, match="the column 'codes' holds whole numbers of 2\\^63 or above"):
        Columns(pa.table(more), "y", "codes")
