"""`discreet init table FILE`: questions on a terminal (a pseudo-terminal here), and the schema that comes of them."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest
import yaml

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.data.tables import Schema, load_schema
from discreet.data.tables.drafting.filling import Open, column_of, filled, open_columns

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")

CTRL_C = "\x03"
YES = ("ja", "nein")
HEADER = "id,age,x,ward,seen,free,y"
ROWS = [f"p{i},{i + 20},{i / 3:.3f},{'AB'[i % 2]},0{i % 9 + 1}/02/2020,hello {i},{YES[i % 2]}" for i in range(40)]


def talk(answers: list[str], folder: Path) -> tuple[str, int]:
    """What the command says on a terminal of its own to these answers, and its exit code."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored by whoever runs in the background of a shell
        program = "from discreet.cli import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", program, "init", "table", "t.csv"])
    said, waiting, last = "", list(answers), ""
    deadline = time.monotonic() + 120
    while True:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        if not select.select([terminal], [], [], 1)[0]:
            # Pressed again, as a person would: one between two system calls interrupts none.
            if last == CTRL_C and "interrupted" not in said:
                os.write(terminal, CTRL_C.encode())
            continue
        try:
            new = os.read(terminal, 4096).decode()
        except OSError:  # the other end is closed
            break
        said += new
        if said.endswith("> ") and waiting:
            last = waiting.pop(0)
            os.write(terminal, (last if last == CTRL_C else f"{last}\n").encode())
    return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    return tmp_path / "t.csv"


def test_from_questions_to_a_schema(table: Path) -> None:
    answers = ["nope", "y", "", "many", "5000", "", "120 0", "", "A, B", "%d/%m/%Y 2020-01-01 2021-01-01", "ignore"]
    said, code = talk(answers, table.parent)
    assert code == 0, said
    assert "there is no 'nope'; say one of id, age" in said
    assert "say a number, such as 5000" in said
    assert "give the lower number first: 0 120" in said
    assert "t.yaml is written. Next: discreet train t.csv --schema t.yaml --epsilon 3" in said
    schema = load_schema(table.with_suffix(".yaml"))
    assert (schema.unit, schema.population, schema.target) == ("row", 5000, ("y",))
    columns = {name: column.type for name, column in schema.columns.items()}
    assert columns == {
        "id": "ignore",
        "age": "number",
        "x": "number",
        "ward": "category",
        "seen": "date",
        "free": "ignore",
        "y": "boolean",
    }
    assert schema.columns["x"].buy is not None  # type: ignore[union-attr]
    assert not any(value in said for value in ("p1,", "hello", "0.333"))
    assert talk([], table.parent)[1] == 2  # nothing is overwritten


def test_numbers_that_can_be_read_in_two_ways_are_said_before_the_questions(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("code;dose;y\n1,5;1.234;ja\n2,5;2.500;nein\n")
    said, code = talk([CTRL_C], tmp_path)
    assert code == 130, said
    assert "CAREFUL: every '.' in dose stands before three digits" in said.partition("Which column")[0]


def test_ctrl_c_writes_nothing(table: Path) -> None:
    said, code = talk(["y", CTRL_C], table.parent)
    assert code == 130, said
    assert "Traceback" not in said
    assert not table.with_suffix(".yaml").exists()


def test_without_a_terminal_it_says_what_to_do(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "table", str(table), "--out", str(table.with_suffix(".yaml"))]) == 2
    assert "`discreet schema FILE` writes a draft" in capsys.readouterr().err
    assert run(["init", "images", str(table)]) == 2
    assert "only a table is asked about" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "answer", "said"),
    [
        (Open("x", "number"), "many", "two numbers"),
        (Open("x", "number"), "3", "two numbers"),
        (Open("x", "number"), "nan 3", "lower number first"),
        (Open("x", "category"), "A", "two different names"),
        (Open("x", "category"), "A, A", "two different names"),
        (Open("x", "date"), "2020-01-01", "two days"),
        (Open("x", "date"), "2020-01-02 2020-01-01", "earlier day first"),
        (Open("x", "date", formats=("%d.%m.%Y", "%m.%d.%Y")), "2020-01-01 2021-01-01", "how days are written"),
    ],
)
def test_answers_that_cannot_be(column: Open, answer: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        column_of(column, answer)


def test_answers_keep_what_the_draft_has_found() -> None:
    text = (
        "population: 100\nunit: row\ntarget: y\ncolumns:\n"
        "  'lab: a': {type: number, low: FILL_IN, high: FILL_IN, censored: bound}\n"
        '  day: {type: date, low: FILL_IN, high: FILL_IN, format: "%d.%m.%Y"}\n'
        "  y: {type: boolean}\n"
    )
    assert open_columns(text) == [Open("lab: a", "number", censored=True), Open("day", "date", format="%d.%m.%Y")]
    done = filled(text, {"lab: a": "0,5 to 7", "day": "2020-01-01 2021-01-01"}, 100)
    columns = Schema.model_validate(yaml.safe_load(done)).columns
    assert columns["lab: a"].model_dump(include={"low", "high", "censored"}) == {
        "low": 0.5,
        "high": 7.0,
        "censored": "bound",
    }
    assert columns["day"].format == "%d.%m.%Y"  # type: ignore[union-attr]
