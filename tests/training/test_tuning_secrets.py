"""No trace of how many runs a search made, nor of those that lost, nor of how many rows a part has."""

from __future__ import annotations

import json
import logging
import random
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs
from searches import build, parts_tuning, recording, tuning, tuning_of, with_trials
from torch import Tensor, nn

from discreet import InputError, Setup, publish
from discreet.ledger import Ledger


@pytest.mark.parametrize("number", [1, 3])
def test_global_generators_do_not_tell_how_many_trials_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Models may be initialised from them."""

    def drawing(settings: Mapping[str, Any]) -> Setup:
        torch.rand(1), random.random(), np.random.rand()  # noqa: NPY002
        return build(settings)

    with_trials(monkeypatch, number)
    search = tuning(tmp_path, drawing)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    search.run()
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("kind", "number"), [("random_stopping", 6), ("parts", 4)])
def test_losers_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], kind: str, number: int
) -> None:
    """Weights of every trial are looked for in every file there is; those of the winner are found, once."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    with_trials(monkeypatch, number)
    models: list[nn.Module] = []
    search = tuning_of(kind, tmp_path, recording(models))
    capfd.readouterr()
    trained = search.run()
    assert capfd.readouterr() == ("", ""), "nothing is said on the way"
    publish(trained, tmp_path / "out")
    content = {path.name: path.read_bytes() for path in files(tmp_path)}
    assert set(content) - {"ledger.sqlite-wal", "ledger.sqlite-shm"} == {
        "certificate.json",
        "model.json",
        "model.safetensors",
        "plan.yaml",
        "report.html",
        "README.md",
        "verify.py",
        "ledger.sqlite",
        ".gitignore",
    }
    weights = [raw(model.state_dict()["head.weight"]) for model in models[-number:]]
    assert len(set(weights)) == number
    hits = [sum(weight in data for data in content.values()) for weight in weights]
    assert sorted(hits) == [0] * (number - 1) + [1]


@pytest.mark.parametrize("kind", ["random_stopping", "parts"])
def test_what_every_trial_would_log_is_said_before_the_search_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Class weights without effect are warned of whenever a run is made: one line for each trial told their number. So
    did what `build` logs and warns of, as by loading a model, although it resets the filters."""

    def weighted(settings: Mapping[str, Any]) -> Setup:
        logging.getLogger("another.library").warning("a new head")
        warnings.resetwarnings()
        warnings.warn("another shape", stacklevel=1)
        return replace(build(settings), criterion=nn.CrossEntropyLoss(weight=torch.tensor([0.1, 0.2, 0.3])))

    caplog.set_level(logging.DEBUG, logger="discreet")
    with_trials(monkeypatch, 3)
    with warnings.catch_warnings(record=True):
        search = tuning_of(kind, tmp_path, weighted)
    assert "the class weights of the loss" in caplog.text
    assert "a new head" in caplog.text
    caplog.clear()
    with warnings.catch_warnings(record=True) as heard:
        search.run()
    assert (caplog.text, heard) == ("", [])
    logging.getLogger("discreet").warning("and then")
    assert "and then" in caplog.text


def raw(tensor: Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


def rows(ledger: Path) -> list[tuple[Any, ...]]:
    """Everything in the ledger but times, names, seals and salts, which are of one length each."""
    books = Ledger(ledger, create=False)
    found = [(e.number, e.kind, e.dataset, e.attempt, e.position, e.steps, e.body) for e in books.entries()]
    books.close()
    drawn = r'(?<="salt":")[0-9a-f]{32}|(?<=sha256:)[0-9a-f]{64}'
    return [(*row[:-1], re.sub(drawn, "", row[-1])) for row in found]


def shape(value: Any) -> Any:
    """What is left of a certificate without the values that differ from run to run."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key != "winner"}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{32,}", "digest", value)
    return 0.0 if isinstance(value, float) else value


def test_how_many_rows_a_part_has_is_in_no_byte(tmp_path: Path) -> None:
    """Half of the rows gone: ledgers with the same rows, certificates with the same keys and whole numbers, pages of
    the same lines."""
    seen = []
    for number in (80, 160):
        folder, data = tmp_path / str(number), blobs(number)
        search = parts_tuning(folder, ledger=folder.with_suffix(".sqlite"), data=data, ids=range(number))
        publish(search.run(), folder / "out")
        facts = json.loads((folder / "out" / "certificate.json").read_text())
        pages = [len((folder / "out" / page).read_text().splitlines()) for page in ("report.html", "README.md")]
        seen.append((rows(folder.with_suffix(".sqlite")), shape(facts), facts["plan"], pages))
    assert seen[0] == seen[1]
    assert [row[1] for row in seen[0][0]] == ["run", "attempt", "reservation"]


def test_how_many_runs_there_were_is_in_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run or nine: ledgers with the same rows, certificates with the same keys and whole numbers, and
    pages of the same lines."""
    seen = []
    for number in (1, 9):
        folder = tmp_path / str(number)
        with_trials(monkeypatch, number, (4,))
        publish(tuning(folder, ledger=folder.with_suffix(".sqlite")).run(), folder / "out")
        assert not (folder / "run").exists()
        facts = json.loads((folder / "out" / "certificate.json").read_text())
        pages = [len((folder / "out" / page).read_text().splitlines()) for page in ("report.html", "README.md")]
        names = sorted(path.name for path in files(folder))
        seen.append((rows(folder.with_suffix(".sqlite")), shape(facts), pages, names))
    assert seen[0] == seen[1]
    assert [row[1] for row in seen[0][0]] == ["run", "attempt", "reservation"]


@pytest.mark.parametrize("kind", ["random_stopping", "parts"])
def test_a_layer_of_an_earlier_trial_is_refused(tmp_path: Path, kind: str) -> None:
    """The model that came out was that of the last trial, with the metrics of the best."""
    layer = nn.Linear(4, 3)

    def around(settings: Mapping[str, Any]) -> Setup:
        made = build(settings)
        model = nn.Sequential(nn.Flatten(), layer)
        return Setup(model, made.criterion, torch.optim.SGD(model.parameters(), lr=0.1))

    with pytest.raises(InputError, match=r"trains '1\.weight' of an earlier one"):
        tuning_of(kind, tmp_path, around)
    assert not list(tmp_path.rglob("ledger.sqlite"))


def test_a_scheduler_of_an_earlier_trial_is_refused(tmp_path: Path) -> None:
    """It would change the learning rate of that trial's optimizer, so that later trials were unlike the first."""
    schedulers: list[Any] = []

    def around(settings: Mapping[str, Any]) -> Setup:
        made = build(settings)
        schedulers.append(torch.optim.lr_scheduler.StepLR(made.optimizer, 1))
        return Setup(made.model, made.criterion, made.optimizer, schedulers[0])

    with pytest.raises(InputError, match="the same model, optimizer or scheduler twice"):
        tuning(tmp_path, around)
