"""Tables with line breaks in their values, and public tables that are written otherwise than the private one."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from discreet.cli.app import run

SAYS = {"negative": "A bad film.\nBöse.", "positive": "A good film.\nSeen twice."}


def write(path: str, count: int, encoding: str = "utf-8", delimiter: str = ",") -> None:
    with Path(path).open("w", newline="", encoding=encoding) as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow(["review", "sentiment"])
        kinds = list(SAYS)
        rows.writerows([SAYS[kinds[i % 2]] + " Again." * (i % 7), kinds[i % 2]] for i in range(count))


def drafted(*arguments: str) -> dict[str, dict[str, object]]:
    assert run(["schema", "t.csv", "--target", "sentiment", "--out", "t.yaml", *arguments]) == 0
    found: dict[str, dict[str, object]] = yaml.safe_load(Path("t.yaml").read_text())
    return found


def test_a_table_with_line_breaks_is_drafted_when_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write("t.csv", 60, "latin-1")
    assert run(["schema", "t.csv", "--out", "t.yaml"]) == 2
    assert "discreet schema --newlines" in capsys.readouterr().err
    assert drafted("--newlines")["csv"] == {"encoding": "iso8859-1", "newlines": True}


def test_a_public_table_may_have_line_breaks_too() -> None:
    """Texts of several lines are no categories: a list without any would be no declaration."""
    write("t.csv", 60)
    write("public.csv", 60)
    columns = drafted("--newlines", "--test", "public.csv")["columns"]
    assert columns["sentiment"] == {"type": "category", "categories": ["negative", "positive"]}
    assert columns["review"] == {"type": "category", "categories": "FILL_IN"}


def test_the_draft_says_what_free_text_is_declared_as() -> None:
    for name in ("t.csv", "public.csv"):
        Path(name).write_text("review,sentiment\n" + "".join(f"film {i},{'ab'[i % 2]}\n" for i in range(200)))
    drafted("--test", "public.csv")
    (line,) = [one for one in Path("t.yaml").read_text().splitlines() if one.startswith("  review: ")]
    assert line.startswith("  review: {type: ignore}")
    assert "of free text, {type: text}" in line


@pytest.mark.parametrize(("encoding", "delimiter"), [("latin-1", ","), ("utf-8", ";"), ("utf-16", "\t")])
def test_classes_come_from_a_public_table_that_is_written_otherwise(
    encoding: str, delimiter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("t.csv", 60)
    write("public.csv", 20, encoding, delimiter)
    wanted = ["--text", "review", "--target", "sentiment", "--unit", "row", "--population", "60", "--epsilon", "3"]
    assert run(["plan", "t.csv", *wanted, "--delta", "1e-3", "--test", "public.csv"]) == 0
