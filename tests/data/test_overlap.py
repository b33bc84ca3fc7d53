"""Views of private rows are found; parts that share no row are not taken for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import torch
from datasets import Dataset, DatasetDict
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

from discreet.data.private.overlap import share_rows

TABLE = Dataset.from_dict({"text": [f"row {i}" for i in range(60)], "number": list(range(60))})
ROWS = [{"text": f"row {i}"} for i in range(60)]


@pytest.mark.parametrize(
    "public",
    [
        TABLE.select(range(20)),
        TABLE.select([3, 50, 7]),
        TABLE.shuffle(seed=0),
        TABLE.shuffle(seed=0).select(range(5)),
        Subset(TABLE, [5, 6]),
        Subset(Subset(TABLE, [5, 6, 7]), [2]),
        TABLE.remove_columns("number"),
        TABLE.remove_columns("text").shuffle(seed=1),
    ],
)
def test_a_view_of_a_table_of_datasets(public: Any) -> None:
    assert share_rows(public, TABLE)
    assert share_rows(TABLE, public)


def test_parts_that_share_no_row() -> None:
    parts = TABLE.train_test_split(0.2, seed=0)
    assert not share_rows(parts["test"], parts["train"])
    assert not share_rows(TABLE.select(range(50, 60)), TABLE.select(range(50)))
    assert share_rows(TABLE.select(range(49, 60)), TABLE.select(range(50)))
    assert not share_rows(Subset(ROWS, [1, 2]), Subset(ROWS, [3, 4]))
    assert not share_rows(Subset(TABLE, [1, 2]), TABLE.select(range(10, 20)))
    assert not share_rows(TABLE, Dataset.from_dict({"text": ["another"]}))


def test_data_sets_of_data_sets() -> None:
    pair = torch.rand(9, 2), torch.arange(9)
    rows, others = TensorDataset(*pair), TensorDataset(torch.rand(9, 2), torch.arange(9))
    for public in (
        ConcatDataset([others, Subset(rows, [3])]),
        StackDataset(*pair),
        StackDataset(inputs=pair[0], labels=torch.arange(9)),
        {"others": others, "training": rows},
    ):
        assert share_rows(public, rows)
        assert share_rows(rows, public)
    assert share_rows(DatasetDict(test=TABLE), TABLE)
    for public in (ConcatDataset([others]), StackDataset(torch.rand(9, 2), torch.arange(9)), {"others": others}):
        assert not share_rows(public, rows)


def test_rows_by_name_may_hold_a_tensor_in_common() -> None:
    label = torch.ones(1)
    assert not share_rows([{"x": torch.rand(2), "y": label}], [{"x": torch.rand(2), "y": label}])


def test_subsets_of_a_list() -> None:
    assert share_rows(Subset(ROWS, [1, 2]), ROWS)
    assert share_rows(Subset(ROWS, [1, 2]), Subset(ROWS, [2, 3]))
    assert share_rows(Subset(Subset(ROWS, [1, 2]), [1]), Subset(ROWS, [2, 3]))
    assert not share_rows(Subset(ROWS, []), ROWS)


def test_many_rows_are_looked_through_once() -> None:
    """Each row of a list is an object of its own: comparing all of one with all of the other would take minutes."""
    private = [{"text": "a"} for _ in range(20_000)]
    looked: list[int] = []

    class Row(dict[str, str]):
        def __getattr__(self, name: str) -> object:
            looked.append(1)
            raise AttributeError(name)

    public = [Row(text="a") for _ in range(100)]
    assert not share_rows(public, private)
    assert len(looked) < 50 * len(public)


ARROW = pa.table(
    {
        "truth": [True, False] * 30,
        "word": [f"row {i}" for i in range(60)],
        "age": pa.array(range(60), pa.int8()),
        "ward": pa.array(["A", "B"] * 30).dictionary_encode(),
    }
)


@pytest.mark.parametrize("names", [["word"], ["age"], ["ward"], ["truth", "age"], ["word", "ward"]], ids=str)
def test_slices_of_a_table_of_arrow(names: list[str]) -> None:
    whole = ARROW.select(names)
    assert share_rows(whole.slice(0, 20), ARROW)
    assert share_rows((whole.slice(0, 20), [0] * 20), (whole.slice(19, 5), [0] * 5))
    assert not share_rows(whole.slice(0, 20), whole.slice(20))
    assert not share_rows(whole, pa.table({name: pa.concat_arrays(ARROW[name].chunks * 2) for name in names}))


def test_slices_of_a_frame_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"word": [f"row {i}" for i in range(60)], "age": list(range(60))})
    assert share_rows(frame[:20], frame)
    assert share_rows(frame.select("age"), frame)
    assert not share_rows(frame[:20], frame[20:])
    assert not share_rows(frame[20:], frame[:20])
