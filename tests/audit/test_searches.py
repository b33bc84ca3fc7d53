"""Sound searches pass, of each law and of parts; what the command line says of a search is checked."""

import pkgutil
from typing import Any

import numpy as np
import pytest
from audit_findings import failing
from audited_builds import build

from discreet.audit import tails
from discreet.audit.builds.laws import search_check
from discreet.audit.builds.laws.search_check import search_outcomes
from discreet.cli.app import run
from discreet.plan import PartsSearch, Search
from discreet.plan.tuning.random_stopping import law as law_named

GRID = {"lr": [0.1, 0.3, 1.0], "clip_norm": [0.5]}


@pytest.mark.parametrize(
    ("law", "mean", "more"),
    [("geometric", 5, {}), ("poisson", 6, {"unit": "user"}), ("logarithmic", 3, {"family": "language"})],
)
def test_the_best_of_a_secret_number(law: str, mean: float, more: dict[str, Any]) -> None:
    search = Search.make(GRID, mean, score="validation_accuracy", law_of_trials=law)
    outcomes = list(search_outcomes(build(**more), search))
    assert [one.name for one in outcomes if failing(one)] == []
    assert {"search/runs", "search/candidates", "search/charges", "search/noise", "search/winner"} == {
        one.name for one in outcomes
    }


def test_all_runs_of_a_search_share_the_checks_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    where = "discreet.training.preflight.engine_check._compared"
    taken, real = [], pkgutil.resolve_name(where)

    def counted(*given: Any) -> Any:
        taken.append(given)
        return real(*given)

    monkeypatch.setattr(where, counted)
    monkeypatch.setattr(search_check, "RUNS", 1)
    monkeypatch.setattr(search_check, "_laws", lambda *_: [])
    list(search_outcomes(build(), Search.make(GRID, 2, score="validation_accuracy")))
    assert len(taken) == 1


@pytest.mark.parametrize("times", [1, 2, 30])
def test_the_law_of_a_sum(times: int) -> None:
    """By Fourier transform and by convolution; never below it."""
    law = 0.2 * 0.8 ** np.arange(60)
    found, wanted = tails.repeated_law(law, times), tails.sum_law([law] * times)
    assert found.shape == wanted.shape
    assert (found >= wanted).all()
    assert np.abs(found - wanted).max() < 1e-13


def test_a_law_with_a_long_tail_takes_no_long_time() -> None:
    law = search_check._law(law_named("geometric", 3000))
    assert len(law) > 50_000
    numbers = [1, 2000, 3000, 9000] * 40
    assert search_check._counted(numbers, law_named("geometric", 3000)).p is not None


@pytest.mark.parametrize("more", [{"family": "texts"}, {"family": "language"}, {"unit": "user"}])
def test_parts_of_the_data(more: dict[str, Any]) -> None:
    outcomes = list(search_outcomes(build(**more), PartsSearch.make(GRID)))
    assert [one.name for one in outcomes if failing(one)] == []
    assert {"search/parts", "search/charges", "search/choice"} == {one.name for one in outcomes}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--trials", "5"], "give its --grid"),
        (["--kind", "parts"], "give its --grid"),
        (["--grid", "optimizer.lr=0.1,1"], "give --trials"),
        (["--grid", "optimizer.lr=0.1,1", "--trials", "5", "--law", "uniform"], "unknown law"),
        (["--grid", "optimizer.lr=0.1,1", "--kind", "best"], "unknown kind"),
        (["--grid", "optimizer.lrr=0.1,1", "--trials", "5"], "lrr"),
    ],
)
def test_a_search_that_is_no_search(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "build", "digits", *given]) == 2
    assert said in capsys.readouterr().err
