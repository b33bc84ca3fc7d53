"""`discreet train` and `discreet verify`, as people and scripts use them."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from npz_recipes import FAST, SHARED, assert_one_line_on_engine_and_noise, budget, write

from discreet.cli.app import run
from discreet.ledger import Ledger


def test_digits_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "digits", *FAST, "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert_one_line_on_engine_and_noise(err)
    assert out.startswith("digits-private: certified epsilon 1.0000 at delta 0.0001, public test accuracy ")
    assert out.count("\n") == 1
    assert {path.name for path in Path("digits-private").iterdir()} == {
        "model.safetensors",
        "model.json",
        "verify.py",
        "certificate.json",
        "plan.yaml",
        "report.html",
        "README.md",
    }
    assert not Path("digits-private.run/key").exists()
    assert not Path("digits-private.run/checkpoint.json").exists()
    assert run(["verify", "digits-private"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "ACCEPTED" in out
    assert "FAILED" not in out
    # A second run must not overwrite the first.
    assert run(["train", "digits", *FAST]) == 2
    out, err = capsys.readouterr()
    assert "digits-private exists already" in err
    for command in (["verify"], ["predict"]):  # the folder of the run, in the place of the published one
        assert run([*command, "digits-private.run", *(["new.csv"] if command == ["predict"] else [])]) == 2
        err = capsys.readouterr().err
        assert "digits-private.run is the private folder of a run; what it published is in digits-private: name" in err
        assert err.count("\n") == 1
    Path("digits-private").rename("elsewhere")
    assert run(["verify", "digits-private.run"]) == 2
    assert "name digits-private, or finish the run first (discreet train --resume digits-private.run" in (
        capsys.readouterr().err
    )
    page = Path("elsewhere/report.html")
    page.write_text(page.read_text() + " ")
    assert run(["verify", "elsewhere"]) == 1
    out = capsys.readouterr().out
    assert "FAILED  files: report.html was changed" in out
    assert "\nREJECTED: the certificate supports its claim, but files beside it are not those that were cert" in out


def test_the_working_folder_is_published_to_by_its_dot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert run(["train", "digits", *FAST, "--out", "."]) == 0, capsys.readouterr().err
    assert (here / "certificate.json").is_file()
    assert (tmp_path / "here.run").is_dir()


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(), "--out", "deep/model", "--epsilon", "2", "--delta", "1e-3", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    facts = json.loads(out)
    assert set(facts) == {"folder", "epsilon", "delta", "steps", "public_test", "bought", "seconds"}
    assert facts["folder"] == "deep/model"
    assert 1.9 < facts["epsilon"] <= 2.0
    assert facts["delta"] == 1e-3
    assert facts["steps"] == 3
    assert set(facts["public_test"]) == {"loss", "accuracy", "baseline accuracy"}
    assert run(["verify", "deep/model", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["accepted"] is True
    assert verdict["claim"] == {
        "epsilon": facts["epsilon"],
        "delta": 1e-3,
        "adjacency": "add_remove",
        "unit": "example",
        "on_top": [],
    }


def test_without_public_data_no_metric_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(x_test=None, y_test=None), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public_test"] == {}


def test_regression_on_real_targets(capsys: pytest.CaptureFixture[str]) -> None:
    targets = np.zeros((30, 3))
    assert run([*write(y_train=targets, x_test=None, y_test=None)]) == 0
    assert "accuracy" not in capsys.readouterr().out


def test_population_may_differ_from_the_length_of_the_data() -> None:
    assert run([*write(), "--population", "1000"]) == 0
    assert yaml.safe_load(Path("mine-private/plan.yaml").read_text())["population"] == 1000


def test_a_dry_run_charges_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "digits", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert run(["plan", "digits", "--no-probe"]) == 0
    assert capsys.readouterr().out == said
    assert run(["train", "digits", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["noise"][0]["steps"] == 40
    assert list(Path().iterdir()) == []


def test_what_can_be_set_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """And what is listed can be set."""
    assert run(["train", "digits", "--show-settings"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert "steps=40" in listed
    assert any(line.startswith("optimizer.lr=") for line in listed)
    given = [f"--set={line}" for line in listed if not line.endswith("=null")]
    assert run(["train", "digits", *given, "--show-settings"]) == 0
    assert capsys.readouterr().out.splitlines() == listed


def test_the_version_and_nothing_but_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert re.fullmatch(r"discreet \d+\.\d+\.\d+(\.dev\d+)?\n", capsys.readouterr().out)
    assert run([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: discreet" in out + err
    assert "discreet: " not in err


@pytest.mark.parametrize(
    ("name", "check"), [("model.safetensors", "model"), ("certificate.json", "epsilon"), ("plan.yaml", "plan")]
)
def test_a_tampered_folder_exits_with_one(name: str, check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write()) == 0
    path = Path("mine-private", name)
    if name == "model.safetensors":
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    elif name == "plan.yaml":
        path.write_text(path.read_text().replace("add_remove", "zero_out"))
    else:
        facts = json.loads(path.read_text())
        facts["claim"]["epsilon"] *= 0.9
        path.write_text(json.dumps(facts))
    capsys.readouterr()
    assert run(["verify", "mine-private"]) == 1
    out = capsys.readouterr().out
    assert f"FAILED  {check}:" in out
    assert "REJECTED" in out
    assert run(["verify", "mine-private", "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["accepted"] is False
    assert verdict["claim"] is None


# Engines, noise, shared ledgers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits", "mine"])
def test_exact_engine_and_noise_end_to_end(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(perf_counter=count(step=0.25).__next__)  # every phase takes a quarter of a second
    monkeypatch.setattr("discreet.jobs.phases.time", clock)
    keys = {"engine": "exact", "noise": "exact", "steps": 2}
    if name == "digits":
        arguments = ["train", "digits", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]
    else:
        arguments = write(keys)
    assert run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == 2
    assert list(facts["seconds"].items()) == [(phase, 0.25) for phase in ("read", "prepare", "train", "publish")]
    for path in Path(facts["folder"]).iterdir():
        assert b'"seconds"' not in path.read_bytes()  # times depend on private rows
    certificate = json.loads(Path(facts["folder"], "certificate.json").read_text())
    assert certificate["mechanism"]["engine"] == certificate["mechanism"]["noise"] == "exact"
    assert certificate["plan"]["noise"][0]["steps"] == 2
    assert not any("ziggurat" in assumption or "2^-20" in assumption for assumption in certificate["assumptions"])
    assert run(["verify", facts["folder"]]) == 0
    assert run(["ledger", "verify", "--ledger", f"{facts['folder']}.run/ledger.sqlite", facts["folder"]]) == 0


def test_a_budget_that_is_exceeded_exits_with_three_and_leaves_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    budget(4.0)  # one run of epsilon 3, not two
    assert run([*write(), *SHARED, "--out", "first"]) == 0
    capsys.readouterr()
    before = Ledger("shared.sqlite").verify()
    assert run([*write(), *SHARED, "--out", "second"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("discreet: ")
    assert err.count("\n") == 1
    assert "patients" in err
    assert not Path("second").exists()
    assert not Path("second.run").exists()
    assert Ledger("shared.sqlite").verify() == before
    assert run([*write(), *SHARED, "--out", "second", "--epsilon", "0.5"]) == 0  # and what is left can be spent


def test_a_budget_counts_the_whole_run_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    budget(2.9)
    assert run([*write(), *SHARED]) == 3
    assert list(Path().glob("mine-private*")) == []


def test_the_shared_ledger_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    budget(4.0)
    monkeypatch.setenv("DISCREET_LEDGER", "shared.sqlite")
    assert run([*write(), "--dataset-id", "patients"]) == 0
    assert not Path("mine-private.run/ledger.sqlite").exists()
    assert run([*write(), "--dataset-id", "patients", "--out", "again"]) == 3


PEOPLE = {"population": 10, "unit": "user", "rows_per_unit": 2}
NAMES = np.array([f"person {i % 10}" for i in range(30)])


def test_people_with_several_rows_are_protected_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(PEOPLE, units_train=NAMES), "--out", "out"]) == 0
    assert run(["verify", "out"]) == 0
    assert "unit user" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "units", "message"),
    [
        (PEOPLE, None, "say whose each row is"),
        ({}, NAMES, "make the plan with unit='user'"),
        (PEOPLE, NAMES[:-1], "fewer identifiers than the data has rows"),
        (PEOPLE | {"population": 7}, NAMES, "more different identifiers than the 8"),
        ({"rows_per_unit": 2}, None, "goes with unit='user'"),
        (PEOPLE | {"unit": "family"}, NAMES, "unit"),
    ],
)
def test_bad_units(
    recipe: dict[str, Any], units: np.ndarray | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(recipe, units_train=units)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert not Path("mine-private").exists()


def test_a_recipe_names_how_the_learning_rate_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's StepLR by name: halved after every second step."""
    seen: list[float] = []
    real = torch.optim.SGD.step

    def step(self: Any, *rest: Any, **more: Any) -> Any:
        seen.append(self.param_groups[0]["lr"])
        return real(self, *rest, **more)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    falling = {"scheduler": {"name": "step", "step_size": 2, "gamma": 0.5}, "steps": 7}
    assert run([*write(falling), "--out", "out"]) == 0
    assert seen == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.0125]


@pytest.mark.parametrize("scheduler", [{"name": "hope"}, {"name": "step"}, {"name": "step", "step_size": 1, "x": 2}])
def test_a_learning_rate_that_cannot_be(scheduler: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write({"scheduler": scheduler}), "--out", "out"]) == 2
    assert "recipe" in capsys.readouterr().err


def test_who_names_the_data_set_has_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert run(["ledger", "show"]) == 2
    assert f"there is none at {tmp_path}/share/discreet/ledger.sqlite" in capsys.readouterr().err
    assert run(["ledger", "budget", "--dataset-id", "patients", "--epsilon", "2.5", "--delta", "1e-2"]) == 0
    named = [*write(), "--dataset-id", "patients", "--epsilon", "2"]
    assert run([*named, "--out", "first"]) == 0
    assert run(["ledger", "verify", "first"]) == 0
    capsys.readouterr()
    assert run([*named, "--out", "second"]) == 3  # 2 of 2.5 are spent
    assert "patients" in capsys.readouterr().err
    assert (tmp_path / "share" / "discreet").stat().st_mode & 0o777 == 0o700
