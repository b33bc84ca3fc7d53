"""Folders with keys and ledgers are ignored by git from the start; what is published is not."""

import shutil
import subprocess
from pathlib import Path

import pytest
from problems import blobs, certified_run, tiny_plan, tiny_training
from searches import KINDS, tuning_of, with_trials
from torch import nn

from discreet import publish
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.queries import Count, release
from discreet.training import answered_first


def ignores_everything(folder: Path) -> bool:
    lines = (folder / ".gitignore").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")] == ["*"]


def test_the_folder_of_a_run_ignores_itself_and_the_published_one_does_not(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    assert ignores_everything(tmp_path / "run")
    publish(trained, tmp_path / "out")
    assert ignores_everything(tmp_path / "run")  # the ledger is still there
    assert not (tmp_path / "out" / ".gitignore").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_so_does_the_folder_of_a_search(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 1)
    publish(tuning_of(kind, tmp_path).run(), tmp_path / "out")
    assert (tmp_path / "run" / "ledger.sqlite").exists()
    assert ignores_everything(tmp_path / "run")
    assert not (tmp_path / "out" / ".gitignore").exists()


def test_so_does_that_of_a_run_that_answers_queries_first(tmp_path: Path) -> None:
    plan = tiny_plan(before=(Gaussian(8.0, Query.COUNT),))
    with answered_first(plan, nn.Linear(4, 3), tmp_path / "run") as account:
        assert ignores_everything(tmp_path / "run")  # before anything is charged
        release(blobs()[0].numpy(), [Count()], account, 8.0)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_adds_nothing_of_it(tmp_path: Path) -> None:
    tiny_training(tmp_path).run()
    (tmp_path / "train.py").write_text("import discreet\n")
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    listed = subprocess.run(["git", "-C", str(tmp_path), "ls-files"], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["train.py"]


def test_a_file_in_the_place_of_a_run_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=r"there can be no run folder .*run, as a file is in its place"):
        tiny_training(tmp_path).run()
