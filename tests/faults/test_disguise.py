"""Values that look like a number, or name nothing, are refused from the command line alone."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.data.packed import read_arrays
from discreet.recipes import Recipe


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
        ("bands=" + "9" * 400, "bands: must be a number below 2^63"),
        ("sampling={kind: cyclic, rate: 0.1, coefficients: [1], period: " + "9" * 400 + "}", "sampling"),
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


@pytest.mark.parametrize(
    ("device", "said"), [("meta", "its tensors have no values"), ("none", "models cannot be on the device 'none' here")]
)
def test_a_device_that_is_none_is_refused_before_the_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], device: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Recipe, "load_data", None)
    assert run(["train", "digits", "--device", device]) == 2
    assert said in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--epsilon", "1e308", "--delta", "1e-5", "--rate", "0.01", "--steps", "100"),
            "--epsilon must be at most 700",
        ),
        (("--mu", "1e308", "--delta", "1e-5", "--rate", "0.01", "--steps", "100"), "--mu must be at most 40"),
        (("--epsilon", "1", "--delta", "1e-5", "--rate", "1e-9", "--steps", "100"), "at least 1e-06 to calibrate"),
        (("--epsilon", "1", "--delta", "1e-5", "--rate", "0.01", "--steps", "100000000"), "at most 10,000,000 steps"),
        (
            ("--epsilon", "1", "--delta", "1e-5", "--rate", "0.01", "--epochs", "1e300"),
            "--epochs in steps must be at most",
        ),
        (
            ("--epsilon", "1", "--delta", "1e-5", "--batch", "1", "--population", "1e300", "--steps", "10"),
            "--batch over --population must be at least 1e-15",
        ),
    ],
)
def test_what_no_training_asks_for_is_not_calibrated(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert run(["calibrate", *given]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", [("plan", "digits", "--no-probe"), ("train", "digits", "--dry-run")])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("optimizer.momentum='0.5'", "sgd cannot take momentum='0.5': it must be a number"),
        ("optimizer.speed=3", "sgd cannot take these arguments"),
        ("scheduler={name: step, speed: 3}", "step cannot take these arguments"),
    ],
)
def test_arguments_that_an_optimizer_does_not_take_are_refused_before_the_data_is_read(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], setting: str, said: str
) -> None:
    assert run([*command, "--set", setting]) == 2
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{type: number, low: 0, high: 1e308}", "low and high must be from -1e+30 to 1e+30"),
        ("{type: number, buy: {between: [-1e308, 1e308]}}", "between must be from -1e+30 to 1e+30"),
        (f"{{type: category, categories: [{', '.join(f'c{n}' for n in range(10_001))}]}}", "at most 10,000 are taken"),
    ],
)
def test_a_column_that_no_model_can_use_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, said: str
) -> None:
    schema, table = tmp_path / "s.yaml", tmp_path / "t.csv"
    schema.write_text(
        f"population: 100\nunit: row\ncolumns:\n  x: {column}\n  y: {{type: boolean}}\ntarget: y\n", encoding="utf-8"
    )
    table.write_text("x,y\n1,0\n2,1\n")
    assert run(["train", str(table), "--schema", str(schema), "--epsilon", "1", "--dry-run"]) == 2
    assert said in capsys.readouterr().err


def test_truth_values_are_0_or_1(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([[True, False]]))
    assert read_arrays(path)[""].tolist() == [[True, False]]
    path.write_bytes(path.read_bytes()[:-1] + b"\x02")
    with pytest.raises(InputError, match="neither 0 nor 1"):
        read_arrays(path)


@pytest.mark.parametrize(
    "command", [("train",), ("tune", "--trials", "1.5", "--holdout", "10%", "--grid", "optimizer.lr=0.5,1")]
)
@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        (
            "epsilon=2",
            3,
            "of 1.5 and 0.001 in 0 runs; nothing was charged; epsilon 1.5 and delta 0.001 are left",
        ),
        ("adjacency=zero_out", 2, "is for add_remove, unit example"),
    ],
)
def test_a_budget_that_does_not_fit_is_said_before_the_data_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    setting: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    books = ("--ledger", "l.sqlite", "--dataset-id", "people")
    assert run(["ledger", "budget", *books, "--epsilon", "1.5", "--delta", "1e-3"]) == 0
    monkeypatch.setattr(Recipe, "load_data", None)
    name, *options = command
    assert run([name, "digits", *options, *books, "--set", setting, "--set", "steps=4", "--out", "m"]) == code
    assert said in capsys.readouterr().err
    assert not Path("m.run").exists()
