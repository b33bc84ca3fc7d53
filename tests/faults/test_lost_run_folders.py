"""A run folder that goes while the run is going on: one line, exit code 2, and what was charged stays charged."""

import errno
import io
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from power_commands import FAST

from discreet.cli.app import run
from discreet.distributed.ranks import Ranks
from discreet.ledger import Ledger
from discreet.training.run import checkpoint, checkpoint_files


@pytest.mark.parametrize("left", ["nothing", "a file", "no ledger"])
def test_a_run_folder_that_goes_meanwhile_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], left: str
) -> None:
    """It goes after the first charge and before a checkpoint."""
    monkeypatch.chdir(tmp_path)
    real, folder = checkpoint_files.write_durably, tmp_path / "model.run"

    def gone(path: Path, write: Any, mode: int, **more: Any) -> None:
        if left == "no ledger":
            real(path, write, mode, **more)
            for one in folder.glob("ledger.sqlite*"):
                one.unlink()
            return
        shutil.rmtree(folder)
        if left == "a file":
            folder.write_text("another program's")
        real(path, write, mode, **more)

    monkeypatch.setattr(checkpoint_files, "write_durably", gone)
    books = tmp_path / "team.sqlite"
    shared = ("--ledger", str(books), "--dataset-id", "digits") if left != "no ledger" else ()
    assert run(["train", "digits", *FAST, *shared, "--out", "model"]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("discreet: ")]
    assert ("ledger.sqlite" if left == "no ledger" else "checkpoint-") in line
    assert not (tmp_path / "model").exists()
    if shared:
        ledger = Ledger(books, create=False)
        assert sum(entry.steps for entry in ledger.walk() if entry.kind == "reservation") > 0
        ledger.verify()
        ledger.close()
    if left == "a file":
        assert folder.read_text() == "another program's"


class FullDisk(io.BytesIO):
    """A file that takes 100 bytes."""

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


def test_a_checkpoint_that_does_not_fit_is_an_error_of_the_disk_and_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(position: int) -> checkpoint.Checkpoint:
        return checkpoint.Checkpoint("run", position, {"weight": torch.ones(1000)}, {}, None, ())

    index = tmp_path / "checkpoint.json"
    checkpoint.save_checkpoint(index, lambda: kept(1), Ranks(), shared_out=False)
    monkeypatch.setattr(checkpoint_files, "write_durably", lambda path, write, mode: write(FullDisk()))
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save_checkpoint(index, lambda: kept(2), Ranks(), shared_out=False)
    found = checkpoint_files.load_checkpoint(index)
    assert found is not None
    assert found.position == 1
