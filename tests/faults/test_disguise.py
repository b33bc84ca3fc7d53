"""Values that look like a number, or name nothing, are refused from the command line alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli.app import run


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("steps='3'", "steps: must be a number, got '3'"),
        ("steps=true", "steps: must be a number, got True"),
        ("epsilon=yes", "epsilon: must be a number, got True"),
        ("clip_norm='1'", "clip_norm: must be a number, got '1'"),
        ("optimizer.lr=.nan", "lr must be finite, got nan"),
        ("optimizer.lr=.inf", "lr must be finite, got inf"),
        ("optimizer.lr=true", "lr=True: it must be a number"),
        ("optimizer.momentum='0.5'", "momentum='0.5': it must be a number"),
        ("steps=2001-13-45", "month must be in 1..12"),
    ],
)
def test_a_setting_that_is_no_number_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "digits", "--set", setting]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--ledger", "--dataset-id"])
@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_of_a_budget_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "digits", option, name]) == 2
    assert "an empty name is none" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_ledger_takes_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "discreet", "train", "digits", "--dataset-id", "a\u200bb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "U+200B" in done.stderr
    assert not re.search(r"\| +torch$", done.stderr, re.MULTILINE)


def test_delta_may_be_written_without_a_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "digits", "--no-probe", "--set", "delta=1e-5"]) == 0
    assert "at delta 1e-05" in capsys.readouterr().out


def test_a_device_without_values_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "digits", "--device", "meta"]) == 2
    assert "its tensors have no values" in capsys.readouterr().err


@pytest.mark.parametrize("population", ["0.5", "1e308"])
def test_a_population_is_a_number_of_people(capsys: pytest.CaptureFixture[str], population: str) -> None:
    assert run(["suggest", "--population", population, "--epsilon", "8"]) == 2
    assert "from 2 to 1e+12" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--rate", "1e-320"), "--rate must be at least 1e-15"),
        (("--noise", "1e-320"), "--noise must be from 1e-09 to 1e+09"),
        (("--noise", "1e300"), "--noise must be from 1e-09 to 1e+09"),
        (("--group", "1000000000"), "--group must be at most 1,000 units"),
    ],
)
def test_absurd_numbers_are_slips(capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str) -> None:
    given = {"--rate": "0.01", "--noise": "1", "--steps": "10", "--delta": "1e-5"} | dict([change])
    assert run(["epsilon", *(part for pair in given.items() for part in pair)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("csv", "said"),
    [
        *((f"encoding: {name}", "unknown encoding") for name in ("rot13", "zlib", "hex", "undefined", "no_such")),
        ("delimiter: ';', quote: ';'", "delimiter and quote are both ';'"),
        ("delimiter: é", "delimiter must be an ASCII character"),
    ],
)
def test_a_csv_format_that_no_reader_has_is_refused_with_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], csv: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "table"]) == 0
    schema = tmp_path / "table-start" / "schema.yaml"
    schema.write_text(f"csv: {{{csv}}}\n" + schema.read_text(), encoding="utf-8")
    capsys.readouterr()
    table = str(tmp_path / "table-start" / "patients.csv")
    assert run(["train", table, "--schema", str(schema), "--epsilon", "1", "--dry-run"]) == 2
    assert said in capsys.readouterr().err
