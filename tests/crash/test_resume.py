"""Resuming from what an operator may find on the disk, and faults that these tests must be able to find."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from crash_runs import CRASH, PHASES, STEPS, findings, journal
from crash_server import Server

from discreet import verify
from discreet.ledger import Ledger

STOP = ("noise: before", 5)  # in the second block, with a checkpoint after the first


def keep(folder: Path) -> Path:
    """A copy of everything in the run folder, as a backup would have it."""
    copy = folder / "backup"
    shutil.copytree(folder / "run", copy)
    return copy


def restore(folder: Path, names: tuple[str, ...] | None = None) -> None:
    """Put the backup back: all of it, or some files."""
    if names is None:
        shutil.rmtree(folder / "run")
        shutil.copytree(folder / "backup", folder / "run")
        return
    for old in (folder / "run").glob("ledger.sqlite*" if "ledger.sqlite" in names else "checkpoint*"):
        old.unlink()
    for name in names:
        for file in (folder / "backup").glob(f"{name}*"):
            shutil.copy(file, folder / "run")


def without_checkpoint(folder: Path) -> None:
    for file in (folder / "run").glob("checkpoint*"):
        file.unlink()


def test_an_old_checkpoint_is_safe(server: Server, tmp_path: Path) -> None:
    """Charges go on where they were, with other noise; only the work of the lost steps is lost."""
    assert server(tmp_path, fault=STOP)[0] == CRASH
    keep(tmp_path)
    assert server(tmp_path, resume=True, fault=("noise: before", 2))[0] == CRASH
    restore(tmp_path, ("checkpoint",))
    assert server(tmp_path, resume=True)[0] == 0
    found = findings(tmp_path)
    assert found.faults == {}
    assert found.charged == STEPS


def test_without_its_checkpoint_a_run_begins_from_its_first_model_and_pays_on(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path, fault=STOP)[0] == CRASH
    without_checkpoint(tmp_path)
    assert server(tmp_path, resume=True, publish=True)[0] == 0
    assert findings(tmp_path).faults == {}
    assert verify(tmp_path / "out").accepted


@pytest.mark.parametrize("change", [{"rate": 0.01}, {"rows": 23}], ids=["learning rate", "data"])
def test_what_privacy_does_not_depend_on_may_change(server: Server, tmp_path: Path, change: dict[str, float]) -> None:
    assert server(tmp_path, fault=STOP)[0] == CRASH
    code, said = server(tmp_path, resume=True, publish=True, **change)
    assert code == 0, said
    found = findings(tmp_path)
    assert found.faults == {}
    assert found.charged == STEPS
    assert verify(tmp_path / "out").accepted


@pytest.mark.parametrize("with_checkpoint", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "plan or the initial model differs"),
        ({"phases": [(1.9, 3), *PHASES[1:]]}, "plan or the initial model differs"),
        ({"phases": [*PHASES, (1.0, 1)]}, "plan or the initial model differs"),
        ({"block": 2}, "plan or the initial model differs"),
        ({"delta": 1e-6}, "plan or the initial model differs"),
        ({"engine": "exact"}, "started with engine 'bookkeeping'"),
        ({"noise": "exact"}, "started with engine 'bookkeeping', float_bits 20, noise 'fast'"),
        ({"test_stream": True}, "randomness 'system'"),
    ],
    ids=["model", "multiplier", "more steps", "block", "delta", "engine", "noise", "randomness"],
)
def test_what_the_claim_rests_on_may_not_change(
    server: Server, tmp_path: Path, change: dict[str, object], message: str, with_checkpoint: bool
) -> None:
    assert server(tmp_path, fault=STOP)[0] == CRASH
    if not with_checkpoint:
        without_checkpoint(tmp_path)
    before, released = findings(tmp_path).charged, journal(tmp_path)
    code, said = server(tmp_path, resume=True, **change)
    assert code == 1
    assert said.startswith("InputError")
    assert message in said
    assert findings(tmp_path).charged == before
    assert journal(tmp_path) == released
    assert server(tmp_path, resume=True)[0] == 0  # and as it was, it goes on
    assert findings(tmp_path).faults == {}


def test_releases_of_public_noise_are_never_certified(server: Server, tmp_path: Path) -> None:
    """A run that began with a test stream cannot be finished with a real one and pass as that."""
    assert server(tmp_path, fault=STOP, test_stream=True)[0] == CRASH
    code, said = server(tmp_path, resume=True, publish=True)
    assert code == 1
    assert "randomness 'test'" in said
    assert not (tmp_path / "out").exists()


def test_resuming_after_publishing_is_refused(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path, publish=True)[0] == 0
    code, said = server(tmp_path, resume=True)
    assert code == 1
    assert "is published" in said


def test_a_finished_run_charges_nothing_more(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path)[0] == 0
    assert server(tmp_path, resume=True, publish=True)[0] == 0
    found = findings(tmp_path)
    assert (found.charged, found.released, found.faults) == (STEPS, STEPS, {})


# Ledgers that went back in time -------------------------------------------------------------------------------------


def test_a_ledger_older_than_the_checkpoint_is_refused(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path, fault=STOP)[0] == CRASH
    keep(tmp_path)
    assert server(tmp_path, resume=True, fault=("rename checkpoint.json: after", 2))[0] == CRASH
    restore(tmp_path, ("ledger.sqlite",))
    released = journal(tmp_path)
    code, said = server(tmp_path, resume=True)
    assert code == 1
    assert said.startswith("LedgerError")
    assert "older copy" in said
    assert journal(tmp_path) == released


def test_last_rows_that_were_cut_are_noticed_by_the_checkpoint(server: Server, tmp_path: Path) -> None:
    """The chain alone cannot see that its end is missing."""
    assert server(tmp_path, fault=("reserve: begin", 3))[0] == CRASH  # two blocks, two checkpoints
    cut(tmp_path / "run" / "ledger.sqlite", 2)
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    ledger.verify()
    ledger.close()
    code, said = server(tmp_path, resume=True)
    assert code == 1
    assert "the checkpoint has 6 steps but the ledger" in said
    assert "charged 3" in said


def cut(path: Path, rows: int) -> None:
    """Delete the last rows."""
    connection = sqlite3.connect(path)
    connection.execute(
        "DELETE FROM discreet_entries WHERE number > (SELECT max(number) FROM discreet_entries) - ?", (rows,)
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("lost", ["ledger.sqlite", "ledger.sqlite-wal"])
def test_a_ledger_that_is_gone_is_not_made_anew(server: Server, tmp_path: Path, lost: str) -> None:
    """After a kill, charges may be in the write-ahead log only; a copy without it is an old copy."""
    assert server(tmp_path, fault=STOP)[0] == CRASH
    assert (tmp_path / "run" / "ledger.sqlite-wal").stat().st_size > 0
    (tmp_path / "run" / lost).unlink()
    released = journal(tmp_path)
    code, said = server(tmp_path, resume=True)
    assert code == 1
    assert said.startswith("LedgerError")
    assert journal(tmp_path) == released
    assert (tmp_path / "run" / "ledger.sqlite").exists() == (lost != "ledger.sqlite")


@pytest.mark.parametrize("place", ["reserve: after commit", "noise: after", "optimizer: after"])
def test_a_whole_backup_repeats_charges_but_never_noise(server: Server, tmp_path: Path, place: str) -> None:
    """Ledger and checkpoint from one backup agree, so nothing on the disk tells that releases were made since.

    That costs more than the ledger says (each lost charge is counted here), but the noise differs.
    """
    assert server(tmp_path, fault=(place, 2))[0] == CRASH
    keep(tmp_path)
    for _ in range(2):
        assert server(tmp_path, resume=True)[0] == 0
        restore(tmp_path)
    assert server(tmp_path, resume=True)[0] == 0
    found = findings(tmp_path)
    assert found.reused == 0
    assert found.out_of_order == 0
    assert found.under_charge == found.released - len({release["position"] for release in journal(tmp_path)}) > 0


# Planted faults: would these tests notice? --------------------------------------------------------------------------


def test_planted_attempt_keys_without_fresh_bytes(server: Server, tmp_path: Path) -> None:
    plant = "key without fresh bytes"
    assert server(tmp_path, fault=STOP, plant=plant)[0] == CRASH
    keep(tmp_path)
    assert server(tmp_path, resume=True, plant=plant)[0] == 0
    assert findings(tmp_path).reused == 0  # the attempt's number keeps them apart, until a backup takes it back
    restore(tmp_path)
    assert server(tmp_path, resume=True, plant=plant)[0] == 0
    assert findings(tmp_path).reused > 0


def test_planted_position_of_the_checkpoint(server: Server, tmp_path: Path) -> None:
    plant = "position of the checkpoint"
    assert server(tmp_path, fault=STOP, plant=plant)[0] == CRASH
    assert findings(tmp_path).faults == {}
    server(tmp_path, resume=True, plant=plant)
    assert findings(tmp_path).faults.keys() >= {"under_charge"}


def test_planted_reserve_that_does_not_commit(server: Server, tmp_path: Path) -> None:
    assert server(tmp_path, fault=STOP, plant="reserve without commit")[0] == CRASH
    found = findings(tmp_path)
    assert found.charged == 0
    assert found.under_charge == found.released == 4
