"""Runs that start from weights of other private runs: their certificates name those runs."""

from __future__ import annotations

import copy
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from forging import forged, put
from problems import certified_run, linear, tiny_training
from safetensors.torch import load_file
from searches import build, tuning
from torch import nn
from warm_runs import again, in_another_process, names

from discreet import publish, verify
from discreet.core.errors import InputError
from discreet.methods import Averaging
from discreet.randomness import TestStream
from discreet.training import Training
from discreet.training.public import warm_starts
from discreet.verification.standalone import verify as reviewer


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    in_another_process(monkeypatch)


def begin(training: Training) -> None:
    """A first block of steps, and a checkpoint."""
    with training.session() as session:
        while not session.between_blocks or session.position == 0:
            with session.step() as step:
                step.add_all(training.criterion)
        training.save(session)


def test_the_certificate_names_the_run_and_everyone_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    first = certified_run(tmp_path / "1", model=linear())
    assert first.warm_start == ()
    assert not any("starts from" in one for one in caplog.messages)
    second = certified_run(tmp_path / "2", model=again(first.model))
    run = first.entries[0].run
    assert names(second) == [run]
    said = next(one for one in caplog.messages if "starts from" in one)
    assert run in said
    assert "adds up" in said
    folder = tmp_path / "published"
    publish(second, folder)
    facts = json.loads((folder / "certificate.json").read_text())
    epsilon = first.plan.guarantee().epsilon
    named = {"run": run, "epsilon": epsilon, "delta": 1e-5, "adjacency": "add_remove", "unit": "example"}
    assert facts["warm_start"] == [named]
    answer = verify(folder)
    assert answer.accepted
    assert f"come on top: {run} (epsilon at most" in answer.summary
    assert answer.claim is not None
    assert [line.startswith(f"{run} (epsilon at most") for line in answer.claim["on_top"]] == [True]
    assert reviewer.main([str(folder)]) == 0
    assert "what they cost comes on top" in capsys.readouterr().out
    for page in ("report.html", "README.md"):
        assert run in (folder / page).read_text()


def test_nobody_can_leave_the_section_out(tmp_path: Path) -> None:
    first = certified_run(tmp_path / "1", model=linear())
    folder = tmp_path / "published"
    publish(certified_run(tmp_path / "2", model=again(first.model)), folder)
    forged(folder, lambda facts: facts.pop("warm_start"))
    assert not verify(folder).accepted
    assert reviewer.main([str(folder)]) == 1
    forged(folder, put("warm_start", value=[]))
    assert not verify(folder).accepted
    assert reviewer.main([str(folder)]) == 1


def test_weights_read_by_other_means_are_known_in_this_process_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threat model says so."""
    publish(certified_run(tmp_path / "1", model=linear()), tmp_path / "published")
    model = linear(1)
    model.load_state_dict(load_file(tmp_path / "published" / "model.safetensors"))
    assert len(names(certified_run(tmp_path / "2", model=copy.deepcopy(model)))) == 1
    in_another_process(monkeypatch)
    assert names(certified_run(tmp_path / "3", model=model)) == []


def test_one_tensor_is_enough(tmp_path: Path) -> None:
    """A trained body below a new head, frozen or not."""
    first = certified_run(tmp_path / "1", model=linear())
    body = again(first.model)
    for one in body.parameters():
        one.requires_grad_(False)
    assert names(certified_run(tmp_path / "2", model=nn.Sequential(body, nn.Linear(3, 3)))) == [first.entries[0].run]


def test_what_a_run_has_not_moved_is_not_its_release(tmp_path: Path) -> None:
    body = linear()
    for one in body.parameters():
        one.requires_grad_(False)
    certified_run(tmp_path / "1", model=nn.Sequential(body, nn.Linear(3, 3)))
    assert names(certified_run(tmp_path / "2", model=linear())) == []


def test_a_run_that_failed_leaves_its_weights_in_the_model(tmp_path: Path) -> None:
    model = linear()
    training = tiny_training(tmp_path / "1", model=model, stream=None)

    def fail() -> None:
        raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"), training.session() as session:
        training.take_steps(session, fail, 7, None)
    assert session.position == 1
    assert names(certified_run(tmp_path / "2", model=model)) == [session.run]


def test_a_resume_that_is_refused_leaves_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = tiny_training(tmp_path / "1", model=linear(), stream=None)
    begin(training)
    in_another_process(monkeypatch)
    model = linear()
    with pytest.raises(InputError, match="noise"):
        tiny_training(tmp_path / "1", model=model, stream=None, resume=True, noise="exact").run()
    assert not torch.equal(model.state_dict()["weight"], linear().state_dict()["weight"])
    assert names(certified_run(tmp_path / "2", model=model)) == [training.folder.run]


@pytest.mark.parametrize("wrong", ["meta", "note"])
def test_the_error_of_a_loop_is_heard_whatever_it_leaves(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    training = tiny_training(tmp_path / "1", model=linear(), stream=None)

    def fail() -> None:
        if wrong == "meta":
            training.model.to("meta")
        else:
            (training.folder.path / "warm_start.json").write_text("{")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), training.session() as session:
        training.take_steps(session, fail, 7, None)
    assert "will not know" in caplog.messages[-1]


def test_a_session_without_a_step_leaves_the_first_weights(tmp_path: Path) -> None:
    model = linear()
    with tiny_training(tmp_path / "1", model=model, stream=None).session():
        pass
    assert names(certified_run(tmp_path / "2", model=model)) == []


def test_whoever_goes_on_with_the_run_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = certified_run(tmp_path / "1", model=linear())
    start = again(first.model)
    begin(tiny_training(tmp_path / "2", model=again(start), stream=None))
    in_another_process(monkeypatch)  # as in another process, which has read the weights from a file
    resumed = tiny_training(tmp_path / "2", model=start, stream=None, resume=True).run()
    assert names(resumed) == [first.entries[0].run]


def test_a_damaged_note_is_an_error(tmp_path: Path) -> None:
    for content in ("{", "[1]", '[{"run": "a"}]', "{}", "null"):
        (tmp_path / "warm_start.json").write_text(content)
        with pytest.raises(InputError, match="cannot read"):
            warm_starts.kept(tmp_path)


def test_noise_that_can_be_repeated_has_no_epsilon(tmp_path: Path) -> None:
    first = tiny_training(tmp_path / "1", model=linear(), stream=TestStream(3)).run()
    second = certified_run(tmp_path / "2", model=again(first.model))
    assert [one.epsilon for one in second.warm_start] == [None]
    publish(second, tmp_path / "published")
    assert "no finite epsilon" in verify(tmp_path / "published").summary
    assert reviewer.main([str(tmp_path / "published")]) == 0


def test_a_search_says_it_once_and_its_model_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = certified_run(tmp_path / "1")

    def warm(settings: Any) -> Any:
        made = build(settings)
        made.model.load_state_dict(first.model.state_dict())
        return made

    found = tuning(tmp_path / "2", warm).run()
    assert names(found) == [first.entries[0].run]
    assert sum("starts from" in one for one in caplog.messages) == 1  # not for each of a secret number of trials
    third = certified_run(tmp_path / "3", model=copy.deepcopy(found.model))
    assert names(third) == sorted([first.entries[0].run, found.entries[0].run])


def test_the_note_of_a_run_is_private_and_the_warning_names_no_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    first = certified_run(tmp_path / "1", model=linear())
    certified_run(tmp_path / "2", model=again(first.model))
    assert os.stat(tmp_path / "2" / "run").st_mode & 0o077 == 0
    assert str(tmp_path) not in next(one for one in caplog.messages if "starts from" in one)


def test_an_average_and_the_last_iterate_are_both_known(tmp_path: Path) -> None:
    model = linear()
    first = certified_run(tmp_path / "1", model=model, averaging=Averaging(decay=0.9))
    assert not torch.equal(first.model.state_dict()["weight"], model.state_dict()["weight"])
    for number, start in enumerate((first.model, model), 2):
        assert names(certified_run(tmp_path / str(number), model=again(start))) == [first.entries[0].run]
