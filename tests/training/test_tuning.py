"""Sealed searches: one charge, the best run and nothing else, and no trace of how many runs there were."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, tiny_plan, tiny_training
from searches import KINDS, LAW, build, parts_tuning, tuning, tuning_of
from torch import Tensor, nn

from discreet import BudgetExhausted, EarlyStopping, InputError, PrivacyViolation, Setup, Tuning, publish, verify
from discreet.accounting.filters import BasicFilter
from discreet.core.adjacency import Query
from discreet.core.errors import DiscreetError, Interrupted
from discreet.core.events import Gaussian
from discreet.core.trials import PoissonTrials
from discreet.ledger import Ledger
from discreet.plan import Metric
from discreet.randomness import TestStream
from discreet.training import tuning as module
from discreet.training.trained import Bought, Evaluation
from discreet.training.tuning import score_of

HELD_OUT: dict[str, Any] = {
    "plan": {"metrics": [Metric(noise=2.0, rows="holdout")], "holdout": 0.3},
    "ids": range(24),
    "score": "holdout_accuracy",
    "public_validation": None,
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def with_trials(monkeypatch: pytest.MonkeyPatch, number: int, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> None:
    """Make the number of trials what it is told to be, and go through the candidates in this order."""
    turns = itertools.cycle(order)
    monkeypatch.setattr(module, "draw_trials", lambda _law, _stream: number)
    monkeypatch.setattr(module, "uniform_index", lambda _size, _stream: next(turns))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("random_stopping", {}), ("random_stopping", HELD_OUT), ("parts", {"public_test": blobs(9, seed=1)})],
    ids=["public", "held out", "parts"],
)
def test_the_winning_run_is_published_and_verified(tmp_path: Path, kind: str, changes: dict[str, Any]) -> None:
    search = tuning_of(kind, tmp_path, **changes)
    trained = search.run()
    assert trained.winner in search.plan.search.candidates  # type: ignore[union-attr]
    guarantee = publish(trained, tmp_path / "out")
    assert guarantee == search.plan.guarantee() == search.guarantee
    verified = verify(tmp_path / "out")
    assert verified.accepted, [check for check in verified.checks if not check.passed]
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["search"]["winner"] == trained.winner
    alone, whole = facts["search"]["epsilon_of_one_run"], facts["claim"]["epsilon"]
    assert alone == whole if kind == "parts" else alone < whole
    assert facts["events"]["of"][0]["of"]["event"] == ("compose" if kind == "parts" else "selection")
    pages = [" ".join((tmp_path / "out" / page).read_text().split()) for page in ("report.html", "README.md")]
    for text in pages:
        assert ("in 5 parts, each row" if kind == "parts" else "secret number of runs") in text
        assert re.search("[Tt]uning cost", text)


def test_the_winner_is_the_best_by_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates 0 to 2 hardly move, 3 to 5 learn; whatever the order, one that learned is released."""
    for name, order in (("a", (0, 5, 1)), ("b", (5, 0, 1)), ("c", (1, 0, 4))):
        with_trials(monkeypatch, 3, order)
        plan = {"population": 300, "batch": 150, "noise_multiplier": 0.8, "steps": 30}
        trained = tuning(tmp_path / name, plan=plan, data=blobs(300), public_validation=blobs(90, seed=1)).run()
        assert trained.winner is not None
        assert trained.winner["optimizer.lr"] == 1.0


def test_every_trial_has_noise_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 3, (4,))
    models: list[nn.Module] = []
    tuning(tmp_path, recording(models)).run()
    finals = [model.state_dict()["head.weight"] for model in models[-3:]]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(finals, 2))


def recording(models: list[nn.Module]) -> Any:
    def made(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        models.append(setup.model)
        return setup

    return made


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


def test_every_trial_has_a_model_of_its_own(tmp_path: Path) -> None:
    made: list[Setup] = []

    def once(settings: Mapping[str, Any]) -> Setup:
        made.append(made[0] if made else build(settings))
        return made[-1]

    with pytest.raises(InputError, match="make new ones for every trial"):
        tuning(tmp_path, once)


def test_queries_before_the_first_step_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot begin with queries"):
        tuning(tmp_path, plan={"before": [Gaussian(20.0, Query.COUNT)]})


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
    }
    weights = [raw(model.state_dict()["head.weight"]) for model in models[-number:]]
    assert len(set(weights)) == number
    hits = [sum(weight in data for data in content.values()) for weight in weights]
    assert sorted(hits) == [0] * (number - 1) + [1]


def raw(tensor: Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


def rows(ledger: Path) -> list[tuple[Any, ...]]:
    """Everything in the ledger but times, names and seals, which are of one length each."""
    books = Ledger(ledger, create=False)
    found = [(e.number, e.kind, e.dataset, e.attempt, e.position, e.steps, e.body) for e in books.entries()]
    books.close()
    return [(*row[:-1], re.sub(r"sha256:[0-9a-f]{64}", "sha256", row[-1])) for row in found]


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


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_search_stays_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Ctrl-C in the second trial: nothing is released, the budget is spent, and there is no way on."""
    with_trials(monkeypatch, 4)
    calls = 0

    class Loss(nn.CrossEntropyLoss):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            if armed and calls == 41:
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(output, target)

    def made(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        return Setup(setup.model, Loss(), setup.optimizer)

    armed = False
    ledger = tmp_path / "shared.sqlite"
    search = tuning_of(kind, tmp_path, made, ledger=ledger, dataset_id="blobs", engine="reference")
    whole = search.guarantee
    books = Ledger(ledger)
    books.set_budget("blobs", BasicFilter(1.5 * whole.epsilon, 2 * whole.delta))
    armed, calls = True, 0
    with pytest.raises(Interrupted, match="stays charged"):
        search.run()
    armed = False
    assert books.budget("blobs")[1].epsilon == whole.epsilon
    assert [entry.kind for entry in books.entries()] == ["budget", "run", "attempt", "reservation"]
    with pytest.raises(BudgetExhausted):
        tuning_of(kind, tmp_path, ledger=ledger, dataset_id="blobs").run()
    books.close()


def test_a_search_of_its_own_cannot_go_on_in_its_folder(tmp_path: Path) -> None:
    tuning(tmp_path).run()
    with pytest.raises(InputError, match="cannot be resumed"):
        tuning(tmp_path).run()


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_that_fails_leaves_the_search_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with_trials(monkeypatch, 2)
    search, made = None, []
    rehearsed = 7 if kind == "random_stopping" else 5

    def failing(settings: Mapping[str, Any]) -> Setup:
        made.append(settings)
        if len(made) > rehearsed:
            raise RuntimeError("out of memory, say")
        return build(settings)

    search = tuning_of(kind, tmp_path, failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        search.run()
    books = Ledger(tmp_path / "run" / "ledger.sqlite", create=False)
    assert [entry.kind for entry in books.entries()] == ["run", "attempt", "reservation"]
    books.close()


def test_no_trial_at_all_is_charged_and_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "draw_trials", lambda _law, _stream: 0)
    with pytest.raises(DiscreetError, match="stays charged"):
        tuning(tmp_path, trials=PoissonTrials(2.0)).run()
    assert (tmp_path / "run" / "ledger.sqlite").exists()


def test_models_drawn_anew_start_from_one_declared_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 2, (1,))

    def drawn(settings: Mapping[str, Any]) -> Setup:
        model = nn.Linear(4, 3)
        return Setup(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=settings["optimizer.lr"]))

    search = tuning(tmp_path, drawn)
    trained = search.run()
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    assert search.plan.search is not None
    assert len(set(search.plan.search.initial_states)) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_randomness_for_tests_is_never_certified(tmp_path: Path, kind: str) -> None:
    trained = tuning_of(kind, tmp_path, start=lambda number: TestStream(number)).run()
    with pytest.raises(PrivacyViolation, match="randomness"):
        publish(trained, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": "validation_f1"}, "validation_loss, validation_accuracy"),
        ({"public_validation": None}, "none without public_validation"),
        ({"dataset_id": "blobs"}, "give ledger"),
        ({"early": EarlyStopping("training_accuracy")}, "does not buy"),
        ({"trials": PoissonTrials(1e4)}, "at most 600"),
        ({"plan": {"batch": 24, "noise_multiplier": 1e-6}}, "no finite epsilon"),
    ],
)
def test_refused_before_anything_is_charged(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tuning(tmp_path, **changes).run()
    assert not (tmp_path / "run").exists()


def test_a_candidate_that_cannot_be_trained_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    def strange(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        stray = [*setup.model.parameters(), nn.Parameter(torch.zeros(1))]
        return setup if settings["clip_norm"] < 2 else replace(setup, optimizer=torch.optim.SGD(stray, lr=1.0))

    with pytest.raises(InputError, match="optimizer"):
        tuning(tmp_path, strange)
    assert not (tmp_path / "run").exists()


def test_plans_with_and_without_a_search_go_to_their_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Tuning"):
        tiny_training(tmp_path, plan=tuning(tmp_path).plan)
    with pytest.raises(InputError, match="search"):
        Tuning(tiny_plan(), build, blobs())


def test_scores_are_higher_for_lower_losses_and_never_nan(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(progress=False)

    def scored(**metrics: float) -> float:
        return score_of(replace(trained, evaluations=(Evaluation(1, metrics),)), next(iter(metrics)), None)

    assert scored(validation_loss=1.0) == -1.0
    assert scored(validation_accuracy=0.5) == 0.5
    assert scored(validation_loss=float("nan")) == -float("inf")
    assert LAW.mean == 4


def test_a_bought_score_is_the_noisy_sum_so_that_a_small_size_wins_nothing(tmp_path: Path) -> None:
    metrics = [Metric(noise=2.0, rows="holdout"), Metric(kind="size", noise=2.0, rows="holdout")]
    trained = tiny_training(tmp_path, plan=tiny_plan(metrics=metrics, holdout=0.3), ids=range(24)).run(progress=False)

    def scored(size: float, accuracy: float) -> float:
        bought = (Bought(8, "holdout_size", size, 2.0), Bought(9, "holdout_accuracy", accuracy, 0.1))
        return score_of(replace(trained, bought=bought), "holdout_accuracy", None)

    assert scored(4.0, 1.0) < scored(10.0, 0.9)
    assert scored(10.0, 0.9) == pytest.approx(4.0)
