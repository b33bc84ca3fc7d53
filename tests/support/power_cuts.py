"""A disk that forgets what was not forced to it: what a folder looks like after a power cut at any moment.

Content lasts once a file was synced. A name lasts once its folder was synced, or at once (`hasty`): two ends of what
file systems do, and both are kept. A name whose content was not synced is an empty file. SQLite is not simulated: its
own files are taken as they are (WAL, synchronous=FULL, tested by SQLite's authors; it forces the names in its folder),
but without the shared memory, so that whoever opens them recovers them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from discreet.ledger import store
from discreet.ledger.entries_table import entries
from discreet.training import step as step_module

_CHANGES = ("fsync", "replace", "rename", "unlink", "remove", "rmdir", "mkdir", "open", "chmod")
_SQLITE = re.compile(r"\.sqlite(-wal|-journal)?$")

Tree = dict[str, tuple[int, bytes | None]]
"""Mode and content of each path, None for a folder."""


@dataclass(frozen=True)
class Cut:
    """What is left in `folder`. `entries`: of the ledger, then; `released`: steps of which anybody may know;
    `returned`: commands that had ended."""

    folder: Path
    entries: int
    released: int
    returned: int


@dataclass
class Disk:
    """What lasts of the files below `root`, and a copy of it after every change (`cuts`), each state once."""

    root: Path
    copies: Path
    entries: int = 0
    released: int = 0
    returned: int = 0
    cuts: list[Cut] = field(default_factory=list)
    _contents: dict[int, bytes] = field(default_factory=dict)
    _names: dict[int, dict[str, int]] = field(default_factory=dict)
    """Of each folder, by its inode: the files and folders in it, with theirs."""
    _held: dict[int, int] = field(default_factory=dict)
    """Open descriptors: so that no inode is given to another file."""
    _seen: dict[str, int] = field(default_factory=dict)
    _busy: bool = False

    def synced(self, descriptor: int) -> None:
        """A file or a folder was forced to the disk."""
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        facts = os.fstat(descriptor)
        if self.root not in (path, *path.parents):
            return
        if stat.S_ISDIR(facts.st_mode):
            self._names[facts.st_ino] = {one.name: one.lstat().st_ino for one in path.iterdir()}
        elif path.exists():
            self._contents[facts.st_ino] = path.read_bytes()
        self._held.setdefault(facts.st_ino, os.dup(descriptor))

    def cut(self) -> None:
        """Keep what would be left if the power went now; each state once, with what was promised at its last time."""
        if self._busy:
            return
        self._busy = True  # making a copy changes files too
        for tree in (self._lasting(self.root, hasty=False), self._lasting(self.root, hasty=True)):
            number = self._seen.setdefault(_mark(tree, self.entries), len(self.cuts))
            cut = Cut(self.copies / str(number), self.entries, self.released, self.returned)
            if number == len(self.cuts):
                _write(tree, cut.folder)
                self.cuts.append(cut)
            else:
                self.cuts[number] = cut
        self._busy = False

    def _lasting(self, folder: Path, *, hasty: bool, below: str = "") -> Tree:
        found: Tree = {}
        there = {one.name: one.lstat().st_ino for one in folder.iterdir()}
        kept = there if hasty else self._names.get(folder.stat().st_ino, {})
        files = {name: inode for name, inode in there.items() if _SQLITE.search(name)}
        for name, inode in (kept | files).items():
            path, shown = folder / name, below + name
            same = there.get(name) == inode
            if name in files:
                found[shown] = 0o600, path.read_bytes()
            elif name.endswith(".sqlite-shm") or _SQLITE.search(name):
                continue
            elif same and path.is_dir():
                found[shown] = stat.S_IMODE(path.stat().st_mode), None
                found |= self._lasting(path, hasty=hasty, below=f"{shown}/")
            elif inode not in self._names:  # else a folder that is gone by now
                mode = stat.S_IMODE(path.stat().st_mode) if same else 0o600
                found[shown] = mode, self._contents.get(inode, b"")
        return found

    def close(self) -> None:
        """Let go of what was held."""
        for descriptor in self._held.values():
            os.close(descriptor)


def _mark(tree: Tree, entries: int) -> str:
    found = hashlib.sha256(str(entries).encode())
    for name, (mode, content) in sorted(tree.items()):
        found.update(f"\0{name}\0{mode}\0{content is None or len(content)}\0".encode())
        found.update(content or b"")
    return found.hexdigest()


def _write(tree: Tree, target: Path) -> None:
    target.mkdir(parents=True)
    for name, (mode, content) in sorted(tree.items()):
        if content is None:
            (target / name).mkdir(mode=mode | 0o700)
        else:
            (target / name).write_bytes(content)
            (target / name).chmod(mode)


@contextmanager
def recorded(root: Path, copies: Path) -> Iterator[Disk]:
    """Inside, what lasts of `root` is followed, from what is there on: through every change of files below it, every
    transaction of a ledger, and every release."""
    disk = Disk(root.resolve(), copies)
    for folder, _, files in os.walk(root):
        for one in (folder, *(os.path.join(folder, name) for name in files)):
            descriptor = os.open(one, os.O_RDONLY)
            disk.synced(descriptor)
            os.close(descriptor)
    transaction, apply = store.Store.transaction, step_module.apply

    @contextmanager
    def committed(self: store.Store) -> Iterator[Connection]:
        disk.cut()
        with transaction(self) as connection:
            yield connection
            disk.entries = connection.execute(select(func.count()).select_from(entries)).scalar() or 0
        disk.cut()

    def released(*given: Any) -> None:
        disk.released += 1
        apply(*given)

    with pytest.MonkeyPatch.context() as patch:
        for name in _CHANGES:
            patch.setattr(os, name, _followed(disk, name, getattr(os, name)))
        patch.setattr(store.Store, "transaction", committed)
        patch.setattr(step_module, "apply", released)
        try:
            yield disk
        finally:
            disk.close()


def _followed(disk: Disk, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        if name == "open" and not given[1] & os.O_CREAT:
            return real(*given, **named)
        disk.cut()
        result = real(*given, **named)
        if name == "fsync":
            disk.synced(given[0])
        disk.cut()
        return result

    return called
