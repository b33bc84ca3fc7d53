"""`discreet train --resume`: a run that was stopped goes on, is finished early, or is refused."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from npz_recipes import RECIPE, SHARED, as_is, budget, refused, write

from discreet.cli.app import run
from discreet.ledger import Ledger
from discreet.plan import Plan
from discreet.publication import publishing
from discreet.training import training as training_module


@contextmanager
def stopping_after(steps: int) -> Iterator[None]:
    """Runs of `discreet train` are asked to stop, as by Ctrl-C, once they have taken so many steps."""

    @contextmanager
    def stop_requests() -> Iterator[Callable[[], int | None]]:
        taken = itertools.count(1)
        yield lambda: signal.SIGINT if next(taken) >= steps else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "stop_requests", stop_requests)
        yield


def interrupted(capsys: pytest.CaptureFixture[str], *options: str) -> None:
    """A run of 60 steps, charged in blocks of 50, that was stopped after ten of them."""
    with stopping_after(10):
        assert run([*write({"steps": 60, "evaluate_every": 5}), "--out", "out", *options]) == 128 + signal.SIGINT
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("discreet: stopped after step 10 of 60 (charged with it and lost: 40 more); ")
    assert "--resume out.run --finish" in err
    assert not Path("out").exists()
    assert Path("out.run/checkpoint.json").exists()
    assert run(["verify", "out"]) == 2
    said = "there is no out yet; finish its run first: discreet train --resume out.run"
    assert capsys.readouterr().err == f"discreet: {said}\n"


def test_blocks_of_a_recipe_say_what_an_interruption_loses(capsys: pytest.CaptureFixture[str]) -> None:
    with stopping_after(10):
        assert run([*write({"steps": 60, "block": 4}), "--out", "out"]) == 128 + signal.SIGINT
    assert "stopped after step 10 of 60 (charged with it and lost: 2 more); " in capsys.readouterr().err
    assert run(["train", "--resume", "out.run"]) == 0
    assert json.loads(Path("out/certificate.json").read_text())["charged_steps"] == 60


def charged(ledger: str = "out.run/ledger.sqlite") -> int:
    opened = Ledger(ledger)
    try:
        opened.verify()
        return sum(entry.steps for entry in opened.entries())
    finally:
        opened.close()


@pytest.mark.parametrize("folder", ["out.run", "out"])
def test_resume_goes_on_to_the_end(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    assert run(["train", "--resume", folder, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == charged() == 60
    certificate = json.loads(Path("out/certificate.json").read_text())
    steps = [evaluation["step"] for evaluation in certificate["public_evaluations"]]
    assert steps == [5, 10, 55, 60]  # 11 to 50 were charged and are lost
    assert [one["attempt"] for one in certificate["ledger"]["entries"] if one["kind"] == "attempt"] == [0, 1]
    assert run(["verify", "out"]) == 0


def test_finish_publishes_what_there_is_under_the_whole_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    assert charged() == 50
    assert run(["train", "--resume", "out.run", "--finish", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == charged() == 50
    certificate = json.loads(Path("out/certificate.json").read_text())
    plan = Plan.model_validate(certificate["plan"])
    assert facts["epsilon"] == certificate["claim"]["epsilon"] == plan.guarantee().epsilon
    assert plan.steps == 60
    assert certificate["charged_steps"] == 50
    assert [evaluation["step"] for evaluation in certificate["public_evaluations"]] == [5, 10]
    assert facts["public_test"].keys() == {"loss", "accuracy", "baseline accuracy"}
    assert run(["verify", "out"]) == 0
    assert not Path("out.run/key").exists()
    assert not Path("out.run/checkpoint.json").exists()
    capsys.readouterr()
    for options in ([], ["--finish"]):
        assert run(["train", "--resume", "out.run", *options]) == 2
        assert "it is published" in capsys.readouterr().err
    Path("out").rename("elsewhere")
    assert run(["train", "--resume", "out.run"]) == 2
    assert "is published" in capsys.readouterr().err


def test_a_key_that_could_not_be_destroyed_is_destroyed_by_the_next_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Not that of another run, though, and not if what is published was changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "destroy_key", broken)
        assert run([*write({"steps": 60, "evaluate_every": 5}), "--out", "out"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "out is published, but" in err
        assert "key is not destroyed (Input/output error)" in err
        assert "discreet train --resume" in err
        assert run(["train", "--resume", "out.run"]) == 2
        assert "is not destroyed" in capsys.readouterr().err
    card = Path("out/README.md").read_text()
    Path("out/README.md").write_text(card + "more")
    named = Path("out.run/run.json").read_text()
    assert run(["train", "--resume", "out.run"]) == 2
    Path("out/README.md").write_text(card)
    Path("out.run/run.json").write_text(named.replace('"run": "', '"run": "f'))
    assert run(["train", "--resume", "out.run"]) == 2
    assert capsys.readouterr().err.count("exists already") == 2
    assert Path("out.run/key").exists()
    Path("out.run/run.json").write_text(named)
    assert run(["train", "--resume", "out.run"]) == 0
    assert "published before" in capsys.readouterr().out
    assert not Path("out.run/key").exists()
    assert not Path("out.run/checkpoint.json").exists()
    assert run(["verify", "out"]) == 0


def broken(_: Path) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


SAID_AGAIN: dict[str, tuple[list[str], str]] = {
    "epsilon": (["--epsilon", "0.5"], "was begun with epsilon="),
    "a setting": (["--set", "steps=61"], "was begun with steps=60, not steps=61"),
    "the folder": (["--out", "x"], "was begun with --out "),
    "a title": (["--title", "Mine"], "was begun with --title None, not --title Mine"),
    "another recipe": (["digits"], "was begun with "),
    "a table without its schema": (["t.csv"], "as it was begun: discreet train --resume out.run (t.csv is"),
    "other data": (["--data", "other.npz"], "was begun with --data"),
    "a schema without its table": (["--schema", "s.yaml"], "if the table is named too"),
    "a data set of another ledger": (["--dataset-id", "x"], "leave out --dataset-id"),
    "another ledger": (["--ledger", "x.sqlite"], "leave out --dataset-id, --ledger"),
}


@pytest.mark.parametrize("case", SAID_AGAIN)
def test_what_is_said_again_and_differs_is_refused(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    given, said = SAID_AGAIN[case]
    interrupted(capsys)
    kept = charged()
    Path("t.csv").write_text("age,ill\n50,1\n")
    assert run(["train", "--resume", "out.run", *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "leave" in err
    assert charged() == kept


def test_a_ledger_that_the_environment_names_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other runs use it; this one goes on with its own."""
    interrupted(capsys)
    monkeypatch.setenv("DISCREET_LEDGER", "other.sqlite")
    assert run(["train", "--resume", "out.run"]) == 0, capsys.readouterr().err
    assert charged() == 60
    assert not Path("other.sqlite").exists()


def test_what_is_said_again_and_is_the_same_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of it, and the whole command."""
    interrupted(capsys)
    with stopping_after(4):
        assert run(["train", "--resume", "out.run", "--set", "steps=60", "--out", "./out"]) == 130
    whole = [*write({"steps": 60, "evaluate_every": 5}), "--out", "out"]
    assert run([*whole, "--resume", "out.run"]) == 0, capsys.readouterr().err
    assert charged() == 60


def test_a_run_may_be_stopped_twice(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    with stopping_after(4):
        assert run(["train", "--resume", "out.run"]) == 130
    assert "stopped after step 54 of 60" in capsys.readouterr().err
    assert run(["train", "--resume", "out.run"]) == 0
    assert charged() == 60


def test_resuming_with_a_shared_ledger_is_charged_to_the_budget_once(capsys: pytest.CaptureFixture[str]) -> None:
    budget(4.0)
    interrupted(capsys, *SHARED)
    assert run(["train", "--resume", "out.run"]) == 0
    assert charged("shared.sqlite") == 60
    opened = Ledger("shared.sqlite")
    assert opened.budget("patients")[1].runs == 1
    opened.close()


def no_job() -> None:
    Path("out.run").mkdir()


def job_of(text: str) -> Callable[[], None]:
    def prepare() -> None:
        Path("out.run").mkdir()
        Path("out.run/job.json").write_text(text)

    return prepare


WHOLE = {"recipe": RECIPE, "data": "mine.npz", "target": "out"}


NONSENSE: dict[str, tuple[Callable[[], None], list[str]]] = {
    "no folder": (as_is, ["out.run", "not the folder of a run"]),
    "empty folder": (no_job, ["out.run", "not the folder of a run"]),
    "not JSON": (job_of("{["), ["out.run", "not the folder of a run"]),
    "list": (job_of("[]"), ["out.run", "not the folder of a run"]),
    "no target": (job_of(json.dumps({"recipe": RECIPE, "data": None})), ["out.run", "not the folder of a run"]),
    "strange recipe": (job_of(json.dumps(WHOLE | {"recipe": RECIPE | {"steps": -1}})), ["job.json", "steps"]),
    "never started": (job_of(json.dumps(WHOLE)), ["out.run", "no run that can be resumed"]),
}


@pytest.mark.parametrize("case", NONSENSE)
@pytest.mark.parametrize("options", [[], ["--finish"]], ids=["", "finish"])
def test_nonsense_cannot_be_resumed(case: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    prepare, words = NONSENSE[case]
    write()
    prepare()
    refused(["train", "--resume", "out.run", *options], words, capsys)


def test_a_resumed_run_whose_checkpoint_is_garbage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    Path("out.run/checkpoint.json").write_bytes(b"garbage")
    assert run(["train", "--resume", "out.run"]) == 2
    err = capsys.readouterr().err
    assert "checkpoint" in err
    assert err.count("\n") == 1
    assert charged() == 50


def test_a_resumed_run_with_another_recipe_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    job = json.loads(Path("out.run/job.json").read_text())
    job["recipe"]["steps"] = 61
    Path("out.run/job.json").write_text(json.dumps(job))
    assert run(["train", "--resume", "out.run"]) == 2
    assert "differs" in capsys.readouterr().err
    assert charged() == 50
