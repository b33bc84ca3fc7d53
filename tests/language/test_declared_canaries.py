"""A model that was trained with canaries says so, in its run and to both verifiers; and canaries show what is wrong."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from broken_noise import released
from digit_texts import encode, fields_of, rows_of
from language_families import inner_model, on_rows, transformers, with_lora

import discreet
from discreet.certificate.declared_canaries import DeclaredCanaries, canaries_fault
from discreet.certificate.described import Exposed, OfTexts
from discreet.certificate.model_spec import of_module
from discreet.core.errors import InputError
from discreet.integrations.huggingface import PrivateTrainer, publish_adapters
from discreet.language import TASKS, Canaries, exposures
from discreet.ledger import QUERIES, Entry
from discreet.plan import Metric
from discreet.publication import publish
from discreet.randomness import TestStream
from discreet.training import RunOptions, Trained, Training
from discreet.training.public.inserted_canaries import check_counted, declare_canaries
from discreet.verification.standalone import verify as standalone

pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")

MADE_UP = Canaries.made_up("{}", count=5, others=200, digits=5, seed=4)
EPSILON = 0.5


def training(folder: Path, steps: int, canaries: Canaries | None = MADE_UP, **options: Any) -> Training:
    """A tiny GPT-2 on five canaries and 35 other numbers, at epsilon .5."""
    torch.manual_seed(0)
    model = on_rows(inner_model("GPT-2", "causal-lm"), "causal-lm")
    plan = discreet.Plan.poisson(population=40, batch=20, steps=steps, clip_norm=1.0, delta=1e-3)
    rows = rows_of([*MADE_UP.inserted, *(f"{place:05}" for place in range(35))])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    public = discreet.PublicData(canaries=None if canaries is None else canaries.declared)
    given: dict[str, Any] = {"public": public, "engine": "bookkeeping", "run": RunOptions(folder, **options)}
    return Training(plan.calibrate(epsilon=EPSILON), model, TASKS["causal-lm"].loss(), optimizer, rows, **given)


def published(trained: Trained, folder: Path, found: tuple[Exposed, ...]) -> None:
    spec = replace(of_module(trained.model), language=OfTexts(task="causal-lm", canaries=found))
    publish(trained, folder, spec)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return training(tmp_path_factory.mktemp("runs") / "run", 2).run(progress=False)


@pytest.fixture(scope="module")
def folder(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folders") / "out"
    model: Any = trained.model
    published(trained, made, exposures(model, MADE_UP, encode))
    return made


def test_the_certificate_declares_them(folder: Path) -> None:
    facts = json.loads((folder / "certificate.json").read_text())
    assert facts["canaries"] == {"count": 5, "others": 200, "sha256": MADE_UP.declared.sha256}
    assert sum("5 of the units are canaries" in one for one in facts["assumptions"]) == 1
    (check,) = (one for one in discreet.verify(folder).checks if one.name == "canaries")
    assert (check.passed, check.detail.split(",")[0]) == (True, "5 made-up texts")
    assert "canaries: 5 of the units" in standalone.check(folder, None, strictly=True)
    for page in ("report.html", "README.md"):
        said = " ".join((folder / page).read_text().split())
        assert "they are counted among the" in said
        assert "Of the others only the number was declared" in said  # a program may choose them after training


def changed_facts(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        facts = json.loads((folder / "certificate.json").read_text())
        change(facts)
        (folder / "certificate.json").write_text(json.dumps(facts))

    return forge


def resealed(change: Callable[[dict[str, Any]], object], stated: Callable[[dict[str, Any]], object]) -> Any:
    """Change model.json, the hash of it, and the certificate."""

    def forge(folder: Path) -> None:
        described = json.loads((folder / "model.json").read_text())
        change(described)
        (folder / "model.json").write_text(json.dumps(described))
        digest = hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
        changed_facts(lambda facts: (facts["files"].update({"model.json": digest}), stated(facts)))(folder)

    return forge


def undeclared(facts: dict[str, Any]) -> None:
    """Neither the section nor the assumption."""
    facts.pop("canaries")
    facts["assumptions"] = [one for one in facts["assumptions"] if "canaries" not in one]


def instead(texts: list[str]) -> Any:
    """A folder that shows and declares these texts."""
    digest = hashlib.sha256(json.dumps(texts, separators=(",", ":")).encode()).hexdigest()

    def shown(described: dict[str, Any]) -> None:
        described["language"]["canaries"] = [{"text": text, "better": 0, "others": 200} for text in texts]

    def declared(facts: dict[str, Any]) -> None:
        facts["canaries"].update(count=len(texts), sha256=digest)
        facts["assumptions"] = [
            f"{len(texts)} of{one.partition(' of')[2]}".replace(MADE_UP.declared.sha256, digest)
            if "canar" in one
            else one
            for one in facts["assumptions"]
        ]

    return resealed(shown, declared)


def nothing(_: object) -> None: ...


FORGERIES: dict[str, Callable[[Path], None]] = {
    "nothing is said of them": changed_facts(lambda facts: facts.pop("canaries")),
    "other texts": changed_facts(lambda facts: facts["canaries"].update(sha256="0" * 64)),
    "fewer": changed_facts(lambda facts: facts["canaries"].update(count=4)),
    "as many as units": instead([f"{place:05}" for place in range(40)]),
    "others than those shown": changed_facts(lambda facts: facts["canaries"].update(others=100)),
    "one is not shown": resealed(lambda described: described["language"]["canaries"].pop(), nothing),
    "nothing is said or assumed": changed_facts(undeclared),
    "one of them five times": instead([MADE_UP.inserted[0]] * 5),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_folder_that_says_otherwise_is_rejected(name: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    FORGERIES[name](tmp_path / "out")
    found = discreet.verify(tmp_path / "out", signed=False)
    failed = {one.name: one.detail for one in found.checks if not one.passed}
    assert "canaries" in failed
    assert name != "one of them five times" or ([*failed] == ["canaries"] and "is there twice" in failed["canaries"])
    why = {"as many as units": "every unit is one", "one of them five times": "a canary is twice there"}
    with pytest.raises(standalone.Stop, match=why.get(name, "model.json shows other canaries")):
        standalone.check(tmp_path / "out", None)


def test_pages_that_still_show_them_are_not_what_the_certificate_gives(folder: Path, tmp_path: Path) -> None:
    """The standalone verifier writes no pages and cannot tell; it says so."""
    shutil.copytree(folder, tmp_path / "out")
    resealed(lambda described: described["language"].update(canaries=[]), undeclared)(tmp_path / "out")
    found = discreet.verify(tmp_path / "out", signed=False)
    assert {one.name for one in found.checks if not one.passed} == {"pages"}
    assert "report.html" in standalone.check(tmp_path / "out", None).partition("Not checked:")[2]


def test_a_text_that_is_there_twice_is_no_canary() -> None:
    with pytest.raises(InputError, match="'a 1' is there twice"):
        DeclaredCanaries.of(["a 1", "b", "a 1"], 9)


def test_no_more_are_declared_than_can_be_shown() -> None:
    assert DeclaredCanaries.of([str(number) for number in range(1000)], 9).count == 1000
    with pytest.raises(InputError, match="at most 1,000 canaries"):
        DeclaredCanaries.of([str(number) for number in range(1001)], 9)


def test_what_was_trained_on_is_what_is_shown(trained: Trained, tmp_path: Path) -> None:
    """Without exposures, with those of other texts, or of texts that were never declared, nothing is published."""
    model: Any = trained.model
    found = exposures(model, MADE_UP, encode)
    wrong = (Exposed(text="7", better=0, others=200), *found[1:])
    undeclared = replace(trained, canaries=None)
    cases = [(trained, ()), (trained, found[:4]), (trained, wrong), (undeclared, found)]
    for given, shown in cases:
        with pytest.raises(InputError, match="canaries"):
            published(given, tmp_path / "out", shown)
    assert not (tmp_path / "out").exists()


def test_they_are_counted_in_the_population(tmp_path: Path) -> None:
    many = Canaries.made_up("{}", count=40, others=200, digits=5)
    with pytest.raises(InputError, match="population counts the canaries too"):
        training(tmp_path / "run", 2, many)


def test_none_may_be_held_out(folder: Path, tmp_path: Path) -> None:
    metrics = [Metric(kind="accuracy", noise=20.0, rows="holdout")]
    plan = discreet.Plan.poisson(
        population=40, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=4.0, holdout=0.2, metrics=metrics
    )
    with pytest.raises(InputError, match="the holdout may take canaries"):
        check_counted(MADE_UP.declared, plan)
    check_counted(None, plan)
    found = OfTexts.model_validate(json.loads((folder / "model.json").read_text())["language"])
    assert canaries_fault(MADE_UP.declared.as_dict(), 40, False, found) is None
    assert "holds units out" in (canaries_fault(MADE_UP.declared.as_dict(), 40, True, found) or "")


def test_a_run_that_only_answered_queries_begins_anew_with_them_or_without(tmp_path: Path) -> None:
    """Declared, but broken off before the first attempt at a step; then without; then nobody may declare them again."""
    queries = Entry(0, "attempt", "data", "run", 0, 0, 0, json.dumps({"engine": QUERIES}), "", "", "")
    declare_canaries(tmp_path, MADE_UP.declared, [queries])
    declare_canaries(tmp_path, None, [queries])
    record = [queries, replace(queries, body='{"engine": "vmap"}')]
    declare_canaries(tmp_path, None, record)
    with pytest.raises(InputError, match="started with other canaries"):
        declare_canaries(tmp_path, MADE_UP.declared, record)


@pytest.mark.parametrize("other", [None, Canaries.made_up("{}", count=5, others=200, digits=5, seed=5)])
def test_a_run_is_gone_on_with_by_the_same_ones(other: Canaries | None, tmp_path: Path) -> None:
    begun = training(tmp_path / "run", 60)
    with begun.session() as session:
        for _ in range(50):
            with session.step() as step:
                step.add_all(begun.criterion)
        begun.save(session)
    with (
        pytest.raises(InputError, match="started with other canaries"),
        training(tmp_path / "run", 60, other, resume=True).session(),
    ):
        pass
    assert training(tmp_path / "run", 60, resume=True).run(progress=False).canaries == MADE_UP.declared.as_dict()


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_trainer_declares_them_and_adapters_show_them(evaluated: bool, tmp_path: Path) -> None:
    """The rows to evaluate on stay declared beside them."""
    pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
    rows = fields_of([*MADE_UP.inserted, *(f"{place:05}" for place in range(35))])
    trainer = PrivateTrainer(
        model=with_lora(inner_model("GPT-2", "causal-lm"), TASKS["causal-lm"]),
        args=transformers.TrainingArguments(output_dir=str(tmp_path / "hf"), report_to=[], use_cpu=True),
        train_dataset=rows,
        eval_dataset=fields_of(["90001", "90002"]) if evaluated else None,
        plan=discreet.Plan.poisson(population=40, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=4.0),
        options={"run": tmp_path / "run", "public": discreet.PublicData(canaries=MADE_UP.declared)},
    )
    trained = trainer.train()
    assert trained.canaries == MADE_UP.declared.as_dict()
    assert bool(trained.evaluations) is evaluated
    model: Any = trained.model
    for wrong in ((), ({"text": 3},)):
        with pytest.raises(InputError, match="canaries"):
            publish_adapters(trained, tmp_path / "out", base="tiny", canaries=wrong)
    publish_adapters(trained, tmp_path / "out", base="tiny", canaries=exposures(model, MADE_UP, encode))
    assert discreet.verify(tmp_path / "out").accepted
    assert "canaries: 5 of the units" in standalone.check(tmp_path / "out", None, strictly=True)


def known(folder: Path, *, noise: bool) -> int:
    """How many of the five canaries are among the first ten of 201 texts after training, with fixed randomness."""
    lost = contextlib.nullcontext() if noise else released(lambda name, total, noise, receipt: 0 * noise)
    with lost:
        model: Any = training(folder, 100, stream=TestStream(1)).run(progress=False).model
    return sum(one.better < 10 for one in exposures(model, MADE_UP, encode))


def test_a_mechanism_without_noise_is_seen(tmp_path: Path) -> None:
    """Without noise all five are known; as it should be, fewer than three.

    By the guarantee alone one is among the first ten with probability at most e^.5 10 / 201 + .001 = .083, so three of
    five are with at most 5 x .083 / 3 = .14 (Markov). Randomness is fixed, so a sound build passes always.
    """
    assert known(tmp_path / "broken", noise=False) == 5
    assert known(tmp_path / "sound", noise=True) < 3
