"""Tables as numbers: each row by itself, the same however it is stored and read; and what their metrics are."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, roc_auc_score

from discreet.core.errors import InputError
from discreet.data.tables import (
    Encoder,
    Schema,
    blocks,
    new_rows,
    private_table,
    public_table,
    row_store,
)
from discreet.data.tables.bought import _range
from discreet.data.tables.categories import Boolean
from discreet.data.tables.columns import Bought
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.drafting.draft_column import Known
from discreet.data.tables.files import text_rows
from discreet.data.tables.values import MISSING, UNSEEN, Marks, codes
from discreet.jobs.evaluation.public_metrics import auroc, calibration_error, metrics_of
from discreet.plan.pydantic_base import validate
from discreet.recipes.models.models import MODELS

FACTS: dict[str, Any] = {
    "unit": "patient",
    "target": "stay",
    "missing": ["", "?"],
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "gain": {"type": "number", "low": 0, "high": 9, "scale": "log", "outside": "missing"},
        "seen": {"type": "date", "low": "2020-01-01", "high": "2020-01-31"},
        "ward": {"type": "category", "categories": ["A", "B"], "same": {"a": "A"}},
        "smoker": {"type": "boolean", "missing": "drop"},
        "note": {"type": "ignore"},
        "stay": {"type": "number", "low": 0, "high": 10, "outside": "clip"},
    },
}
LINES = [
    "patient,note,age,gain,seen,ward,smoker,stay",
    'p1,"a, b",25, 0 ,2020-01-16,A,yes,5',
    "p2,,-3,9,2020-01-01,a,NO,0",
    "p1,,200,10,2019-01-01,C,1,99",
    "p3,,?,,,,True,10",
    "p4,,50,1,2020-01-16,B,,5",
]
INPUTS = [
    [0.25, 0.0, 0.5, 0.125, 0.5],
    [0.0, 1.0, 0.0, 0.125, 1 / 6],
    [1.0, -1.0, 0.0, 0.625, 0.5],
    [-1.0, -1.0, -1.0, 0.875, 0.5],
]
"""By hand, from the table in the docstring of the encoder; the last row is dropped."""
TARGETS = [[0.0], [-1.0], [1.0], [1.0]]


def schema(**changes: Any) -> Schema:
    return validate(Schema, FACTS | changes, "schema")


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_encoding_by_hand(csv: Path) -> None:
    encoder = Encoder(schema())
    (block,) = blocks(csv, encoder.schema, encoder.schema.read)
    found = encoder.encode(block)
    np.testing.assert_allclose(found.inputs, INPUTS, atol=1e-7)
    np.testing.assert_allclose(found.targets, TARGETS, atol=1e-7)
    assert found.kept.tolist() == [True] * 4 + [False]
    assert encoder.kinds == (0, 0, 0, 4, 3)
    np.testing.assert_allclose(encoder.decode(np.array(TARGETS))[:, 0], [5, 0, 10, 10])
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    alone = again.encode(block.drop_columns(["stay"]).slice(2, 1), targets=False)
    np.testing.assert_array_equal(alone.inputs, found.inputs[2:3])
    assert alone.targets is None
    unlabelled = csv.with_name("new.csv")
    unlabelled.write_text("\n".join(line.rpartition(",")[0] for line in LINES))
    (new,) = new_rows(unlabelled, again)
    np.testing.assert_array_equal(new.inputs, found.inputs)


def test_what_is_stored_is_what_was_encoded(csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "BLOCK", 64)  # a line or two
    encoder = Encoder(schema())
    assert sum(1 for _ in blocks(csv, encoder.schema, encoder.schema.read)) > 1
    opened: list[os.stat_result] = []
    real = row_store.tempfile.TemporaryFile

    def watched(*args: Any, **options: Any) -> Any:
        file = real(*args, **options)
        opened.append(os.fstat(file.fileno()))
        return file

    monkeypatch.setattr(row_store.tempfile, "TemporaryFile", watched)
    with private_table(csv, encoder, tmp_path) as table:
        assert stat.S_IMODE(opened[0].st_mode) == 0o600
        assert opened[0].st_nlink == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
        for order in ([0, 1, 2, 3], [3, 0, 3], [2], [1, 2, 0, 1], [], [2, 2]):
            inputs, targets = table.rows.gather(np.array(order))
            np.testing.assert_allclose(inputs.numpy(), np.array(INPUTS)[order], atol=1e-7)
            np.testing.assert_allclose(targets.numpy(), np.array(TARGETS)[order], atol=1e-7)
        with pytest.raises(LookupError, match="4 rows"):
            table.rows.gather(np.array([3, 4]))
        part = table.rows.taken(np.array([3, 1]))
        assert torch.equal(part.gather(np.array([1]))[0], table.rows.gather(np.array([1]))[0])
        assert table.owners(by_name=True) == ["p1", "p2", "p1", "p3"]
        assert np.asarray(table.owners(by_name=False)).tolist() == [0, 1, 0, 2]


def test_parquet_is_read_as_csv_is(csv: Path, tmp_path: Path) -> None:
    typed = pa.table(
        {
            "patient": ["p1", "p2", "p1", "p3", "p4"],
            "note": pa.array(["a, b", None, None, None, None]),
            "age": pa.array([25, -3, 200, None, 50], pa.int16()),
            "gain": pa.array([0, 9, 10, None, 1], pa.decimal128(5, 1)),
            "seen": pa.array([18277, 18262, 17897, None, 18277], pa.date32()).cast(pa.timestamp("us")),
            "ward": pa.array(["A", "a", "C", None, "B"]).dictionary_encode(),
            "smoker": pa.array([True, False, True, True, None]),
            "stay": [5.0, 0, 99, 10, 5],
        }
    )
    pq.write_table(typed, tmp_path / "t.parquet")
    encoder = Encoder(schema())
    one, other = public_table(csv, encoder), public_table(tmp_path / "t.parquet", encoder)
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(one.targets, other.targets)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.0, 2.0**53, None], r"row 2, column 'ward': '9007199254740992.0' is too large a whole number to be exact"),
        ([["A"], ["B"], ["A"]], "row 1, column 'ward': the column is of type list<.*correct its type in the table"),
    ],
    ids=["large", "lists"],
)
def test_a_subgroup_that_cannot_be_read_is_said_with_its_place(values: list[Any], said: str, tmp_path: Path) -> None:
    """And in a draft, of which a public table shows the categories."""
    path, private = tmp_path / "t.parquet", tmp_path / "t.csv"
    pq.write_table(pa.table({"age": [1, 2, 3], "ward": values, "ill": [True, False, True]}), path)
    columns = {"age": FACTS["columns"]["age"], "ward": {"type": "category", "categories": ["1"]}}
    grouped = schema(unit="row", target="ill", subgroups=["ward"], columns=columns | {"ill": {"type": "boolean"}})
    with pytest.raises(InputError, match=said):
        public_table(path, Encoder(grouped))
    private.write_text("age,ward,ill\n1,A,1\n2,B,0\n")
    if not isinstance(values[0], list):
        with pytest.raises(InputError, match=r"t.parquet: column 'ward': .* is too large a whole number"):
            draft(private, known=Known(public=(path,)))


def test_how_files_are_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("|left out\n7;2,5;Küche\n8;'0,5';'a\nb'\n".encode("latin-1"))
    facts = {
        "unit": "row",
        "target": "y",
        "csv": {"delimiter": ";", "quote": "'", "decimal": ",", "header": False, "comment": "|", "newlines": True}
        | {"encoding": "latin-1"},
        "columns": {
            "x": {"type": "number", "low": 0, "high": 10},
            "y": {"type": "number", "low": 0, "high": 10},
            "z": {"type": "category", "categories": ["Küche", "a\nb"]},
        },
    }
    found = public_table(path, Encoder(validate(Schema, facts, "schema")))
    torch.testing.assert_close(found.inputs, torch.tensor([[0.7, 0.125], [0.8, 0.375]]))
    torch.testing.assert_close(found.targets, torch.tensor([[-0.5], [-0.9]]))


def test_a_draft_is_made_of_names_and_types_alone(tmp_path: Path) -> None:
    drafts = []
    for values in (["3,0.5,x,true,2020-01-01"], ["91,7.25,y,false,2021-05-05"] * 5):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["patient_id,dose,ward,smoker,seen", *values]) + "\n")
        drafts.append(draft(path))
    assert drafts[0] == drafts[1]
    assert "dose: {type: number, low: FILL_IN, high: FILL_IN}" in drafts[0]
    assert "ward: {type: category, categories: FILL_IN}" in drafts[0]
    assert "patient_id: {type: ignore}" in drafts[0]


def test_the_model_sees_every_column_and_every_row_alike() -> None:
    """The features of a row have about one norm, whatever its values; codes are read as they were written."""
    model = MODELS["tabular"]([0, 3, 100, 0], 2, hidden=[5])
    columns = model[0]
    codes = torch.tensor([[0.5, (k + 0.5) / 3, (j + 0.5) / 100, -1.0] for k in range(3) for j in range(100)])
    assert torch.equal((columns(codes)[:, 26:29] > 0).long().argmax(1), torch.arange(3).repeat_interleave(100))
    rows = torch.rand(200, 4, generator=torch.Generator().manual_seed(0))
    rows[:, 2] = 0.5  # an embedding's norm is 1 on average only
    norms = columns(rows).norm(dim=1)
    assert norms.max() / norms.min() < 1.5
    assert torch.equal(model(rows), torch.zeros(200, 2))  # the last layer starts at zero
    assert torch.isfinite(model(torch.tensor([[-9.0, 7.0, -3.0, 2.0]]))).all()  # values that no encoder gives


def test_metrics_against_scikit_learn() -> None:
    generator = np.random.Generator(np.random.PCG64(0))
    true = generator.random(500) < 0.3
    scores = np.round(generator.normal(size=500) + true, 1)  # with ties
    assert auroc(scores, true) == pytest.approx(roc_auc_score(true, scores), abs=1e-12)
    assert auroc(scores, np.ones(500, np.bool_)) is None
    right = np.array([True, False, True, True])
    assert calibration_error(np.array([0.6, 0.6, 0.99, 0.99]), right) == pytest.approx((0.2 + 0.02) / 4)
    encoder = Encoder(schema(target="smoker", columns=FACTS["columns"] | {"smoker": {"type": "boolean"}}))
    outputs = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [2.0, 0.0], *[[2.0, 0.0]] * 10])
    targets = np.array([0, 1, 0, 1, *[0] * 10])
    groups = {"ward=A": np.array([True] * 4 + [False] * 10), "ward=B": np.arange(14) >= 4}
    with pytest.raises(InputError, match="ward=A has 4 rows"):
        metrics_of(encoder, outputs, targets, groups)
    found = metrics_of(encoder, outputs, targets, {"ward=B": groups["ward=B"]})
    assert found["accuracy"] == pytest.approx(12 / 14)
    assert found["sensitivity (true)"] == found["recall: true"] == 0.5
    assert found["specificity (true)"] == found["recall: false"] == pytest.approx(11 / 12)
    assert found["baseline accuracy"] == pytest.approx(12 / 14)
    assert found["balanced accuracy"] == pytest.approx(balanced_accuracy_score(targets, outputs.argmax(axis=1)))
    counts = [[found[f"rows: {true} as {said}"] for said in ("false", "true")] for true in ("false", "true")]
    assert counts == confusion_matrix(targets, outputs.argmax(axis=1)).tolist()
    assert found["auroc"] == pytest.approx(roc_auc_score(targets, outputs[:, 1]))
    assert found["ward=B: accuracy"] == 1.0
    assert "ward=B: auroc" not in found


def test_a_boolean_in_its_own_words() -> None:
    """Both are read beside the usual spellings, in any case, and name the classes and metrics."""
    column = Boolean.model_validate({"words": ["Healthy", "Ill"]})
    values = pa.array(["ill", "HEALTHY", "yes", "0", "", "perhaps"])
    assert codes(values, column, Marks()).tolist() == [1, 0, 1, 0, MISSING, UNSEEN]
    assert column.categories == ("Healthy", "Ill")
    encoder = Encoder(schema(target="smoker", columns=FACTS["columns"] | {"smoker": column.model_dump()}))
    assert encoder.classes == ("Healthy", "Ill")
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))).classes == ("Healthy", "Ill")
    found = metrics_of(encoder, np.array([[2.0, 0], [0, 2]]), np.array([0, 1]), {})
    assert found["sensitivity (Ill)"] == found["recall: Healthy"] == 1.0
    labels = FACTS["columns"] | {"smoker": column.model_dump(), "well": {"type": "boolean"}}
    found = metrics_of(
        Encoder(schema(target=["smoker", "well"], columns=labels)), np.ones((2, 2)), np.array([[1, 0], [1, 1]]), {}
    )
    assert {"smoker: sensitivity (Ill)", "well: sensitivity (true)"} <= set(found)


@pytest.mark.parametrize("words", [("ΨΕΥΔΗΣ", "ΑΛΗΘΗΣ"), ("Hay\u0131r", "\u0130yi"), ("nein", "DOCH")])
def test_words_of_any_letters_are_read_as_they_are_written(words: tuple[str, str]) -> None:
    """Python and Arrow differ on the lower case of Σ at the end of a word, and of İ."""
    column = Boolean.model_validate({"words": words})
    assert codes(pa.array(words), column, Marks()).tolist() == [0, 1]


def test_a_class_that_is_read_as_no_value_is_refused() -> None:
    for column in ({"type": "boolean", "words": ["ok", "NA"]}, {"type": "category", "categories": ["ok", "NA"]}):
        with pytest.raises(InputError, match="class 'NA', which `missing` has among the words for no value"):
            schema(target="smoker", columns=FACTS["columns"] | {"smoker": column}, missing=["", "NA"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["yes", "no"], "false and then for true; write them as .no, yes."),
        (["dead", "n"], "'n' is always read as false: swap them"),
        (["1", "2"], r"'1' is always read as true: .* declare .type: category, categories: .\"1\", \"2\"..$"),
        (["ja", "JA"], "two different texts"),
        (["", "ja"], "two different texts"),
        (["=1", "ja"], "looks like a formula"),
        ([False, True], "put it in quotes"),
        (["a"], "words"),
    ],
)
def test_words_that_cannot_be(words: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        validate(Boolean, {"words": words}, "schema")


def test_the_range_that_is_bought() -> None:
    """Of clear bins alone; of the whole public range if there are none."""
    buy = Bought(between=(0.0, 8.0), bins=8, noise=10.0, share=0.1)
    counts = np.array([39.0, -20.0, 41.0, 500.0, 500.0, 500.0, 41.0, 12.0])
    assert _range([counts], buy) == (3.0, 6.0)
    assert _range([counts], buy.model_copy(update={"share": 0.0})) == (2.0, 7.0)
    assert _range([counts * 0], buy) == (0.0, 8.0)
