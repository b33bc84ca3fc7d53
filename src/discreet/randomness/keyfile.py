"""The run key and its file: readable by its owner only, from creation until it is destroyed after publishing.

On Windows a file has no such mode: the key is as private as the folder of the user. Overwriting is best effort: file
systems that copy on write, snapshots, and flash memory may keep old blocks. An old key alone rebuilds no noise, since
the fresh bytes of each attempt are never written anywhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from discreet.core.disk import carefully, create_durably, force, sync_folder, wider_than_owner
from discreet.core.errors import InputError
from discreet.randomness.stream import KEY_BYTES

_OWNER_ONLY = 0o600


def new_run_key() -> bytes:
    """Return 32 fresh bytes from the operating system."""
    return os.urandom(KEY_BYTES)


def save_key(path: str | os.PathLike[str], key: bytes) -> None:
    """Write `key` to a new file with mode 0600, durable on return.

    The file is created with that mode, so nobody else can open it even for a moment; an existing file or link
    is refused. `InputError` for a key that is not 32 bytes or a file that cannot be created.
    """
    target = Path(path)
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InputError(f"a run key must be {KEY_BYTES} bytes (new_run_key() makes one)")
    try:
        create_durably(target, key, _OWNER_ONLY)
    except FileExistsError:
        raise InputError(f"key file {target} already exists; resume that run or choose another path") from None
    except OSError as error:
        raise InputError(f"cannot create key file {target}: {error.strerror or error}") from None


def load_key(path: str | os.PathLike[str]) -> bytes:
    """Read the key that `save_key` wrote.

    `InputError` if the file is missing, a link, not a regular file, open to anyone but its owner (mode wider
    than 0600), or not exactly 32 bytes long.
    """
    target = Path(path)
    with os.fdopen(_open_regular(target, os.O_RDONLY), "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if wider_than_owner(mode):
            raise InputError(f"key file {target} has mode {mode:04o}, wider than 0600: others may have read it")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise InputError(f"key file {target} does not hold exactly {KEY_BYTES} bytes")
    return key


def destroy_key(path: str | os.PathLike[str]) -> None:
    """Overwrite the key file and remove it; a missing file is fine.

    `InputError` if `path` is a link, not a regular file, or longer than a key: then it is something else.
    """
    target = Path(path)
    if not os.path.lexists(target):
        return
    with os.fdopen(_open_regular(target, os.O_RDWR), "r+b") as file:
        if os.fstat(file.fileno()).st_size > KEY_BYTES:
            raise InputError(f"{target} is longer than a key, so it is not a key file; it was left alone")
        file.write(bytes(KEY_BYTES))
        file.flush()
        force(file.fileno())
    target.unlink()  # Windows removes no file that is open
    sync_folder(target.parent)


def _open_regular(target: Path, flags: int) -> int:
    try:
        # A pipe would hang here instead of being refused below.
        descriptor = os.open(target, flags | carefully())
    except OSError as error:
        raise InputError(f"cannot open key file {target}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"key file {target} is not a regular file")
    return descriptor
