"""The debug ladder: it trains on public rows only, loses what clipping and noise cost, and cannot be published."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from npz_recipes import RECIPE as SMALL
from problems import blobs

import discreet
from discreet.cli.app import run as command
from discreet.core.errors import InputError, PrivacyViolation
from discreet.data import Split
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe, ladder

RECIPE: dict[str, Any] = SMALL | {
    "optimizer": {"name": "sgd", "lr": 2.0},
    "population": 200,
    "rate": 0.25,
    "steps": 12,
    "epsilon": 0.2,
    "engine": "bookkeeping",
}


class Untouchable:
    """Private rows that must not be read."""

    def __getitem__(self, place: object) -> object:
        raise AssertionError("the private rows were read")


def recipe(**changes: Any) -> Recipe:
    return validate(Recipe, RECIPE | changes, "test")


def split(rows: int = 90) -> Split:
    return Split(train=Untouchable(), test=blobs(rows, seed=1))  # type: ignore[arg-type]


@pytest.fixture
def noisy_and_clipped(tmp_path: Path) -> Callable[[str], Any]:
    rows = ladder.public_rows(split(), all_public=False)
    return lambda name: ladder.run(name, recipe(), split(), rows, tmp_path / name)


def test_every_rung_is_of_public_rows_and_noise_costs_most() -> None:
    plain, clipped, noisy = ladder.climb(recipe(), split())
    assert [rung.fault for rung in (plain, clipped, noisy)] == [None] * 3
    assert [rung.rows for rung in (plain, clipped, noisy)] == [27] * 3  # of 90; they learn from the others
    assert plain.metrics["accuracy"] > 0.8
    assert clipped.metrics["accuracy"] > 0.7
    assert noisy.metrics["loss"] > clipped.metrics["loss"] > plain.metrics["loss"]


def test_without_clipping_and_noise_both_loops_agree() -> None:
    """The plain loop is torch's own; a private run that clips nothing and adds next to no noise ends near it."""
    rows = replace(split(), test=blobs(200, seed=1))
    plain, clipped, _ = ladder.climb(recipe(clip_norm=100.0, rate=1.0, sampling=None), rows)
    assert clipped.metrics["loss"] == pytest.approx(plain.metrics["loss"], rel=0.05)


@pytest.mark.parametrize("name", ["clipped", "noisy"])
def test_no_run_of_the_ladder_can_be_published(
    name: str, noisy_and_clipped: Callable[[str], Any], tmp_path: Path
) -> None:
    trained = noisy_and_clipped(name)
    with pytest.raises(PrivacyViolation, match="'test' randomness"):
        discreet.publish(trained, tmp_path / "out")
    if name == "clipped":
        pretended = replace(trained, mechanism=replace(trained.mechanism, randomness="system"))
        with pytest.raises(PrivacyViolation, match="no finite epsilon"):
            discreet.publish(pretended, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_rung_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PrivacyViolation, match="cannot be published"):
        discreet.publish(ladder.Rung("plain", {}), tmp_path / "out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("accuracies", "rows", "word"),
    [
        ((35 / 36, 34 / 36, 34 / 36), 36, "no more than chance on 36 public rows"),  # one row of them
        ((1.0, 1.0, 35 / 36), 36, "no more than chance on 36 public rows"),
        ((35 / 36, 34 / 36, 17 / 36), 36, "most is lost to noise"),
        ((0.97, 0.94, 0.94), 3600, "most is lost to clipping"),
        ((0.97, 0.96, 0.96), 36, "neither clipping nor noise costs much"),
    ],
)
def test_what_chance_explains_is_blamed_on_nothing(
    accuracies: tuple[float, ...],
    rows: int,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two standard errors of a difference of two accuracies are 9 % on 36 rows, and 1 % on 3,600."""
    named = zip(ladder.RUNGS, accuracies, strict=True)
    rungs = [ladder.Rung(name, {"accuracy": one}, rows=rows) for name, one in named]
    monkeypatch.setattr("discreet.jobs.debug.ladder", lambda *_, **__: iter(rungs))
    assert command(["debug"]) == 0
    assert word in capsys.readouterr().out.splitlines()[-1]


def test_what_cannot_be_done_is_said() -> None:
    plain, *_ = ladder.climb(recipe(optimizer={"name": "dp_dropout", "lr": 0.1}, steps=2), split())
    assert "made of the noise" in str(plain.fault)
    with pytest.raises(InputError, match="needs public rows"):
        next(ladder.climb(recipe(), Split(train=blobs(), test=None)))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    fast = ["--set", "engine=bookkeeping", "--set", "noise=fast", "--set", "steps=4"]
    assert command(["debug", "digits", *fast, "--json"]) == 0
    rungs = json.loads(capsys.readouterr().out)
    assert [rung["name"] for rung in rungs] == ["plain", "clipped", "noisy"]
    assert all(0 < rung["metrics"]["accuracy"] <= 1 for rung in rungs)
    assert list(tmp_path.iterdir()) == []
