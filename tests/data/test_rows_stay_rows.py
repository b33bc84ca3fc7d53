"""No line of a table decides how other lines are read, or how many there are where that is public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import InputError
from discreet.data.tables import Encoder, Schema, private_table
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.files.reading import blocks
from discreet.jobs.language.private_texts import read_rows
from discreet.recipes import Recipe
from discreet.recipes.table_recipe import table_recipe

COLUMNS: dict[str, Any] = {
    "note": {"type": "ignore"},
    "kind": {"type": "category", "categories": ["a", "b"]},
    "age": {"type": "number", "low": 0, "high": 99},
    "ill": {"type": "boolean"},
}


def schema(**changes: Any) -> Schema:
    return Schema.model_validate({"unit": "row", "population": 2000, "target": "ill", "columns": COLUMNS} | changes)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("others", ["refuse", "ignore"])
@pytest.mark.parametrize("opened", ["note", "kind"])
def test_an_open_quote_swallows_no_rows(opened: str, others: str, end: str, tmp_path: Path) -> None:
    """It would run to the next quote in that column, a sound one, with as many values in what is left as in a line."""

    def line(value: str) -> str:
        return f"{value},a,1,0" if opened == "note" else f"x,{value},1,0"

    lines = ["note,kind,age,ill", line('"was 5 ft'), *["x,a,50,1"] * 1000, line('"she said ""hi"""'), "x,a,50,1"]
    path = tmp_path / "t.csv"
    path.write_bytes(end.join([*lines, ""]).encode())
    named = {name: facts for name, facts in COLUMNS.items() if name != "note" or others == "refuse"}
    with pytest.raises(InputError, match="a quote is not closed"):
        sum(len(block) for block in blocks(path, schema(columns=named, others=others), ["kind", "age", "ill"]))


@pytest.mark.parametrize("mark", [",", "\t", ";"])
@pytest.mark.parametrize(
    ("value", "sound"), [('"was 5 ft', False), ('"a" b', False), ('"a ""b"""', True), ("5 ft", True)]
)
def test_an_open_quote_swallows_no_rows_where_values_have_line_breaks(
    value: str, sound: bool, mark: str, tmp_path: Path
) -> None:
    """Of 24 rows it left 3."""
    texts = [value, *["plain"] * 20, '"said ""hi"""', '"two\nlines" ', 'a "quoted" word']
    path = tmp_path / "t.csv"
    path.write_text("\n".join([mark.join(["kind", "age", "ill"]), *(mark.join([one, "1", "0"]) for one in texts), ""]))
    found = blocks(path, schema(csv={"newlines": True, "delimiter": mark}, others="ignore"), ["kind"])
    if sound:
        assert sum(len(block) for block in found) == len(texts)
        return
    with pytest.raises(InputError, match="a quote is not closed, or is closed within a value"):
        list(found)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("newlines", [False, True])
def test_rows_above_do_not_decide_whether_a_row_is_a_comment(newlines: bool, end: str, tmp_path: Path) -> None:
    """Comments are left out at the top, and a file without names has rows there: once the first row was gone, the next
    ones were left out too."""
    path, plain = tmp_path / "t.csv", {"header": False, "newlines": newlines}

    def rows(lines: list[str], **csv: Any) -> int:
        path.write_bytes(end.join([*lines, ""]).encode())
        return sum(len(block) for block in blocks(path, schema(csv=plain | csv), ["kind", "age", "ill"]))

    sound, odd = "x,a,50,1", "#7,b,40,0"
    assert rows(["# made by hand", "#", sound, sound], comment="#") == 2
    assert rows([sound, odd, "x #,a,1,1"]) == rows(["# one", "# two", sound, odd, sound], skip=2) == 3
    for lines in ([sound, odd], ["# made by hand", sound, sound, odd, sound]):
        at = lines.index(odd) + 1
        with pytest.raises(InputError, match=rf"line {at} begins with the comment mark '#'.*csv: {{skip: 1}}"):
            rows(lines, comment="#")


def test_blanks_after_a_closing_quote_are_read_of_language_models_too(tmp_path: Path) -> None:
    """As of other tables; and a file with one quote out of place is refused whole, whatever else is in it."""
    sound = ["text,kind", '"a, ""film""" ,good', '"two\nlines"\t,bad', 'plain , "odd"']
    path = tmp_path / "t.csv"
    path.write_text("\n".join([*sound, '"last" ,bad']) + "\n")
    assert [(row["text"], row["kind"]) for row in read_rows(path, ["text", "kind"])] == [
        ('a, "film" ', "good"),
        ("two\nlines\t", "bad"),
        ("plain ", ' "odd"'),
        ("last ", "bad"),
    ]
    for odd in ('"a" b,bad', '"a,bad'):
        path.write_text("\n".join([*sound, odd, '"last",bad']) + "\n")
        with pytest.raises(InputError, match=r"the row from line \d of t.csv is not CSV: .*if a quote is not closed"):
            read_rows(path, ["text", "kind"])


def test_a_public_number_of_rows_does_not_depend_on_them() -> None:
    dropping = schema(columns=COLUMNS | {"age": COLUMNS["age"] | {"outside": "drop"}})
    facts = table_recipe(dropping, 1.0, 1e-5)
    Recipe.model_validate(facts)
    fixed = {name: value for name, value in facts.items() if name not in ("rate", "averaging")}
    fixed |= {"sampling": {"kind": "fixed_size", "batch": 10}, "adjacency": "replace_one"}
    with pytest.raises(ValueError, match="the number of rows is public, but some are dropped by 'age'"):
        Recipe.model_validate(fixed)
    kept = {"columns": COLUMNS}
    Recipe.model_validate(fixed | {"table": schema(**kept)})


@pytest.mark.parametrize("values", [pa.array([[1], [2]]), pa.array([b"\xff", b"a"]), pa.array([{"a": 1}, {"a": 2}])])
def test_types_that_are_no_texts_are_refused_in_one_line(values: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"kind": values, "ill": [True, False]}), path)
    columns = {"kind": COLUMNS["kind"], "ill": COLUMNS["ill"]}
    with (
        pytest.raises(InputError, match="'kind': the column is of type"),
        private_table(path, Encoder(schema(columns=columns)), tmp_path),
    ):
        pass


def test_a_draft_of_a_table_without_names_warns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("39,State-gov,77516\n50,Private,83311\n")
    assert "CAREFUL" in draft(path)
    path.write_text("age,kind,weight\n50,Private,83311\n")
    assert "CAREFUL" not in draft(path)
