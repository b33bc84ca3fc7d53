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
from discreet.ledger import Ledger
from discreet.training.run import checkpoint


@pytest.mark.parametrize("left", ["nothing", "a file", "no ledger"])
def test_a_run_folder_that_goes_meanwhile_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], left: str
) -> None:
    """It goes after the first charge and before a checkpoint."""
    monkeypatch.chdir(tmp_path)
    real, folder = checkpoint.write_durably, tmp_path / "model.run"

    def gone(path: Path, write: Any) -> None:
        if left == "no ledger":
            real(path, write)
            for one in folder.glob("ledger.sqlite*"):
                one.unlink()
            return
        shutil.rmtree(folder)
        if left == "a file":
            folder.write_text("another program's")
        real(path, write)

    monkeypatch.setattr(checkpoint, "write_durably", gone)
    books = tmp_path / "team.sqlite"
    shared = ("--ledger", str(books), "--dataset-id", "digits") if left != "no ledger" else ()
    assert run(["train", "digits", *FAST, *shared, "--out", "model"]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("discreet: ")]
    assert ("ledger.sqlite" if left == "no ledger" else "checkpoint.pt") in line
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


def test_a_checkpoint_that_does_not_fit_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch says that it is an error of its own."""
    with pytest.raises(RuntimeError):
        torch.save({"model": torch.ones(1000)}, FullDisk())
    monkeypatch.setattr(checkpoint, "write_durably", lambda path, write: write(FullDisk()))
    kept = checkpoint.Checkpoint("run", 1, {"weight": torch.ones(1000)}, {}, None, ())
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save_checkpoint(tmp_path / "checkpoint.pt", kept)
