"""What people have their data in, as `Training` takes it: the same rows, whatever they come in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import discreet
from discreet import Columns
from discreet.core.errors import InputError
from discreet.data import as_private
from discreet.data.private.overlap import share_rows

GENERATOR = np.random.Generator(np.random.PCG64(0))
X, Y = GENERATOR.normal(size=(30, 3)).astype(np.float32), GENERATOR.integers(0, 2, 30)
FRAME = pd.DataFrame({"age": X[:, 0].astype(np.float64), "ill": Y, "dose": X[:, 1], "pulse": X[:, 2]})


class Rows:
    """A map-style data set that is no class of torch."""

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return X[index], int(Y[index])


class Named(Rows):
    def __getitem__(self, index: int) -> Any:
        return {"seen": X[index], "ill": Y[index]}


def hugging_face() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"seen": X.tolist(), "ill": Y.tolist(), "a": X[:, 0], "text": ["x"] * 30})


ARROW = pa.concat_tables(pa.Table.from_pandas(part, preserve_index=False) for part in (FRAME[:13], FRAME[13:]))
LISTS = pa.table({"seen": [*X], "ill": Y})


def polars(names: list[str]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed; it is in the extra dev").DataFrame(
        {name: FRAME[name].to_numpy() for name in names}
    )


KINDS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: (torch.from_numpy(X), torch.from_numpy(Y)),
    "NumPy": lambda: (X.astype(np.float64), Y.astype(np.int32)),
    "pandas": lambda: (FRAME[["age", "dose", "pulse"]], FRAME["ill"]),
    "pandas with an index of its own": lambda: discreet.Columns(FRAME.set_index(FRAME.index[::-1]), target="ill"),
    "pandas, columns by name": lambda: discreet.Columns(FRAME, "ill", ["age", "dose", "pulse"]),
    "Arrow": lambda: (ARROW.select(["age", "dose", "pulse"]), ARROW.column("ill")),
    "Arrow, an array": lambda: (ARROW.select(["age", "dose", "pulse"]), ARROW.column("ill").combine_chunks()),
    "Arrow, columns by name": lambda: discreet.Columns(ARROW, "ill"),
    "Arrow, a column of lists": lambda: discreet.Columns(LISTS, "ill", "seen"),
    "polars": lambda: (polars(["age", "dose", "pulse"]), polars(["ill"])["ill"]),
    "polars, columns by name": lambda: discreet.Columns(polars(["ill", "age", "dose", "pulse"]), "ill"),
    "map-style": Rows,
    "a list of pairs": lambda: [Rows()[i] for i in range(30)],
    "map-style with names": lambda: discreet.Columns(Named(), "ill", "seen"),
    "Hugging Face": lambda: discreet.Columns(hugging_face(), "ill", "seen"),
    "Hugging Face in torch's format": lambda: discreet.Columns(hugging_face().with_format("torch"), "ill", "seen"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_the_same(kind: str) -> None:
    data = as_private(KINDS[kind]())
    rows = np.array([3, 0, 29, 3])
    inputs, targets = data.fetch(rows)
    torch.testing.assert_close(inputs, torch.from_numpy(X[rows]), rtol=0, atol=0)
    assert targets.dtype == torch.int64
    assert targets.tolist() == Y[rows].tolist()
    assert len(data) == 30
    part = data.only(np.array([5, 7, 2])).only(np.array([2, 0]))
    assert torch.equal(part.fetch(np.array([0, 1]))[0], torch.from_numpy(X[[2, 5]]))


@pytest.mark.parametrize("kind", ["NumPy", "pandas, columns by name", "Hugging Face", "Arrow", "polars"])
def test_training_takes_it(kind: str, tmp_path: Path) -> None:
    plan = discreet.Plan.poisson(population=30, batch=10, steps=2, clip_norm=1.0, delta=1e-2).calibrate(epsilon=8)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    public = discreet.PublicData(test=(X + 1, Y))
    given = KINDS[kind](), {"run": tmp_path / "run", "engine": "bookkeeping", "public": public}
    training = discreet.Training(plan, model, nn.CrossEntropyLoss(), optimizer, given[0], **given[1])
    assert training.run().evaluations[-1].metrics["accuracy"] >= 0
    if kind == "NumPy":
        same, model = given[0], nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(InputError, match="public test is the training data itself"):
            discreet.Training(
                plan, model, nn.CrossEntropyLoss(), optimizer, same, public=discreet.PublicData(test=same)
            )


def test_several_fields_stand_side_by_side() -> None:
    inputs, _ = as_private(discreet.Columns(hugging_face(), "ill", ["a", "ill"])).fetch(np.array([4, 1]))
    torch.testing.assert_close(inputs, torch.tensor([[X[4, 0], Y[4]], [X[1, 0], Y[1]]]))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a frame without a target": (lambda: FRAME, "discreet.Columns"),
    "names without a target": (hugging_face, "discreet.Columns"),
    "a field that is not there": (lambda: discreet.Columns(FRAME, "sick"), "no field 'sick'; it has age, ill"),
    "no field to see": (lambda: discreet.Columns(hugging_face(), "ill"), "which field the model sees"),
    "all splits": (lambda: discreet.Columns({"train": hugging_face()}, "ill", "seen"), r"choose one.*data\['train'\]"),
    "text": (
        lambda: as_private(discreet.Columns(hugging_face(), "ill", "text")).fetch(np.array([0])),
        "the field 'text' holds <U1, not numbers",
    ),
    "text in a frame": (lambda: (FRAME.assign(age="old"), FRAME["ill"]), "the column 'age' holds .*, not numbers"),
    "text in a column of Arrow": (
        lambda: (pa.table({"age": ["old"]}), pa.array([0])),
        "the column 'age' holds object, not numbers",
    ),
    "lists in a table of Arrow": (lambda: (LISTS, LISTS.column("ill")), "a column holds lists; name it alone"),
    "lists of different lengths": (
        lambda: discreet.Columns(pa.table({"seen": [[1.0], [1.0, 2.0]], "ill": [0, 1]}), "ill", "seen"),
        "'seen' has lists of different lengths",
    ),
    "two columns of one name": (
        lambda: discreet.Columns(pa.table([[1], [2]], names=["a", "a"]), "a"),
        "two columns are called 'a'",
    ),
    "a lazy frame": (lambda: discreet.Columns(polars(["ill", "age"]).lazy(), "ill"), r"give data\.collect\(\)"),
    "rows of different lengths": (lambda: ([[1], [1, 2]], Y), "pair of tensors or arrays"),
    "too few targets": (lambda: (X, Y[1:]), "^data has fewer targets than inputs; give one for each$"),
    "too many targets": (lambda: (X[1:], Y), "^data has more targets than inputs; give one for each$"),
    "rows without names": (lambda: discreet.Columns(Rows(), "ill", "seen"), "rows have no names"),
    "one array": (lambda: X, "got ndarray"),
    "a mapping": (lambda: {"x": X, "y": Y}, "got dict"),
    "a number": (lambda: 3, "got int"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(InputError, match=said):
        as_private(make())


def test_a_transform_of_hugging_face_sees_one_row_at_a_time() -> None:
    """It is called with all rows that are asked for: one that centres them let a row move the sum by ten clip norms."""

    def centred(rows: Any) -> Any:
        seen = np.array(rows["seen"])
        return {"seen": list(seen - seen.mean(axis=0)), "ill": rows["ill"]}

    data = as_private(discreet.Columns(hugging_face().with_transform(centred), "ill", "seen"))
    few, _ = data.fetch(np.arange(4))
    more, _ = data.fetch(np.arange(5))
    assert torch.equal(few, more[:4])


def test_a_missing_value_of_arrow_is_named_before_a_run(tmp_path: Path) -> None:
    holes = ARROW.set_column(0, "age", pa.array([None if i == 7 else float(i) for i in range(30)]))
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = discreet.Plan.poisson(population=30, batch=10, steps=2, clip_norm=1.0, delta=1e-2, noise_multiplier=2.0)
    with pytest.raises(InputError, match="a feature in row 7 of the data, counted from 0, is NaN"):
        discreet.Training(plan, model, nn.CrossEntropyLoss(), optimizer, discreet.Columns(holes, "ill"))


def test_a_frame_in_columns_is_known_again() -> None:
    assert share_rows((FRAME[["age"]], FRAME["ill"]), discreet.Columns(FRAME, "ill"))
    assert share_rows(ARROW, discreet.Columns(ARROW, "ill"))
    assert not share_rows(FRAME.copy(), discreet.Columns(FRAME, "ill"))


@pytest.mark.filterwarnings("ignore")
def test_a_folder_as_on_the_hub_is_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet

    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "hub" / "data").mkdir(parents=True)
    (tmp_path / "hub" / "README.md").write_text("---\nlicense: mit\n---\n")
    pyarrow.parquet.write_table(LISTS, tmp_path / "hub" / "data" / "train-00000-of-00001.parquet")
    hugging_face().save_to_disk(str(tmp_path / "saved"))
    found = (
        datasets.load_dataset(str(tmp_path / "hub"), split="train", cache_dir=str(tmp_path / "cache")),
        datasets.load_from_disk(str(tmp_path / "saved")),
    )
    for one in found:
        inputs, targets = as_private(discreet.Columns(one, "ill", "seen")).fetch(np.array([3, 0]))
        torch.testing.assert_close(inputs, torch.from_numpy(X[[3, 0]]), rtol=0, atol=0)
        assert targets.tolist() == Y[[3, 0]].tolist()


LARGE = np.array([1, 2**63, 5, 2**64 - 1], np.uint64)
SIDES = np.arange(4) % 2


class ByName(Dataset[Any]):
    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return {"a": self.values[index], "y": int(SIDES[index])}


@pytest.mark.parametrize(
    "data",
    [
        {"a": LARGE, "y": SIDES},
        {"a": torch.from_numpy(LARGE), "y": SIDES},
        ByName(LARGE),
        pd.DataFrame({"a": LARGE, "y": SIDES}),
        pa.table({"a": LARGE, "y": SIDES}),
    ],
    ids=["array", "tensor", "rows", "pandas", "arrow"],
)
def test_whole_numbers_that_int64_does_not_hold_never_become_negative(data: Any) -> None:
    """Alone they stay whole, which cannot be; beside each other single numbers become real, and are what they were."""
    with pytest.raises(InputError, match=r"the field 'a' holds whole numbers of 2\^63 or above, which int64 does not"):
        Columns(data, "y", "a").gather(np.arange(4))
    side_by_side, _ = Columns(data, "y", ["a", "y"]).gather(np.arange(4))
    assert side_by_side[:, 0].tolist() == LARGE.astype(np.float32).tolist()


def test_whole_numbers_below_are_exact() -> None:
    values = np.array([2**63 - 1, 0], np.uint64)
    found, _ = Columns({"a": values, "y": SIDES[:2]}, "y", "a").gather(np.arange(2))
    assert found.tolist() == [2**63 - 1, 0]
    with pytest.raises(InputError, match=r"inputs holds whole numbers of 2\^63 or above"):
        as_private((LARGE, SIDES))


@pytest.mark.parametrize("make", [lambda t: {"a": t, "y": SIDES}, ByName], ids=["tensors", "rows"])
def test_bfloat16_becomes_float32_exactly(make: Any) -> None:
    values = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).bfloat16()
    found, _ = Columns(make(values), "y", "a").gather(np.arange(4))
    assert found.dtype == torch.float32
    assert torch.equal(found, values.float())
    part = torch.randn(4, requires_grad=True)
    assert not Columns({"a": part, "y": SIDES}, "y", "a").gather(np.arange(4))[0].requires_grad


def test_targets_of_pandas_in_another_order_are_refused() -> None:
    """Rows are paired by place, so a series that was sorted would have the labels of other rows."""
    inputs, targets = FRAME[["age", "dose"]], FRAME["ill"]
    with pytest.raises(InputError, match="have another order than inputs, and rows are paired by place"):
        as_private((inputs, targets[::-1]))
    for same in (targets, targets.reset_index(drop=True).rename(index=lambda row: row + 100), targets.to_numpy()):
        assert as_private((inputs, same)).rows == 30


def test_columns_of_one_name_are_refused_by_it() -> None:
    twice = pd.concat([FRAME, FRAME[["age"]]], axis=1)
    with pytest.raises(InputError, match="two columns are called 'age'; rename one"):
        Columns(twice, target="ill").gather(np.arange(3))
    with pytest.raises(InputError, match="two columns are called 'age'; rename one"):
        as_private((twice, FRAME["ill"]))


def test_gaps_of_nullable_columns_are_named_by_their_row(tmp_path: Path) -> None:
    gaps = FRAME.assign(visits=pd.array([1, None, 3] * 10, dtype="Int64"))
    with pytest.raises(InputError, match="a feature in row 1 of the data, counted from 0, is NaN"):
        _trained(Columns(gaps, target="ill"), 4, tmp_path)


def _trained(data: object, width: int, folder: Path) -> None:
    plan = discreet.Plan.poisson(population=30, batch=5, steps=1, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    model = nn.Linear(width, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = discreet.training.RunOptions(folder / "run")
    discreet.Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, run=run).run(progress=False)
