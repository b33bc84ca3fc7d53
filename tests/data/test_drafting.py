"""What a draft of a schema says without anybody having typed it, and that none of it is read off the private table."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.data.tables import load_schema
from discreet.data.tables.drafting.draft import draft, left_open
from discreet.data.tables.drafting.draft_column import Known
from discreet.data.tables.drafting.from_public import PublicColumns
from discreet.data.tables.drafting.plausible import PLAUSIBLE, plausible
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import FOUND_OUT, found_format

HEADER = "id,age,Gewicht [kg],x,ward,seen,outcome\n"
PRIVATE = HEADER + "p1,44,80.5,3,A,2021-05-05,ill\np2,50,70.5,4,B,2021-06-05,well\n"
PUBLIC = HEADER.replace(",", ";") + (
    'v1;30;61,5;0,5;A;02.01.2020;ill\nv2;60;"99,5";7;B;31.12.2022;well\nv3;41;75;;C;01.02.2020;well\n'
)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("age", 0, 120),
        ("Alter_in_Jahren", 0, 120),
        ("patientAge", 0, 120),
        ("Weight [kg]", 0, 300),
        ("birth_weight", 300, 6500),
        ("hours-per-week", 0, 168),
        ("Blutdruck (systolisch)", 40, 260),
        ("% of sales", 0, 100),
        ("year of birth", 1900, 2100),
    ],
)
def test_a_range_follows_from_words(name: str, low: float, high: float) -> None:
    found = plausible(name)
    assert found is not None
    assert (found.low, found.high) == (low, high)


def test_names_that_say_nothing_get_no_range() -> None:
    assert [plausible(name) for name in ("x", "stage", "manager", "yearly", "score", "")] == [None] * 6
    assert all(found.low < found.high for found in PLAUSIBLE.values())


def written(folder: Path, private: str = PRIVATE) -> tuple[Path, Path]:
    (folder / "t.csv").write_text(private)
    (folder / "public.csv").write_text(PUBLIC)
    return folder / "t.csv", folder / "public.csv"


def test_what_is_told_and_what_is_public_is_filled_in(tmp_path: Path) -> None:
    """The public table is written in another way; the target gets its spread from it."""
    table, public = written(tmp_path)
    text = draft(table, known=Known("outcome", "row", 500, (public,)))
    assert left_open(text) == []
    columns = yaml.safe_load(text)["columns"]
    assert columns["age"] == {"type": "number", "low": 30, "high": 60}
    assert columns["Gewicht [kg]"] == {"type": "number", "low": 61, "high": 100}  # of 61.5 and 99.5
    assert columns["x"] == {"type": "number", "low": 0, "high": 7}
    assert columns["ward"] == {"type": "category", "categories": ["A", "B", "C"]}
    assert columns["id"] == {"type": "ignore"}
    assert columns["seen"]["low"].isoformat() == "2020-01-01"
    assert columns["seen"]["high"].isoformat() == "2023-01-01"
    assert "# row_id: id" in text
    (tmp_path / "s.yaml").write_text(text)
    assert load_schema(tmp_path / "s.yaml").target == ("outcome",)
    numbers = yaml.safe_load(draft(table, known=Known("x", "row", 500, (public,))))["columns"]["x"]
    assert numbers == {"type": "number", "low": 0, "high": 7, "spread": 3.2, "centre": 3.8, "outside": "clip"}


def test_a_public_range_keeps_the_long_tail_that_the_name_tells(tmp_path: Path) -> None:
    table, public = tmp_path / "t.csv", tmp_path / "public.csv"
    table.write_text("income,outcome\n5000,ill\n")
    public.write_text("income,outcome\n100,ill\n90000,well\n")
    columns = yaml.safe_load(draft(table, known=Known("outcome", "row", 500, (public,))))["columns"]
    assert columns["income"] == {"type": "number", "low": 0, "high": 90000, "scale": "log"}
    columns = yaml.safe_load(draft(table, known=Known("income", "row", 500, (public,))))["columns"]
    assert "scale" not in columns["income"]  # the target has a spread instead
    assert "spread" in columns["income"]


def test_a_column_of_people_is_left_out_and_the_class_of_the_curves_is_said(tmp_path: Path) -> None:
    table, public = tmp_path / "t.csv", tmp_path / "public.csv"
    table.write_text("patient,patient_age,outcome\n17,40,ill\n")
    public.write_text("patient,patient_age,outcome\n1,30,ill\n2,60,well\n")
    text = draft(table, known=Known("outcome", "row", 500, (public,)))
    columns = yaml.safe_load(text)["columns"]
    assert columns["patient"] == {"type": "ignore"}
    assert columns["patient_age"] == {"type": "number", "low": 30, "high": 60}
    assert '["ill", "well"]}  # those of public.csv; the report draws its curves for the second' in text


def test_the_column_of_the_unit_is_left_out(tmp_path: Path) -> None:
    """No name of a person is listed, and nothing is left to fill in for it."""
    table, public = tmp_path / "t.csv", tmp_path / "public.csv"
    table.write_text("author,age,outcome\nann,40,ill\n")
    public.write_text("author,age,outcome\nbob,30,ill\ncy,60,well\n")
    text = draft(table, known=Known("outcome", "author", 500, (public,)))
    assert yaml.safe_load(text)["columns"]["author"] == {"type": "ignore"}
    assert left_open(draft(table, known=Known("outcome", "author", 500))) == ["outcome"]


def test_categories_keep_the_order_that_a_public_table_declares(tmp_path: Path) -> None:
    codes = pa.array([2, 0, 1, 2])
    levels = pa.DictionaryArray.from_arrays(codes, ["never", "at times", "always", "unheard of"])
    pq.write_table(pa.table({"smokes": levels, "outcome": levels}), tmp_path / "public.parquet")
    known = Known("outcome", "row", 500, (tmp_path / "public.parquet",), balance=True)
    columns = yaml.safe_load(draft(tmp_path / "public.parquet", known=known))["columns"]
    assert columns["smokes"]["categories"] == ["never", "at times", "always"]
    assert columns["outcome"]["categories"] == ["never", "at times", "always"]
    assert list(columns["outcome"]["shares"]) == ["never", "at times", "always"]


@pytest.mark.parametrize(
    ("low", "high", "drafted"),
    [
        (-1.2, 10.9, (-2, 11)),
        (61.5, 99.5, (61, 100)),
        (0, 49, (0, 49)),
        (3, 55, (0, 60)),
        (0.011, 0.019, (0.011, 0.019)),
    ],
)
def test_a_range_is_hardly_wider_than_the_values_of_a_public_table(
    low: float, high: float, drafted: tuple[float, float]
) -> None:
    assert PublicColumns("t.csv", {"x": np.array([high, low])}).range_of("x") == drafted


@pytest.mark.parametrize(
    ("texts", "drafted"),
    [
        (["He came with a cough today", "She fell from her bicycle twice", "No pain since the last visit"], "text"),
        (["agree", "do not agree", "agree"], "category"),
        (["I do not agree at all"] * 2 + ["I agree with all of it"], "category"),  # two of two, and no more
        (["A", "B", "C"], "category"),
    ],
)
def test_sentences_that_differ_in_a_small_public_table_are_texts(
    tmp_path: Path, texts: list[str], drafted: str
) -> None:
    private, public = tmp_path / "private.csv", tmp_path / "public.csv"
    private.write_text("note,outcome\nx,ill\ny,well\n")
    public.write_text("note,outcome\n" + "".join(f"{text},ill\n" for text in texts))
    found = yaml.safe_load(draft(private, known=Known("outcome", "row", 500, (public,))))
    assert found["columns"]["note"]["type"] == drafted


def test_nothing_is_read_off_the_private_table(tmp_path: Path) -> None:
    """Other values, other categories and more rows of the same kinds: the same draft."""
    other = HEADER + "q,90,180.25,77,Z,1999-01-01,dead\n" * 50
    drafts = []
    for private in (PRIVATE, other):
        table, public = written(tmp_path, private)
        drafts.append([draft(table), draft(table, known=Known("outcome", "id", 500, (public,)))])
    assert drafts[0] == drafts[1]
    assert "age: {type: number, low: 0, high: 120}  # proposed by its name: check it" in drafts[0][0]
    assert left_open(drafts[0][0]) == ["unit", "population", "target", "x", "ward", "seen", "outcome"]


@pytest.mark.parametrize("mark", ["unknown", "NA", "n/a", "?", "-", "."])
def test_marks_for_a_missing_value_are_a_fixed_list(mark: str, tmp_path: Path) -> None:
    """What occurs in a single row is not said: the schema is published."""
    drafts = []
    for more in ("", f"p3,{mark},75,{mark},A,2021-05-05,ill\n"):
        table, public = written(tmp_path, PRIVATE + more)
        drafts.append([draft(table), draft(table, known=Known("outcome", "id", 500, (public,)))])
    assert drafts[0] == drafts[1]


def test_a_draft_says_that_a_row_can_decide_a_guess(tmp_path: Path) -> None:
    table, _ = written(tmp_path)
    head = " ".join(draft(table).split("unit:")[0].replace("#", " ").split())
    assert "All of it is published with the model." in head
    assert "from the first rows are types, limits (censored), formats of days and how the file is written." in head
    assert "A single row can decide a guess" in head
    for value in ("3.5", "<2"):
        table, _ = written(tmp_path, PRIVATE + f"p3,44,75,{value},A,2021-05-05,ill\n")
        assert draft(table) != draft(written(tmp_path)[0])  # as is said


def test_words_of_a_boolean_come_from_the_public_table_alone(tmp_path: Path) -> None:
    table, public = tmp_path / "t.csv", tmp_path / "public.csv"
    table.write_text("age,ill\n40,Ja\n50,nein\n")
    public.write_text("age,ill\n41,nein\n42,JA\n")
    known = Known("ill", "row", 500, (public,))
    assert yaml.safe_load(draft(table, known=known))["columns"]["ill"] == {"type": "boolean", "words": ["nein", "JA"]}
    shares = yaml.safe_load(draft(table, known=Known("ill", "row", 500, (public,), balance=True)))["columns"]["ill"]
    assert shares["shares"] == {"nein": 0.5, "JA": 0.5}
    public.write_text("age,ill\n41,nein\n42,JA\n43,ja\n")  # two spellings of true
    assert yaml.safe_load(draft(table, known=known))["columns"]["ill"] == {"type": "boolean"}
    alone = draft(table, known=Known("ill", "row", 500))
    assert 'ill: {type: boolean}  # predicted as false and true; in your words with words: ["no", "yes"]' in alone
    assert "Ja" not in alone.replace("January", "")


def test_the_command_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["schema", "t.csv", "--target", "outcome", "--unit", "row", "--out", "a.yaml"]) == 0
    assert capsys.readouterr().out == (
        "a.yaml: fill in population, x, ward, seen, outcome; then: discreet train t.csv --schema a.yaml --epsilon 3\n"
    )
    told = ["--target", "outcome", "--unit", "row", "--population", "500", "--test", "public.csv", "--out", "b.yaml"]
    assert run(["schema", "t.csv", *told]) == 0
    assert capsys.readouterr().out == (
        "b.yaml: check what is proposed; then: discreet train t.csv --schema b.yaml --epsilon 3 --test public.csv\n"
    )


@pytest.mark.parametrize("option", ["--target", "--unit"])
def test_a_column_that_the_table_lacks_is_refused(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["schema", "t.csv", option, "outcom", "--out", "a.yaml"]) == 2
    assert f"{option} outcom: t.csv has no such column; it has " in capsys.readouterr().err
    assert not Path("a.yaml").exists()


def test_the_command_that_is_proposed_quotes_names_with_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("t.csv", "public.csv"):
        Path(name).rename(f"my {name}")
    told = ["--target", "outcome", "--unit", "row", "--population", "500", "--test", "my public.csv"]
    assert run(["schema", "my t.csv", *told, "--out", "my b.yaml"]) == 0
    proposed = capsys.readouterr().out.partition("then: ")[2]
    given = ["discreet", "train", "my t.csv", "--schema", "my b.yaml", "--epsilon", "3", "--test", "my public.csv"]
    assert shlex.split(proposed) == given


@pytest.mark.parametrize("role", ["unit", "row_id"])
def test_nothing_is_asked_of_the_column_that_names_people_or_rows(role: str, tmp_path: Path) -> None:
    lines = ["columns:", "  who: {type: category, categories: FILL_IN}", "  ill: {type: boolean}", "target: ill"]
    (tmp_path / "s.yaml").write_text("\n".join([*lines, f"{role}: who"]))
    schema = load_schema(tmp_path / "s.yaml")
    assert schema.features == ()
    assert schema.target == ("ill",)
    (tmp_path / "s.yaml").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"fill in columns\.who\.categories"):
        load_schema(tmp_path / "s.yaml")


@pytest.mark.parametrize(("content", "said"), [("", "is empty"), (HEADER, "has no rows")], ids=["nothing", "a header"])
def test_a_table_without_rows_has_no_draft(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=f"{said}; give a table with at least one row"):
        draft(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("amounts", "open_to_doubt"),
    [
        (["850", "1.234", "12.500"], True),
        (["1.234", "-2.500"], True),
        (["0.123", "1.500"], False),
        (["1.5", "1.234"], False),
        (["850", "1234"], False),
    ],
)
def test_a_mark_that_may_separate_thousands_is_said(tmp_path: Path, amounts: list[str], open_to_doubt: bool) -> None:
    (tmp_path / "t.csv").write_text("paid;age\n" + "".join(f"{amount};40\n" for amount in amounts))
    found = draft(tmp_path / "t.csv")
    assert ("every '.' in paid stands before three digits" in found) is open_to_doubt
    (tmp_path / "t.csv").write_text("paid;age;rate\n" + "".join(f"{amount};40;0,5\n" for amount in amounts))
    assert "read as the decimal mark" not in draft(tmp_path / "t.csv")  # another column tells


@pytest.mark.parametrize(
    ("amounts", "rates", "marks"),
    [
        (["1.234", "850"], ["0,5", "1,25"], (",", ".")),
        (["1,234", "850"], ["0.5", "1.25"], (".", ",")),
        (["0,500", "1,234"], ["7", "8"], (",", None)),
        (["1.234", "2.345"], ["0.5", "7"], (".", None)),
    ],
)
def test_a_column_that_tells_settles_one_that_does_not(
    tmp_path: Path, amounts: list[str], rates: list[str], marks: tuple[str, str | None]
) -> None:
    rows = "".join(f"{amount};{rate}\n" for amount, rate in zip(amounts, rates, strict=True))
    (tmp_path / "t.csv").write_text("paid;rate\n" + rows)
    found = found_format(tmp_path / "t.csv", CsvFormat(), FOUND_OUT)
    assert (found.decimal, found.thousands) == marks
    columns = yaml.safe_load(draft(tmp_path / "t.csv"))["columns"]
    assert [columns[name]["type"] for name in ("paid", "rate")] == ["number", "number"]
