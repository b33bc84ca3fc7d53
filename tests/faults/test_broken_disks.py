"""A disk that fails at any call that writes: one line, exit code 2, and what was charged stays charged."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from power_commands import FAST
from power_rules import charged

from discreet import verify
from discreet.cli.app import run
from discreet.ledger import Ledger
from discreet.training.run import checkpoint

CALLS = ("fsync", "replace", "open", "mkdir", "unlink")
KINDS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)


@contextmanager
def failing(at: int | None, kind: int, root: Path) -> Iterator[list[int]]:
    """Inside, the call with number `at` that writes below `root` fails. Gives how many there were."""
    count = [0]

    def broken(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            where = (
                Path(f"/proc/self/fd/{given[0]}").resolve()
                if name == "fsync"
                else Path(os.fspath(given[-1 if name == "replace" else 0])).absolute()
            )
            reads = name == "open" and not given[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not reads and root in (where, *where.parents):
                count[0] += 1
                if count[0] - 1 == at:
                    raise OSError(kind, os.strerror(kind), str(where))
            return real(*given, **named)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, broken(name, getattr(os, name)))
        yield count


def calls_of_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    folder.mkdir()
    monkeypatch.chdir(folder)
    with failing(None, 0, folder.resolve()) as count:
        assert run(["train", "digits", *FAST, "--out", "model"]) == 0
    return count[0]


def check(
    folder: Path, at: int, kind: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail once, then go on with a disk that works."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    capsys.readouterr()
    with failing(at, kind, folder.resolve()):
        code = run(["train", "digits", *FAST, "--out", "model"])
    said = capsys.readouterr().err.splitlines()
    assert code in (0, 2), (at, code, said)  # 0: what failed was not needed
    assert len(said) == (1 if code else 0), (at, said)
    before = charged(folder / "model.run" / "ledger.sqlite")
    if not (folder / "model").exists() and before:
        assert run(["train", "--resume", "model.run"]) == 0, (at, capsys.readouterr().err)
        assert charged(folder / "model.run" / "ledger.sqlite") == 4
    if (folder / "model").exists():
        assert verify(folder / "model").accepted


def test_some_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    most = calls_of_a_run(tmp_path / "whole", monkeypatch)
    assert most > 30
    for at, kind in ((2, errno.ENOSPC), (most // 2, errno.EIO)):
        check(tmp_path / str(at), at, kind, capsys, monkeypatch)


def test_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for at in range(calls_of_a_run(tmp_path / "whole", monkeypatch)):
        check(tmp_path / str(at), at, KINDS[at % len(KINDS)], capsys, monkeypatch)


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
