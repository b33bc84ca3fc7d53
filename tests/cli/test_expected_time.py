"""The expected wall time of a run, which `discreet plan` takes from a few steps on random data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
from planned_recipe import ADAPTIVE, write

from discreet.cli.app import run

Capture = pytest.CaptureFixture[str]


def test_the_wall_time_comes_from_steps_on_random_data(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data is there to be read, nothing is left behind, and twice the steps take twice as long."""
    from discreet.training.preflight import wall_time

    taken: list[float] = []

    def step(plan: Any, batch: float, *rest: Any) -> float:
        taken.append(batch)
        return 0.5 + 0.01 * batch

    write()
    before = sorted(Path().iterdir())
    assert run(["plan", "mine.yaml"]) == 0
    assert "on this machine, from a few steps on random data" in capsys.readouterr().out
    assert sorted(Path().iterdir()) == before
    monkeypatch.setattr(wall_time, "_step", step)
    assert run(["plan", "mine.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wall_seconds"] == pytest.approx(12 * (0.5 + 0.01 * 20))
    write(rate=None, batches=[[10, 4], [20, 4], [40, 4]])
    taken.clear()
    assert run(["plan", "mine.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wall_seconds"] == pytest.approx(4 * (0.6 + 0.7 + 0.9))
    assert sorted(taken) == [10.0, 40.0]


def test_the_steps_that_are_timed_are_those_of_runs(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunk is handed out, which would be copied."""
    from discreet.training.batch import Batch

    def handed_out(_batch: Batch) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(Batch, "chunks", property(handed_out))
    write()
    assert run(["plan", "mine.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wall_seconds"] > 0


@pytest.mark.parametrize(
    "changes", [ADAPTIVE, {"holdout": 0.25}, {"model": {"name": "linear", "inputs": 4, "outputs": 1}}]
)
def test_other_recipes_have_a_wall_time(changes: dict[str, Any], capsys: Capture) -> None:
    write(**changes)
    assert run(["plan", "mine.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wall_seconds"] > 0


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.125, "0.12 seconds"), (119, "119 seconds"), (121, "2 minutes"), (7201, "2 hours")]
)
def test_times_in_words(seconds: float, words: str) -> None:
    from discreet.cli.show.wall_time import in_words

    assert in_words(seconds) == words
