"""`discreet train` on the tables of several sites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from table_runs import FEW, SCHEMA, trained, write

from discreet.cli.app import run
from discreet.data import Sites
from discreet.jobs.tables.site_tables import tables_read
from discreet.training import training as training_module

USERS = SCHEMA["columns"] | {"patient": {"type": "ignore"}}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


def tables(**changes: Any) -> list[str]:
    """The patients at three sites, all ill ones at the first; the arguments that train on them."""
    _, _, *rest = write(**changes)
    header, *rows = Path("patients.csv").read_text().splitlines()
    ill = {row.split(",")[0] for row in rows if row.split(",")[4] == "1"}
    parts = [[row for row in rows if row.split(",")[0] in ill], [], []]
    for row in rows:
        if row.split(",")[0] not in ill:
            parts[1 + hash_of(row) % 2].append(row)
    for site, part in enumerate(parts):
        Path(f"clinic-{site}.csv").write_text("\n".join([header, *part]) + "\n")
    Path("patients.csv").unlink()
    return ["train", "clinic-{site}.csv", "--sites", "3", *rest, "--target", "ill", *FEW]


def hash_of(row: str) -> int:
    return int(row.split(",")[0][1:])


@pytest.mark.parametrize("unit", ["row", "patient"])
def test_one_process_may_read_all_sites(
    unit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users are compared by name, since numbers of two tables mean other people; at a site all targets may be equal."""
    seen: list[dict[str, Any]] = []
    real = training_module.Training.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        seen.append({"data": args[4], **options})
        real(self, *args, **options)

    monkeypatch.setattr(training_module.Training, "__init__", noted)
    facts = trained(tables(unit=unit), capsys)
    assert facts["folder"] == "clinic-private"
    data = seen[0]["data"]
    assert isinstance(data, Sites)
    assert [len(rows) for rows in data.held] == [
        len(Path(f"clinic-{i}.csv").read_text().splitlines()) - 1 for i in range(3)
    ]
    if unit == "patient":
        assert {name for names in seen[0]["units"].values() for name in names} >= {"p0", "p1", "p2"}
    certificate = json.loads(Path("clinic-private/certificate.json").read_text())
    assert any("The data lies at 3 sites" in one for one in certificate["assumptions"])
    assert json.loads(Path("clinic-private.run/job.json").read_text())["table"]["sites"] == 3


def test_a_process_reads_the_tables_on_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("clinic-{site}.csv")
    for site in range(5):
        Path(f"clinic-{site}.csv").touch()
    assert [*tables_read(path, 5)] == [0, 1, 2, 3, 4]
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert [*tables_read(path, 5)] == [3]  # every machine has all of them
    monkeypatch.setenv("RANK", "0")
    assert [*tables_read(path, 5)] == [0, 4]
    Path("clinic-0.csv").unlink()
    assert [*tables_read(path, 5)] == [2, 4]  # the second of two processes of a machine with 1, 2, 3 and 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": ["clinic-0.csv"]}, "name them with {site} for the number, from 0 to 2: clinic-0-{site}.csv"),
        ({"train": ["digits"]}, "--sites goes with tables, named like patients-{site}.csv, not with digits"),
        ({"--sites": ["4"]}, "there is no file clinic-3.csv here"),
        ({"--sites": ["0"]}, "--sites must be at least 1, got 0"),
        ({"--sites": None}, "there is no file clinic-{site}.csv; if {site} is the number of a site, say how many"),
        ({"--schema": None}, "the tables of all sites have one schema, made of public facts: --schema FILE.yaml"),
        ({"--processes": ["4"]}, "--processes 4: a process holds one site at least, and there are 3"),
        ({"--test": ["clinic-1.csv"]}, "--test clinic-1.csv is the private table itself"),
    ],
)
def test_mistakes_with_sites(
    changes: dict[str, list[str] | None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = tables()
    for name, values in changes.items():
        if name not in arguments:
            arguments += [name, *(values or [])]
            continue
        place = arguments.index(name)
        arguments[place : place + 2] = [] if values is None else [name, *values]
    assert run(arguments) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("discreet: ")]
    assert said in line
    assert not Path("clinic-private").exists()


def test_a_copy_of_any_private_table_is_not_public(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = tables()
    Path("copy.csv").write_text(Path("clinic-2.csv").read_text())
    assert run([*arguments, "--test", "copy.csv"]) == 2
    assert "--test copy.csv is a copy of the private table" in capsys.readouterr().err


def test_ranges_cannot_be_bought_over_sites(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = tables(columns=USERS | {"age": {"type": "number", "buy": {"between": [1, 1000], "noise": 5}}})
    assert run(arguments) == 2
    assert "which takes all rows in one place" in capsys.readouterr().err


def test_a_run_goes_on_with_its_sites(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said again must be what it began with."""
    arguments = [*tables(), "--out", "m"]
    trained(arguments, capsys)
    for name in ("certificate.json", "report.html"):
        Path(f"m/{name}").unlink()
    other = arguments.copy()
    other[arguments.index("--sites") + 1] = "2"
    assert run([*other, "--resume", "m.run"]) == 2
    assert "--sites 3, not" in capsys.readouterr().err
    assert run(["train", "--resume", "m.run", "--sites", "3"]) == 2
    assert "--sites with --resume can be compared with the run if the table is named too" in capsys.readouterr().err
