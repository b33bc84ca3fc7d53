"""The files of a checkpoint: parts with tensors, and an index, without which there is no checkpoint.

A part is a safetensors file that one process has written. The index, in JSON, names the parts with their sizes and
SHA-256, and holds everything that is no tensor. Tensors that several processes share out are in several parts: what
these have, one after the other, is the tensor, so any number of processes can read it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from discreet.core.disk import create_durably, write_durably
from discreet.core.errors import InputError
from discreet.training.run.checkpoint_parts import ADVICE, Gone, Part, bytes_of, damaged, head_of, read_part
from discreet.training.run.state_json import Shard

_log = logging.getLogger("discreet")
_FORMAT = "discreet-checkpoint/2"
_PARTS, _FORMER = "checkpoint-*.safetensors", "checkpoint.pt"

_INDEXED = "indexed"
"""An empty file that is in the folder once an index was. Where it is, parts without an index tell that the index was
lost; elsewhere they are of a first checkpoint that was not finished."""

_TRIES = 20
"""The most times that an index is read again, as another start put a later one in its place and removed its parts."""

_NAME = re.compile(r"checkpoint-\d+-[0-9a-f]+-\d+\.safetensors")
"""The names that `part_name` gives: an index that names another file is not ours."""


@dataclass(frozen=True, slots=True)
class Index:
    """A checkpoint on the disk: the state of `run` after `position` charged steps, whose tensors are in `parts`.
    `attempt`: the number of the start that wrote it; 0 too if an earlier version did, which noted none."""

    path: Path
    run: str
    position: int
    parts: tuple[Part, ...]
    state: Any
    attempt: int = 0

    @property
    def files(self) -> set[str]:
        """The names of its parts."""
        return {part.file for part in self.parts}

    @contextmanager
    def open(self) -> Iterator[Callable[[str], Tensor]]:
        """A function that returns the numbers of the tensor with a name, in a row; none if no part has it.

        They are read from the very bytes whose SHA-256 is compared first. `InputError` if a part is missing or another.
        """
        with ExitStack() as stack:
            held = [stack.enter_context(read_part(self.path.with_name(part.file), part)) for part in self.parts]

            def numbers(name: str) -> Tensor:
                found = [read() for tensors in held if (read := tensors.get(name)) is not None]
                return torch.cat(found) if found else torch.empty(0)

            yield numbers


def parts_in(folder: Path) -> tuple[Path, ...]:
    """The parts of checkpoints in a folder, whole or not."""
    return tuple(sorted(folder.glob(_PARTS)))


def part_name(position: int, token: str, rank: int) -> str:
    """The name of the file that a process writes for the checkpoint at this position. `token`: hexadecimal digits that
    no other checkpoint has."""
    return f"checkpoint-{position}-{token}-{rank}.safetensors"


def write_part(path: Path, tensors: Mapping[str, Tensor | Shard]) -> Part:
    """Write a part, durably and for its owner alone, one tensor after the other.

    `InputError` for a type of numbers that the format has not.
    """
    head, sizes = head_of(tensors)
    digest = hashlib.sha256()

    def write(file: IO[bytes]) -> None:
        contents: Iterator[bytes | memoryview] = itertools.chain([head], (bytes_of(tensors[name]) for name in sizes))
        for content in contents:
            digest.update(content)
            file.write(content)

    write_durably(path, write, 0o600)
    return Part(path.name, len(head) + sum(sizes.values()), digest.hexdigest())


def write_index(index: Index) -> None:
    """Put an index in the place of the last one, durably, when all of its parts can be seen; then remove the parts that
    the last one named, and no others: another process may be about to name them. An index that a later start of the run
    has written stays, and the parts of this one go.

    `InputError` if this process does not see a part that another one has written. If it fails, the parts are removed,
    unless the index is in its place.
    """
    path, own, last = index.path, index.files, _index_at(index.path)
    if last is not None and last.run == index.run and last.attempt > index.attempt:
        _remove(path.parent, own)
        _log.warning("the run was started again, and goes on there: no checkpoint is written by this start any more")
        return
    try:
        _write(index)
    except BaseException:
        _remove(path.parent, own - _named(path))
        raise
    _remove(path.parent, (set() if last is None else last.files) - own)


def _write(index: Index) -> None:
    path = index.path
    for part in index.parts:
        found = path.with_name(part.file)
        if not found.exists() or found.stat().st_size != part.size:
            raise InputError(
                f"{found} was written by another process, but is not seen by the first; with weights that are shared "
                "out, the run folder must lie where all processes see it. Nothing but this checkpoint is lost"
            )
    facts = {"format": _FORMAT, "run": index.run, "position": index.position, "attempt": index.attempt}
    content = facts | {"parts": [asdict(part) for part in index.parts], "state": index.state}
    written = json.dumps(content | {"sha256": _digest(content)}).encode() + b"\n"
    write_durably(path, written, 0o600, token=secrets.token_hex(4))
    with suppress(FileExistsError):
        create_durably(path.with_name(_INDEXED), b"", 0o600)


def _named(path: Path) -> set[str]:
    """The parts that the index at `path` names; none if there is no such index."""
    index = _index_at(path)
    return set() if index is None else index.files


def _index_at(path: Path) -> Index | None:
    """The index at `path`; None if there is none that can be read."""
    try:
        return _read(path, path.read_bytes())
    except (OSError, InputError):
        return None


def remove_other_parts(index: Path, parts: Sequence[Part], left: Sequence[Path]) -> None:
    """Remove those of the files `left` that no index names any more, or that were written for one that never came: all
    parts that were in the folder when this process had it for itself. Those in `parts` stay, and so do those that the
    index names by now."""
    _remove(index.parent, {path.name for path in left} - {part.file for part in parts} - _named(index))


def _remove(folder: Path, names: set[str]) -> None:
    for name in sorted(names):
        with suppress(OSError):  # it is in nobody's way
            (folder / name).unlink(missing_ok=True)


def load_checkpoint(path: Path) -> Index | None:
    """The checkpoint whose index is at `path`, or None if none was finished yet.

    `InputError` unless every part is there, with the size and the SHA-256 that the index says.
    """
    try:
        written = path.read_bytes()
    except FileNotFoundError:
        former = path.with_name(_FORMER)
        if former.exists():
            raise InputError(
                f"{former} is a checkpoint of an earlier version; resume the run with that version, or delete the file "
                "to go on from the first model"
            ) from None
        if path.with_name(_INDEXED).exists() and (left := parts_in(path.parent)):
            raise InputError(
                f"{path} is missing, the index of the checkpoint whose parts are beside it ({left[0].name}); put it "
                "back from a copy, or delete all checkpoint-*.safetensors there to begin again from the first model; "
                "what was charged stays charged"
            ) from None
        return None
    except OSError as error:
        raise damaged(path, str(error.strerror)) from None
    with open_newest(_read(path, written)) as (index, _):
        return index


@contextmanager
def open_newest(index: Index) -> Iterator[tuple[Index, Callable[[str], Tensor]]]:
    """An index and `Index.open` of it. Where a part is gone, and a later index has taken its place, it is that one:
    another start goes on with the run, and has removed what it had replaced."""
    with ExitStack() as stack:
        for _ in range(_TRIES):
            try:
                numbers = stack.enter_context(index.open())
            except Gone:
                try:
                    newest = _read(index.path, index.path.read_bytes())
                except OSError:
                    newest = index
                if newest.parts == index.parts:
                    raise
                index = newest
            else:
                yield index, numbers
                return
        raise InputError(
            f"{index.path} was replaced faster than it could be read: another process goes on with the run; end it, or "
            "try again"
        )


def _read(path: Path, written: bytes) -> Index:
    try:
        content = json.loads(written)
        digest = content.pop("sha256")
        if content["format"] != _FORMAT:
            raise InputError(f"{path} is not a checkpoint of this version; {ADVICE}")
        if digest != _digest(content):
            raise ValueError("its own SHA-256 is another one")
        parts = tuple(Part(**one) for one in content["parts"])
        if not all(_NAME.fullmatch(part.file) for part in parts):
            raise ValueError("a part has a name that no checkpoint gives")
        numbers = int(content["position"]), int(content.get("attempt", 0))
        return Index(path, str(content["run"]), numbers[0], parts, content["state"], numbers[1])
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"it was changed or cut ({error})") from None


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
