"""Files on a disk: whole after a power cut, in their old state or in the new one; and readable to their end.

A file is written as a draft beside it, its content is forced to the disk, it is renamed, and the name is forced: a
rename that was not forced may be undone, and one that comes before the content may leave an empty file (Pillai et al.
2014, "All file systems are not created equal").
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from discreet.core.errors import InputError

WINDOWS = os.name == "nt"

_SHOWN = 50
"""Characters of a name in that of its draft, which must fit in 255 bytes too."""

_PATIENCE = 2.0
"""Seconds that a lock is waited for which is held for a moment only."""

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
"""What waits for ever when it is read, or never ends."""


def write_durably(
    path: Path, write: bytes | Callable[[IO[bytes]], object], mode: int = 0o666, *, token: str = ""
) -> None:
    """Put a file in the place of `path`: its content, or what `write` writes. Durable on return.

    `mode` is that of the file from its creation on, less the user's mask. An error leaves what was there before.
    `token`: part of the name of the draft, so that two processes that write the same file do not share one.
    """
    draft = path.with_name(".".join(filter(None, (path.name, token, "draft"))))
    draft.unlink(missing_ok=True)  # of a process that was killed
    with gone_if_it_fails(draft):
        _write(os.open(draft, _new(), mode), write)
        os.replace(draft, path)
    sync_folder(path.parent)


def create_durably(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file that is not there yet, with this `mode` from its creation on. Durable on return.

    `FileExistsError` for one that is there; nothing is left of one that could not be written.
    """
    descriptor = os.open(path, _new(), mode)
    with gone_if_it_fails(path):
        _write(descriptor, content)
        sync_folder(path.parent)


def real(path: Path) -> Path:
    """The absolute path without links. A link to itself, at which `Path.resolve` fails, stays as it is: to open it is
    an `OSError` that names it."""
    return Path(os.path.realpath(path))


def real_text(path: Path | None) -> str | None:
    """The `real` path as a text; None if there is none."""
    return None if path is None else str(real(path))


def write_output(
    path: Path, write: bytes | Callable[[IO[bytes]], object], *, replace: bool, advice: str = "name another file"
) -> None:
    """Write a file that the user named: it appears whole, or what was there stays. Durable on return.

    `InputError`, with the `advice`, if it cannot be written; and, unless it may `replace` it, if the file exists.
    """
    if path.exists() and not replace:
        raise InputError(f"{path} exists already; {advice}")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe, in whose place nothing is put
            with path.open("wb") as file:
                file.write(write) if isinstance(write, bytes) else write(file)
        else:
            write_durably(real(path), write)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; {advice}") from None


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it that are missing; fine if it is there. Durable on return: the name of each new
    one is forced, since with the name of a folder all that is in it would be lost. `mode` is that of the last."""
    above = folder.absolute().parent
    if not above.exists():
        make_folder(above)
    if not folder.is_dir():
        folder.mkdir(mode, exist_ok=True)
        sync_folder(above)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write in, which takes the place of `target` (nothing, or an empty folder) at the end: nobody sees
    half of it. Its name is durable then; its files are if they were written so."""
    above = target.absolute().parent
    make_folder(above)
    with draft_folder(above, target.name) as draft:
        yield draft
        draft.chmod(0o755)
        sync_folder(draft)
        if target.exists():
            target.rmdir()
        os.replace(draft, target)
        sync_folder(above)


@contextmanager
def draft_folder(above: Path, name: str) -> Iterator[Path]:
    """A new folder in `above`, in which a folder of this `name` is written before it is renamed; gone if that fails.

    Drafts that a process left which was killed are removed: whoever works in one holds a lock on it.
    """
    remove_drafts(above, name)
    while True:
        draft = Path(tempfile.mkdtemp(prefix=_prefix(name), dir=above))
        with gone_if_it_fails(draft), _locked(draft, wait=True):
            if draft.exists():  # else another process took it for one that was left
                yield draft
                return


def remove_drafts(above: Path, name: str) -> None:
    """Remove the drafts of a folder, or file, of this `name` that killed processes left."""
    for left in above.glob(f"{glob.escape(_prefix(name))}*"):
        with suppress(OSError), _locked(left, wait=False):
            shutil.rmtree(left, ignore_errors=True)


def _prefix(name: str) -> str:
    return f".{name[:_SHOWN]}.draft-"


@contextmanager
def share_lock(folder: Path, alone: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Share the lock of a folder for as long as the context lasts. Yields whether nobody else had it: then `alone` was
    called, before anybody else could have it. False where there are no locks."""
    if WINDOWS:
        yield False
        return
    import fcntl

    with ExitStack() as stack:
        held = False
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            held = _lock_now(descriptor, fcntl.LOCK_EX)
            if not held:
                _share(descriptor)
        if held:
            alone()
            _share(descriptor)
        yield held


def _share(descriptor: int) -> None:
    """Share a lock, when a process that has it alone has looked. One that keeps it is of an earlier version, and is not
    waited for."""
    import fcntl

    until = time.monotonic() + _PATIENCE
    while not _lock_now(descriptor, fcntl.LOCK_SH) and time.monotonic() < until:
        time.sleep(0.01)


def _lock_now(descriptor: int, kind: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a folder; `OSError` if another process does and we do not `wait`. Where there is no such lock
    nobody removes what is another's."""
    if WINDOWS:
        if not wait:
            raise OSError("folders cannot be locked")
        yield
        return
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except FileNotFoundError:  # another process took it for one that was left, before we could hold it
        if not wait:
            raise
        yield
        return
    try:
        with suppress(OSError) if wait else nullcontext():
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _write(descriptor: int, write: bytes | Callable[[IO[bytes]], object]) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(write) if isinstance(write, bytes) else write(file)
        file.flush()
        force(file.fileno())


def _new() -> int:
    """The flags for a file that is not there yet. Windows would write line ends of its own into one that is not opened
    as binary."""
    return os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def carefully() -> int:
    """The flags for a file that may be a link or a pipe: links are not followed, and pipes not waited for. Windows has
    neither flag, and no such pipes."""
    return getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def wider_than_owner(mode: int) -> bool:
    """Whether others than its owner can read a file of this mode. On Windows a mode does not say: there the access
    lists of the user's folder decide."""
    return not WINDOWS and bool(stat.S_IMODE(mode) & ~0o600)


def force(descriptor: int) -> None:
    """Force the content of an open file to the disk; on macOS past the disk's own memory, where `fsync` stops."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # a file system that knows no such call
            os.fsync(descriptor)
        return
    os.fsync(descriptor)


@contextmanager
def gone_if_it_fails(path: Path) -> Iterator[None]:
    """Remove a file or folder if what is done with it fails. An error of the disk that has no path gets this one."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)
        with suppress(OSError):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. (Windows cannot open folders, and needs no such call.)"""
    if WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        force(descriptor)
    finally:
        os.close(descriptor)


def check_target(target: Path) -> None:
    """Refuse to publish over something that exists, or where nothing can be written."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} exists already, and is no folder; name another")
    if target.exists() and any(target.iterdir()):
        raise InputError(f"{target} exists already and is not empty; name another folder")
    if target.is_symlink() and not target.exists():
        raise InputError(f"{target} is a link that leads nowhere; delete it, or name another folder")
    above = next(one for one in (target, *target.absolute().parents) if os.path.lexists(one))
    if not above.is_dir():
        raise InputError(f"cannot write {target}: {above} is no folder; name another")
    if not os.access(above, os.W_OK):
        raise InputError(f"cannot write {target}: {above} is read-only; choose a folder that can be written")


def refuse_special(path: Path) -> None:
    """`InputError` if there is something at `path` that cannot be read to its end, or no such name can be. A path with
    nothing at it is left to whoever opens it."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {str(path)[:80]}: {reason}; check the path") from None
    if kind in _KINDS:
        raise InputError(f"{path} is {_KINDS[kind]}, not a plain file; write it to a file first")
