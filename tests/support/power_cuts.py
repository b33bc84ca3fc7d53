"""A disk that forgets what was not forced to it: what a folder looks like after a power cut at any moment.

Content lasts once a file was synced, a name once its folder was. The worst of what file systems allow is taken: a new
name without a synced folder is gone, and a name whose content was not synced is an empty file. SQLite is not simulated:
its own files are taken as they are (WAL, synchronous=FULL, tested by SQLite's authors).
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from discreet import verify
from discreet.jobs.train import Job
from discreet.ledger import Ledger
from discreet.training.run.run_folder import RunFolder

FAST = ("--set", "engine=auto", "--set", "noise=fast", "--set", "steps=4")
SEARCH = (
    *("--trials", "1.5", "--law", "logarithmic", "--grid", "optimizer.lr=0.5,1"),
    *("--holdout", "10%", "--ledger", "ledger.sqlite"),
)
SQLITE = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")


@dataclass
class Disk:
    """What lasts of the files below `root`, and a copy of it after every change (`cuts`)."""

    root: Path
    copies: Path
    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    """Of each folder, by its inode: the files and folders in it, with theirs."""
    cuts: list[Path] = field(default_factory=list)

    def synced(self, descriptor: int) -> None:
        """A file or a folder was forced to the disk."""
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if self.root not in (path, *path.parents):
            return
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.names[path.stat().st_ino] = {one.name: one.stat().st_ino for one in path.iterdir()}
        else:
            self.contents[os.fstat(descriptor).st_ino] = path.read_bytes()
        self.cut()

    def cut(self) -> None:
        """Keep what would be left if the power went now."""
        target = self.copies / str(len(self.cuts))
        target.mkdir(parents=True)
        self._rebuild(self.root, target)
        self.cuts.append(target)

    def _rebuild(self, folder: Path, target: Path) -> None:
        for name in SQLITE:
            if (folder / name).exists():
                shutil.copy(folder / name, target / name)
        for name, inode in self.names.get(folder.stat().st_ino, {}).items():
            there = folder / name
            if name in SQLITE:
                continue
            if there.is_dir() and there.stat().st_ino == inode:
                (target / name).mkdir(mode=0o700)
                self._rebuild(there, target / name)
            elif inode in self.contents or not there.is_dir():
                (target / name).write_bytes(self.contents.get(inode, b""))
                (target / name).chmod(there.stat().st_mode & 0o777 if there.exists() else 0o600)


@contextmanager
def recorded(root: Path, copies: Path) -> Iterator[Disk]:
    """Inside, what lasts of `root` is followed."""
    disk = Disk(root.resolve(), copies)
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        disk.synced(descriptor)

    def moved(source: Path, target: Path) -> None:
        replace(source, target)
        if disk.root in Path(target).resolve().parents:
            disk.cut()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "replace", moved)
        yield disk


def charged(folder: Path) -> int:
    """Steps that the ledger of a run folder holds; 0 if there is none."""
    if not (folder / "ledger.sqlite").exists():
        return 0
    ledger = Ledger(folder / "ledger.sqlite", create=False)
    try:
        return sum(entry.steps for entry in ledger.entries() if entry.kind == "reservation")
    finally:
        ledger.close()


def moved(cut: Path) -> None:
    """Let the files of a copy name the copy."""
    for name, changes in (("job.json", {"target": "model"}), ("run.json", {"ledger": "model.run/ledger.sqlite"})):
        path = cut / "model.run" / name
        if path.exists() and path.read_text():
            path.write_text(
                json.dumps(json.loads(path.read_text()) | {key: str(cut / to) for key, to in changes.items()})
            )


def check(cut: Path, most: int) -> tuple[int, bool]:
    """What is left after a cut: charged steps, and whether a model is there."""
    moved(cut)
    folder, found = cut / "model.run", 0
    if folder.is_dir():
        found = charged(folder)
        assert found <= most
    if found and (folder / "key").exists() and not (cut / "model").is_dir():
        Job.resumed(folder)
        RunFolder(folder).recall()
        assert not (folder / "key").stat().st_mode & 0o077
    published = (cut / "model").is_dir()
    if published:
        assert verify(cut / "model").accepted
    assert not found or published or (folder / "key").exists()  # charged, and neither a model nor a way to go on
    return found, published
