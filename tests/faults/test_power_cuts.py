"""A power cut at any moment of a command: what was begun goes on or one line says what is lost, what was charged stays
charged, and no half folder is published.

Order on the disk of a run: its folder; its key; its job; its name (run.json); its entry in the ledger, the first
charge under a basic budget; then the steps. A checkpoint or a published folder appears whole, or not at all.
`benchmarks/power_cuts.py` does the same by the thousand.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer
from power_commands import COMMANDS, FAST, on_postgres
from power_cuts import recorded
from power_rules import RunRule, done, inside, looked_at

from discreet import verify
from discreet.jobs.train import Job
from discreet.ledger import Ledger
from discreet.training.run import run_folder

LEAST = {"train": 40, "train, ranges bought": 40, "publish": 25, "tune": 20, "sign": 12, "ledger budget": 12}
"""So many states of the disk at least, or not all changes are seen."""


TIMES = {"ledger budget": 3}
"""A command of few writes is run so many times, with other limits; all others once."""


@pytest.mark.parametrize("name", COMMANDS)
def test_after_every_write_of_a_command(tmp_path: Path, name: str) -> None:
    cuts = 0
    for time in range(1, TIMES.get(name, 1) + 1):
        folder = tmp_path / str(time)
        folder.mkdir()
        found = COMMANDS[name](folder, random.Random(f"{time} {name}"))
        assert found.against == []
        assert found.resumed == (1 if name in ("train", "train, ranges bought", "publish") else 0)
        cuts += found.cuts
    assert cuts >= LEAST[name]


def test_after_every_write_with_a_ledger_in_postgresql(tmp_path: Path, postgres_server: PostgresServer) -> None:
    found = on_postgres(postgres_server, tmp_path, random.Random(1))
    assert found.against == []
    assert found.cuts >= LEAST["train"]
    assert found.resumed == 1


def careless_job(patch: pytest.MonkeyPatch) -> None:
    """`job.json` as it was written once: without a sync it is empty after a cut."""
    real = Job._remember

    def carelessly(self: Job) -> None:
        real(self)
        path = self.folder / "job.json"
        path.with_name("other").write_text(path.read_text())
        path.with_name("other").rename(path)

    patch.setattr(Job, "_remember", carelessly)


def careless_folders(patch: pytest.MonkeyPatch) -> None:
    """Folders whose names are not forced: a run in a new one is gone, and its charge in a shared ledger is not."""
    patch.setattr(run_folder, "make_folder", partial(Path.mkdir, parents=True, exist_ok=True))


def late_name(patch: pytest.MonkeyPatch) -> None:
    """`run.json` after the charge: in between, a run is charged that nobody can resume."""
    real = Ledger.open_run

    def opened(self: Ledger, *given: Any) -> str:
        plan, whole, dataset, own, remember, event = given
        run = real(self, plan, whole, dataset, own, event=event)
        remember(run)
        return run

    patch.setattr(Ledger, "open_run", opened)


@pytest.mark.parametrize("fault", [careless_job, careless_folders, late_name])
def test_the_simulation_finds_what_is_written_carelessly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    work, books = tmp_path / "work", ("--ledger", "books.sqlite", "--dataset-id", "digits")
    work.mkdir()
    with inside(work):
        done("ledger", "budget", *books, "--epsilon", "4", "--delta", "1e-3")
        with recorded(work, tmp_path / "cuts") as disk:
            done("train", "digits", *FAST, *books, "--out", "new/deep/model")
    found = looked_at(disk.cuts, RunRule(work, "new/deep/model", "books.sqlite", 4).check, fault.__name__)
    assert found.against
    assert len(found.against) < found.cuts


def test_a_draft_of_a_killed_process_goes_with_the_next_run(tmp_path: Path) -> None:
    """It is killed while it publishes: with a folder half written, which nobody takes for a published one."""
    program = (
        "import os, signal\n"
        "from discreet.cli.app import run\n"
        "real = os.replace\n"
        "def replace(source, target):\n"
        "    if str(target).endswith('plan.yaml'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(source, target)\n"
        "os.replace = replace\n"
        f"run({['train', 'digits', *FAST, '--out', 'model']!r})\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    (draft,) = (path for path in tmp_path.iterdir() if ".draft" in path.name)
    assert draft.is_dir()
    assert not (tmp_path / "model").exists()
    (tmp_path / "model.run" / "checkpoint.json.draft").write_bytes(b"half")
    (tmp_path / ".model.draft-of-mine").write_text("no folder of this library")
    with inside(tmp_path):
        done("train", "--resume", "model.run")
    assert verify(tmp_path / "model").accepted
    assert [path.name for path in tmp_path.rglob("*") if ".draft" in path.name] == [".model.draft-of-mine"]
