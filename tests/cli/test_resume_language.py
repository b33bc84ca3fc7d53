"""Runs of language models that were broken off, and what `discreet train --resume` does with them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from review_files import write_reviews
from tiny_model_folder import BUDGET, FEW, model_folder

from discreet.cli.app import run
from discreet.training import training as training_module

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_run_that_was_broken_off_is_gone_on_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was begun: the same plan, the same adapters at the start, title and folder; no step is charged again.
    What is said again is the same, or refused."""
    from discreet.jobs.language.language_run import LanguageJob

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    command = ["train", "reviews.csv", "--text", "review", "--unit", "row", "--model", "tiny", "--lora", "2"]
    begun = [*command, *BUDGET, *FEW, "--title", "Films", "--out", "films"]
    with monkeypatch.context() as patch:
        patch.setattr(LanguageJob, "_published", broken)
        assert run(begun) == 130
        assert run([*begun, "--resume", "elsewhere"]) == 2
        assert "it is no run of a language model" in capsys.readouterr().err
        resumed = ["train", "--resume", "films.run"]
        Path("others.csv").write_bytes(Path("reviews.csv").read_bytes())
        for changed, said in (
            (["--set", "learning_rate=0.1"], "learning_rate"),
            (["--length", "6"], "--length 8, not 6"),
            (["--epsilon", "9"], "--epsilon"),
            (["--title", "Other"], "--title Films, not Other"),
            (["--out", "elsewhere"], "--out"),
            (["others.csv"], "was begun with file"),
            (["--finish"], "--finish is not for a language model; leave it out"),
            (["--schema", "s.yaml"], "--schema is not for a language model"),
        ):
            assert run([*resumed, *changed]) == 2
            assert said in capsys.readouterr().err
        assert run([*begun, "--resume", "films.run"]) == 130, capsys.readouterr().err
    assert run(["train", "--resume", "films"]) == 0, capsys.readouterr().err
    assert run(["verify", "films", "--strict"]) == 0
    assert json.loads(Path("films/certificate.json").read_text())["charged_steps"] == 2
    assert "# Films" in Path("films/README.md").read_text()


def test_an_interruption_names_the_command_that_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stop_requests() -> Iterator[Any]:
        yield lambda: signal.SIGINT

    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    with monkeypatch.context() as patch:
        patch.setattr(training_module, "stop_requests", stop_requests)
        command = ["train", "reviews.csv", "--text", "review", "--unit", "row", "--model", "tiny"]
        assert run([*command, *BUDGET, *FEW]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("; go on with --resume reviews-private.run")
    assert run(["train", "--resume", "reviews-private.run"]) == 0, capsys.readouterr().err


def test_classes_of_a_public_table_must_be_what_they_were(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.jobs.language.language_run import LanguageJob

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    Path("public.csv").write_text("review,kind\na film,n\na good film,p\n")
    command = ["train", "reviews.csv", "--text", "review", "--target", "kind", "--task", "classification"]
    with monkeypatch.context() as patch:
        patch.setattr(LanguageJob, "_published", broken)
        assert run([*command, "--unit", "row", "--model", "tiny", "--test", "public.csv", *BUDGET, *FEW]) == 130
    kept = Path("public.csv").read_text()
    Path("public.csv").write_text(kept + "a bad film,z\n")
    assert run(["train", "--resume", "reviews-private.run"]) == 2
    assert "was begun with other classes than n, p, z" in capsys.readouterr().err
    Path("public.csv").write_text(kept)
    assert run(["train", "--resume", "reviews-private.run"]) == 0, capsys.readouterr().err


def test_a_key_that_was_left_is_destroyed_by_resuming(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from discreet.publication import publishing

    def broken(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    write_reviews("reviews.csv")
    model_folder(Path("tiny"))
    command = ["train", "reviews.csv", "--text", "review", "--unit", "row", "--model", "tiny", *BUDGET, *FEW]
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_destroy", broken)
        assert run(command) == 2
    assert "is not destroyed" in capsys.readouterr().err
    assert Path("reviews-private.run/key").exists()
    assert run(["train", "--resume", "reviews-private.run"]) == 0
    assert "the key of its noise, which was left, is destroyed now" in capsys.readouterr().out
    assert not Path("reviews-private.run/key").exists()
