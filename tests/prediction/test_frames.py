"""Frames go in, and frames of their kind come out, with the columns that `discreet predict` writes."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from folders import folder_of
from sklearn.datasets import load_digits

import discreet
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.core.errors import InputError, VerificationFailed
from discreet.data.tables import Encoder, Schema
from discreet.prediction import load, predict_frame, predict_table
from discreet.recipes.models.models import MODELS

SCHEMA = {
    "unit": "row",
    "population": 9,
    "target": ["outcome"],
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "seen": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
        "sex": {"type": "category", "categories": ["f", "m"]},
        "town": {"type": "category", "categories": [f"t{i}" for i in range(70)]},
        "outcome": {"type": "category", "categories": ["well", "ill"]},
    },
}
ENCODER = Encoder(Schema.model_validate(SCHEMA))
ROWS = pa.table({"age": [30, None, 200], "seen": ["2010-05-01", "2020-01-01", None], "sex": ["f", "x", "m"]})
ROWS = ROWS.append_column("town", pa.array(["t3", None, "t69"]))


def of_table(path: Path) -> Path:
    arguments = {"kinds": list(ENCODER.kinds), "outputs": 2, "hidden": [4]}
    spec = ModelSpec(model=Named("tabular", arguments), inputs=(4,), table=ENCODER.to_json(), outputs="classes")
    return folder_of(path, MODELS["tabular"](**arguments), spec)


def of_arrays(path: Path) -> Path:
    arguments = {"inputs": 6, "outputs": 3}
    return folder_of(path, MODELS["linear"](**arguments), ModelSpec(model=Named("linear", arguments), inputs=(2, 3)))


def frames(table: pa.Table) -> dict[str, Any]:
    """The same rows as each kind of frame."""
    found: dict[str, Any] = {"arrow": table, "pandas": table.to_pandas()}
    try:
        import polars
    except ImportError:
        return found
    return found | {"polars": polars.from_arrow(table)}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_model_of_a_table_answers_in_the_same_kind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind not in (given := frames(ROWS)):
        pytest.skip("polars is not installed; it is in the extra dev")
    folder = of_table(tmp_path / "f")
    found = predict_frame(load(folder), given[kind], keep=("sex",))
    assert type(found) is type(given[kind])
    as_arrow = pa.Table.from_pandas(found) if kind == "pandas" else pa.table(found)
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(ROWS, "rows.csv")
    assert run(["predict", "f", "rows.csv", "--out", "said.csv", "--keep", "sex"]) == 0
    said = pyarrow.csv.read_csv("said.csv")
    assert as_arrow.column_names == said.column_names
    for name in said.column_names:
        one, other = (table.column(name).to_pylist() for table in (as_arrow, said))
        assert one == (pytest.approx(other, rel=1e-5, nan_ok=True) if isinstance(other[0], float) else other), name


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_model_of_arrays_takes_columns_side_by_side(kind: str, tmp_path: Path) -> None:
    folder = of_arrays(tmp_path / "f")
    predictor = load(folder)
    assert predictor.spec.inputs is not None
    rows = np.random.default_rng(0).normal(size=(4, int(np.prod(predictor.spec.inputs))))
    if kind not in (given := frames(pa.table([*rows.T], names=[f"c{i}" for i in range(rows.shape[1])]))):
        pytest.skip("polars is not installed; it is in the extra dev")
    found = predict_frame(predictor, given[kind])
    first = found.column_names[0] if kind == "arrow" else found.columns[0]
    expected = predictor.predict(rows)
    assert np.allclose(np.asarray(found[first]).reshape(len(rows), -1)[:, 0], expected.reshape(len(rows), -1)[:, 0])


def test_the_index_of_pandas_stays(tmp_path: Path) -> None:
    folder = of_table(tmp_path / "f")
    frame = ROWS.to_pandas().set_index(pd.Index([7, 5, 3]))
    assert list(predict_frame(load(folder), frame).index) == [7, 5, 3]


def test_what_does_not_fit_is_told_of_the_frame(tmp_path: Path) -> None:
    wrong = ROWS.set_column(0, "age", pa.array(["30", "old", "50"]))
    with pytest.raises(
        InputError, match=r"^the frame, whose rows count from 1 here: row 2, column 'age': 'old' is not"
    ):
        predict_frame(load(of_table(tmp_path / "m")), wrong)


def test_what_is_no_frame_of_numbers_is_refused(tmp_path: Path) -> None:
    predictor = load(of_arrays(tmp_path / "f"))
    for frame, said in (
        (pa.table({"a": ["text"]}), "columns are numbers"),
        ([[1.0]], "got list"),
        (pa.table({}), "columns are numbers"),
    ):
        with pytest.raises(InputError, match=said):
            predict_frame(predictor, frame)
    with pytest.raises(InputError, match="which have none"):
        predict_frame(predictor, pa.table({"a": [1.0]}), keep=("a",))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["train", "digits", "--epsilon", "2", "--set", "steps=20", "--out", "digits"]) == 0
    return folder / "digits"


@pytest.mark.filterwarnings("ignore")
def test_mlflow_loads_a_published_folder(digits: Path, tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed; it is in the extra dev")
    from discreet.integrations.mlflow_flavour import save_model

    save_model(digits, tmp_path / "model")
    loaded = pyfunc.load_model(str(tmp_path / "model"))
    claim = discreet.load(digits).certificate["claim"]
    assert loaded.metadata.metadata["epsilon"] == claim["epsilon"]
    pixels = load_digits().data[:9] / 16
    expected = discreet.load(digits).predict(pixels).numpy()
    assert np.array_equal(loaded.predict(pixels), expected)
    found = loaded.predict(pd.DataFrame(pixels))
    assert list(found["class"]) == list(expected)
    assert f"discreet=={discreet.__version__}" in (tmp_path / "model" / "requirements.txt").read_text()
    with pytest.raises(InputError, match="exists already"):
        save_model(digits, tmp_path / "model")


@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_does_not_hold_is_not_saved_and_a_changed_one_is_not_loaded(digits: Path, tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed; it is in the extra dev")
    from discreet.integrations.mlflow_flavour import save_model

    save_model(digits, tmp_path / "model")
    weights = tmp_path / "model" / "data" / "digits" / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(changed)
    with pytest.raises(VerificationFailed, match="is not the file that the certificate is about"):
        pyfunc.load_model(str(tmp_path / "model"))
    with pytest.raises(VerificationFailed, match="REJECTED"):
        save_model(weights.parent, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.filterwarnings("ignore")
def test_it_is_logged_to_a_run(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed; it is in the extra dev")
    from discreet.integrations.mlflow_flavour import log_model

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
        mlflow.set_experiment("digits")
        with mlflow.start_run():
            logged = log_model(digits)
        loaded = mlflow.pyfunc.load_model(logged.model_uri)
        assert loaded.predict(load_digits().data[:1] / 16).shape == (1,)
    finally:
        mlflow.set_tracking_uri(before)


def test_columns_of_whole_numbers_are_amounts_for_a_model_of_ones_own(tmp_path: Path) -> None:
    """As in training. A column of lists is taken as it is: words stay whole numbers."""
    folder_of(tmp_path / "m", torch.nn.Linear(2, 3), ModelSpec(module="Linear"))
    predictor = load(tmp_path / "m", torch.nn.Linear(2, 3))
    found = predict_frame(predictor, pd.DataFrame({"age": [30, 40], "dose": [1, 2]}))
    expected = predictor.scores([[30.0, 1.0], [40.0, 2.0]])
    np.testing.assert_allclose(found.to_numpy(), expected.numpy(), rtol=1e-6)
    words = torch.nn.Sequential(torch.nn.Embedding(5, 2), torch.nn.Flatten())
    folder_of(tmp_path / "w", words, ModelSpec(module="Sequential"))
    assert predict_frame(load(tmp_path / "w", words), pa.table({"words": [[0, 1, 4], [2, 2, 2]]})).shape == (2, 6)


def test_what_cannot_be_read_as_a_table_is_refused_by_name(tmp_path: Path) -> None:
    predictor = load(of_table(tmp_path / "m"))
    frame = ROWS.to_pandas()
    for given, said in (
        (frame.iloc[0], "a Series is no table; give a frame: of one row of pandas, frame.iloc[[0]]"),
        (frame.assign(age=[30, "old", 50]), "the column 'age' has values of several types"),
        (frame.drop(columns="age"), "the frame has no column 'age'"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            predict_frame(predictor, given)


def test_no_cell_decides_how_another_row_is_read(tmp_path: Path) -> None:
    """Arrow would make one type of a column of objects: with 1.234 among its cells, 1 was 1.000, and unknown."""
    columns = {"code": {"type": "category", "categories": ["1", "2", "1.5"]}, "outcome": SCHEMA["columns"]["outcome"]}
    encoder = Encoder(Schema.model_validate(SCHEMA | {"columns": columns}))
    arguments = {"kinds": list(encoder.kinds), "outputs": 2, "hidden": [4]}
    spec = ModelSpec(model=Named("tabular", arguments), inputs=(1,), table=encoder.to_json(), outputs="classes")
    torch.manual_seed(1)
    predictor = load(folder_of(tmp_path / "f", MODELS["tabular"](**arguments), spec))
    cells = [1, 2, Decimal("1.5"), None, Decimal("1.234"), 2.5, 2**70]
    frame = pd.DataFrame({"code": pd.Series(cells, dtype=object), "note": [[1], "a", 2.5, None, b"x", 1j, {}]})
    found = predict_frame(predictor, frame, keep=("code", "note"))
    alone = [predict_frame(predictor, frame.iloc[[row]]) for row in range(len(frame))]
    assert len({round(one["p(well)"].item(), 6) for one in alone}) == 5  # three codes, a gap, and all that is unknown
    pd.testing.assert_frame_equal(found.drop(columns=["code", "note"]), pd.concat(alone), check_exact=False)
    pd.testing.assert_frame_equal(found[["code", "note"]], frame)  # as they were given


def test_the_name_of_a_folder_is_no_model(tmp_path: Path) -> None:
    folder = of_table(tmp_path / "m")
    for call in (
        lambda: predict_frame(str(folder), ROWS),  # type: ignore[arg-type]
        lambda: predict_table(folder, "rows.csv"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=r"give the published model, discreet.load\(FOLDER\), in the place of '/"):
            call()
