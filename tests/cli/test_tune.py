"""`discreet tune` from the command line: tiny searches on the digits, and one-line refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from instead import instead

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.ledger import Ledger
from discreet.plan import PartsSearch, Plan, Search
from discreet.plan.pydantic_base import validate
from discreet.recipes import load_recipe
from discreet.recipes.sections.search import default_score, parse_grid, with_settings

SHORT = ["--set", "steps=3", "--set", "engine=vmap", "--set", "noise=fast"]
SEARCH = ["--trials", "2", "--grid", "optimizer.lr=0.5,2", "--grid", "clip_norm=0.5,1"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


def test_a_search_on_the_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Held-out rows score the runs; the folder is verified; the search is one run of the shared ledger."""
    options = ["--holdout", "10%", "--out", "best", "--ledger", "shared.sqlite", "--dataset-id", "digits"]
    assert run(["tune", "digits", *SEARCH, *SHORT, *options]) == 0
    said = capsys.readouterr()
    assert "4 candidates; 2 runs on average, more than 7 at most once in a hundred searches" in said.err
    assert "one such run alone would cost" in said.err
    assert "so no progress is shown" in said.err
    assert "winner: optimizer.lr=" in said.out
    assert "for the whole search" in said.out
    assert run(["verify", "best"]) == 0
    facts = json.loads((tmp_path / "best" / "certificate.json").read_text())
    assert 0.99 < facts["claim"]["epsilon"] <= 1
    assert set(facts["search"]["winner"]) == {"optimizer.lr", "clip_norm"}
    assert facts["plan"]["search"]["score"] == "holdout_accuracy"
    assert not (tmp_path / "best.run").exists()
    books = Ledger(tmp_path / "shared.sqlite", create=False)
    assert books.budget("digits")[1].runs == 1
    assert [entry.kind for entry in books.entries()] == ["run", "attempt", "reservation"]
    books.close()


def test_as_json_by_public_validation(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "validation=0.5", "--set", "model={name: mlp, inputs: 64, outputs: 10, hidden: [4]}"]
    search = ["--trials", "1.5", "--law", "logarithmic", "--grid", "model.hidden=[4],[8, 4]"]
    assert run(["tune", "digits", *search, *SHORT, *options, "--epsilon", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["winner"]["model.hidden"] in ([4], [8, 4])
    assert facts["epsilon_of_one_run"] < facts["epsilon"] <= 2
    assert "accuracy" in facts["public_test"]
    assert run(["verify", "digits-private"]) == 0


def test_parts_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three candidates on parts of the digits, at the price of one run; the choice is scored by clipped losses."""
    search = ["--kind", "parts", "--grid", "optimizer.lr=0.5,1,2", "--score", "loss:3"]
    assert run(["tune", "digits", *search, *SHORT, "--out", "best"]) == 0
    said = capsys.readouterr()
    assert "3 candidates, each trained on a part of its own: 1 of 4, about 359.2 rows" in said.err
    assert "by loss on the last part, is released alone" in said.err
    assert "winner: optimizer.lr=" in said.out
    assert run(["verify", "best"]) == 0
    facts = json.loads((tmp_path / "best" / "certificate.json").read_text())
    assert 0.99 < facts["claim"]["epsilon"] == facts["search"]["epsilon_of_one_run"] <= 1
    assert (facts["plan"]["search"]["score"], facts["plan"]["search"]["bound"]) == ("loss", 3.0)
    assert facts["plan"]["population"] == 1437 / 4
    assert "one part of 4" in (tmp_path / "best" / "README.md").read_text()


def test_a_dry_run_of_parts_says_what_they_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "digits", "--kind", "parts", "--grid", "optimizer.lr=0.5,1", *SHORT, "--dry-run"]) == 0
    said = capsys.readouterr()
    plan = validate(Plan, json.loads(said.out), "plan")
    assert isinstance(plan.search, PartsSearch)
    assert re.search(r"epsilon (\S+) for the whole search; one such run alone would cost \1:", said.err)
    assert re.search(r"between any two candidates the choice errs by 1\.7\d right predictions", said.err)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_plan_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "digits", *SEARCH, *SHORT, "--holdout", "10%", "--dry-run"]) == 0
    plan = validate(Plan, json.loads(capsys.readouterr().out), "plan")
    assert isinstance(plan.search, Search)
    assert plan.search.trials.mean == 2
    assert 0.99 < plan.guarantee().epsilon <= 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trials", "5"], "give --grid"),
        (["--trials", "5", "--grid", "optimizer.lr"], "key=value"),
        (["--trials", "5", "--grid", "optimizer.lr="], "key=value"),
        (["--trials", "5", "--grid", "optimizer.lr=[1"], "key=value"),
        (["--trials", "5", "--grid", "epsilon=1,2"], "all runs of a search share one plan"),
        (["--trials", "5", "--grid", "steps=10,20"], "all runs of a search share one plan"),
        (["--trials", "5", "--grid", "rate=0.1,0.2"], "all runs of a search share one plan"),
        (["--trials", "5", "--grid", "optimizr.lr=1,2"], "unknown setting"),
        (["--trials", "5", "--grid", "optimizer=sgd,adam"], "may vary optimizer.KEY"),
        (["--trials", "5", "--grid", "optimizer.lr=1", "--grid", "optimizer.lr=2"], "twice"),
        (["--trials", "5", "--grid", "optimizer.speed=1,2"], "cannot take these arguments"),
        (["--trials", "5", "--grid", "optimizer.name=sgd,lion"], "unknown name"),
        (["--trials", "0", "--grid", "optimizer.lr=1,2"], "--trials must be finite and greater than 0, got 0"),
        (["--trials", "1", "--grid", "optimizer.lr=1,2"], "--trials is the mean number of trials, above 1"),
        (["--trials", "5", "--law", "normal", "--grid", "optimizer.lr=1,2"], "unknown law"),
        (["--grid", "optimizer.lr=1,2"], "give --trials"),
        (["--kind", "best", "--grid", "optimizer.lr=1,2"], "unknown kind of search"),
        (["--kind", "parts", "--trials", "5", "--grid", "optimizer.lr=1,2"], "leave out --trials and --law"),
        (["--kind", "parts", "--grid", "optimizer.lr=1,2"], "leave out metrics and holdout"),
        (["--kind", "parts", "--grid", "optimizer.lr=1,2", "--score", "loss"], "loss:BOUND"),
        (["--trials", "5", "--score", "accuracy", "--grid", "optimizer.lr=1,2"], "which the plan does not buy"),
        (["--trials", "5", "--grid", "optimizer.lr=1,2", "--device", "abacus"], "the device 'abacus' here"),
        ([*SEARCH, "--holdout", "10"], "--holdout 10 is no share of the rows: it is below 1, as 0.1, or in percent"),
        ([*SEARCH, "--holdout", "1.5"], "--holdout 1.5 is no share of the rows"),
    ],
)
def test_refusals_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(instead(["tune", "digits", *SHORT, "--holdout", "10%"], *options)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("discreet: ")
    assert message in error
    assert list(tmp_path.iterdir()) == []


def test_a_search_needs_a_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "digits", *SEARCH]) == 2
    assert "--holdout 10%" in capsys.readouterr().err


def test_a_budget_that_is_spent_ends_with_exit_code_3() -> None:
    options = ["--dataset-id", "digits", "--ledger", "shared.sqlite"]
    assert run(["ledger", "budget", *options, "--epsilon", "0.5", "--delta", "1e-3"]) == 0
    assert run(["tune", "digits", *SEARCH, *SHORT, "--holdout", "10%", *options]) == 3
    assert not Path("digits-private").exists()


def test_settings_reach_the_recipe() -> None:
    recipe = load_recipe("digits", [], {"holdout": "10%"})
    grid = parse_grid(["optimizer.lr=1,1.5", "optimizer.name=sgd,adam", "averaging.start=3", "scheduler.name=cosine"])
    assert grid["optimizer.lr"] == [1, 1.5]
    settings: dict[str, Any] = {"optimizer.lr": 1.5, "averaging.start": 3, "clip_norm": 9.0}
    found = with_settings(recipe, settings)
    assert (found.optimizer.model_extra or {})["lr"] == 1.5
    assert (found.optimizer.model_extra or {})["momentum"] == 0.5
    assert found.averaging is not None
    assert found.clip_norm == recipe.clip_norm, "the clip norm is the plan's"
    assert default_score(recipe) == "holdout_accuracy"
    assert default_score(load_recipe("digits", ["validation=0.2"])) == "validation_accuracy"
    with pytest.raises(InputError, match="needs a score"):
        default_score(load_recipe("digits"))
