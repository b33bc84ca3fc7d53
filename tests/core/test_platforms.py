"""What Windows and macOS do otherwise, by simulation: their calls, flags and refusals in the place of ours."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from discreet.certificate.signature import new_key, sign
from discreet.core import disk
from discreet.core.errors import InputError
from discreet.core.processes import keep_freed_memory
from discreet.ledger import Ledger
from discreet.randomness import destroy_key, new_run_key
from discreet.randomness.keyfile import load_key, save_key

BINARY = os.O_CLOEXEC
"""Stands for the flag of Windows, which has no meaning here; a flag that changes nothing."""


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[list[int]]:
    """Windows: no mode but read-only, no flag for links or pipes, files in text mode unless asked, no open folders, and
    no file is removed that is open. The flags of files that are opened."""
    flags: list[int] = []
    really, unlink = os.open, Path.unlink

    def opening(path: str, how: int, mode: int = 0o777, **more: int) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        flags.append(how)
        return really(path, how, 0o666, **more)

    def removing(path: Path, missing_ok: bool = False) -> None:
        for name in os.listdir("/proc/self/fd"):
            if os.path.realpath(f"/proc/self/fd/{name}") == os.path.realpath(path):
                raise PermissionError(13, "The process cannot access the file because it is being used")
        unlink(path, missing_ok=missing_ok)

    with pytest.MonkeyPatch.context() as patch:  # undone before `tmp_path` is removed
        patch.setattr(disk, "WINDOWS", True)
        patch.setattr(os, "open", opening)
        patch.setattr(Path, "unlink", removing)
        patch.setattr(os, "O_BINARY", BINARY, raising=False)
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"):
            patch.delattr(os, name)
        patch.setitem(sys.modules, "fcntl", None)
        yield flags


def test_a_key_lives_and_dies_on_windows(windows: list[int], tmp_path: Path) -> None:
    key = new_run_key()
    save_key(tmp_path / "key", key)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) & 0o077  # as Windows shows every file
    assert load_key(tmp_path / "key") == key
    destroy_key(tmp_path / "key")
    assert not (tmp_path / "key").exists()
    assert windows
    assert all(flags & BINARY for flags in windows)


def test_a_mode_says_who_reads_on_other_systems(tmp_path: Path) -> None:
    save_key(tmp_path / "key", new_run_key())
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(InputError, match="mode 0644, wider than 0600"):
        load_key(tmp_path / "key")


def test_files_are_written_as_they_are_on_windows(windows: list[int], tmp_path: Path) -> None:
    disk.write_durably(tmp_path / "file", b"a\nb\r\n")
    disk.write_durably(tmp_path / "file", b"c\n")  # in the place of one that is there
    with disk.whole_folder(tmp_path / "folder") as draft:
        disk.write_durably(draft / "inner", b"d\n")
    assert (tmp_path / "file").read_bytes() == b"c\n"
    assert (tmp_path / "folder" / "inner").read_bytes() == b"d\n"
    assert all(flags & BINARY for flags in windows)


def test_a_signature_needs_no_mode_on_windows(
    windows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "discreet.certificate.signature._digests", lambda folder: {"certificate": "0" * 64, "files": {}}
    )
    new_key(tmp_path / "mine")
    sign(tmp_path, tmp_path / "mine")
    assert (tmp_path / "signature.json").is_file()
    assert windows


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_other_allocators_are_left_alone(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("ctypes.CDLL", None)
    keep_freed_memory.cache_clear()
    keep_freed_memory()
    keep_freed_memory.cache_clear()


@pytest.mark.parametrize("knows", [True, False])
def test_macos_is_asked_to_empty_the_memory_of_the_disk(
    knows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []

    def asked(descriptor: int, command: int) -> None:
        called.append(command)
        if not knows:
            raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(sys, "platform", "darwin")
    fake: ModuleType = SimpleNamespace(fcntl=asked, F_FULLFSYNC=51)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "fcntl", fake)
    monkeypatch.setattr(os, "fsync", lambda descriptor: called.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        disk.force(file.fileno())
    assert called == ([51] if knows else [51, "fsync"])


def test_ledgers_ask_for_the_same(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with ledger._store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA fullfsync").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA checkpoint_fullfsync").scalar() == 1
    ledger.close()
