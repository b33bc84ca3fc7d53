"""The files of a checkpoint: parts with tensors, and an index, without which there is no checkpoint.

A part is a safetensors file that one process has written. The index, in JSON, names the parts with their sizes and
SHA-256, and holds everything that is no tensor. Tensors that several processes share out are in several parts: what
these have, one after the other, is the tensor, so any number of processes can read it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from discreet.core.disk import create_durably, write_durably
from discreet.core.errors import InputError
from discreet.training.run.state_json import Shard, numbers_of

_FORMAT = "discreet-checkpoint/2"
_PARTS, _FORMER = "checkpoint-*.safetensors", "checkpoint.pt"

_INDEXED = "indexed"
"""An empty file that is in the folder once an index was. Where it is, parts without an index tell that the index was
lost; elsewhere they are of a first checkpoint that was not finished."""

_NAME = re.compile(r"checkpoint-\d+-[0-9a-f]+-\d+\.safetensors")
"""The names that `part_name` gives: an index that names another file is not ours."""

_ADVICE = (
    "restore it from a copy, or delete checkpoint.json and all checkpoint-*.safetensors beside it to go on from the "
    "first model; what was charged stays charged"
)

_TYPES: Mapping[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
"""Types of numbers, as safetensors calls them."""

_OF_NAMES = {name: dtype for dtype, name in _TYPES.items()}

_LENGTH = 8
"""Bytes at the beginning of a part that say how long its head is."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of tensors: its name, its size in bytes, its SHA-256."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Index:
    """A checkpoint on the disk: the state of `run` after `position` charged steps, whose tensors are in `parts`."""

    path: Path
    run: str
    position: int
    parts: tuple[Part, ...]
    state: Any

    @contextmanager
    def open(self) -> Iterator[Callable[[str], Tensor]]:
        """A function that returns the numbers of the tensor with a name, in a row; none if no part has it.

        They are read from the very bytes whose SHA-256 is compared first. `InputError` if a part is missing or another.
        """
        with ExitStack() as stack:
            held = [stack.enter_context(_read_part(self.path.with_name(part.file), part)) for part in self.parts]

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
    head, sizes = _head(tensors)
    digest = hashlib.sha256()

    def write(file: IO[bytes]) -> None:
        contents: Iterator[bytes | memoryview] = itertools.chain([head], (_bytes_of(tensors[name]) for name in sizes))
        for content in contents:
            digest.update(content)
            file.write(content)

    write_durably(path, write, 0o600)
    return Part(path.name, len(head) + sum(sizes.values()), digest.hexdigest())


def write_index(path: Path, run: str, position: int, parts: Sequence[Part], state: Any) -> None:
    """Put an index in the place of the last one, durably, when all of its parts can be seen; then remove the parts that
    the last one named, and no others: another process may be about to name them.

    `InputError` if this process does not see a part that another one has written. If it fails, the `parts` are removed,
    unless the index is in its place.
    """
    last = _named(path)
    try:
        _write_index(path, run, position, parts, state)
    except BaseException:
        _remove(path.parent, {part.file for part in parts} - _named(path))
        raise
    _remove(path.parent, last - {part.file for part in parts})


def _write_index(path: Path, run: str, position: int, parts: Sequence[Part], state: Any) -> None:
    for part in parts:
        found = path.with_name(part.file)
        if not found.exists() or found.stat().st_size != part.size:
            raise InputError(
                f"{found} was written by another process, but is not seen by the first; with weights that are shared "
                "out, the run folder must lie where all processes see it. Nothing but this checkpoint is lost"
            )
    facts = {"format": _FORMAT, "run": run, "position": position, "parts": [asdict(part) for part in parts]}
    content = facts | {"state": state}
    written = json.dumps(content | {"sha256": _digest(content)}).encode() + b"\n"
    write_durably(path, written, 0o600, token=secrets.token_hex(4))
    with suppress(FileExistsError):
        create_durably(path.with_name(_INDEXED), b"", 0o600)


def _named(path: Path) -> set[str]:
    """The parts that the index at `path` names; none if there is no such index."""
    try:
        return {part.file for part in _read(path, path.read_bytes()).parts}
    except (OSError, InputError):
        return set()


def remove_other_parts(folder: Path, parts: Sequence[Part]) -> None:
    """Remove parts that no index names any more, or that were written for one that never came. For a process that has
    the run folder for itself."""
    _remove(folder, {path.name for path in parts_in(folder)} - {part.file for part in parts})


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
        raise _damaged(path, str(error.strerror)) from None
    index = _read(path, written)
    for part in index.parts:
        with _read_part(path.with_name(part.file), part):
            pass
    return index


def _read(path: Path, written: bytes) -> Index:
    try:
        content = json.loads(written)
        digest = content.pop("sha256")
        if content["format"] != _FORMAT:
            raise InputError(f"{path} is not a checkpoint of this version; {_ADVICE}")
        if digest != _digest(content):
            raise ValueError("its own SHA-256 is another one")
        parts = tuple(Part(**one) for one in content["parts"])
        if not all(_NAME.fullmatch(part.file) for part in parts):
            raise ValueError("a part has a name that no checkpoint gives")
        return Index(path, str(content["run"]), int(content["position"]), parts, content["state"])
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"it was changed or cut ({error})") from None


@contextmanager
def _read_part(path: Path, part: Part) -> Iterator[Mapping[str, Callable[[], Tensor]]]:
    """By name, a function that reads a tensor of a part, from the same mapping of the file that was hashed."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            if os.fstat(file.fileno()).st_size != part.size or part.size < _LENGTH:
                raise _damaged(path, "it was changed, cut, or is of another checkpoint")
            held = stack.enter_context(mmap.mmap(file.fileno(), part.size, access=mmap.ACCESS_READ))
            if hashlib.sha256(held).hexdigest() != part.sha256:
                raise _damaged(path, "it was changed, cut, or is of another checkpoint")
            tensors = _tensors_of(held)
        except FileNotFoundError:
            raise _damaged(path, "there is no such file") from None
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(path, str(error)) from None
        yield tensors


def _tensors_of(held: mmap.mmap) -> dict[str, Callable[[], Tensor]]:
    """A reader for each tensor of a file as `_head` describes them. `ValueError` or the like for a head unlike it."""
    first = _LENGTH + int.from_bytes(held[:_LENGTH], "little")
    if first > len(held):
        raise ValueError("its head is longer than the file")
    found: dict[str, Callable[[], Tensor]] = {}
    for name, facts in json.loads(held[_LENGTH:first]).items():
        dtype, (start, stop) = _OF_NAMES[facts["dtype"]], facts["data_offsets"]
        if not (type(start) is type(stop) is int and 0 <= start <= stop <= len(held) - first):
            raise ValueError(f"the place of {name} is not in the file")
        if (stop - start) % dtype.itemsize:
            raise ValueError(f"{name} is no whole count of numbers")
        found[name] = partial(_numbers_at, held, first + start, first + stop, dtype)
    return found


def _numbers_at(held: mmap.mmap, start: int, stop: int, dtype: torch.dtype) -> Tensor:
    if start == stop:
        return torch.empty(0, dtype=dtype)
    with memoryview(held) as whole, whole[start:stop] as own:
        return torch.frombuffer(bytearray(own), dtype=torch.uint8).view(dtype)


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(f"cannot read {path} of the checkpoint: {reason:.200}; {_ADVICE}")


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _head(tensors: Mapping[str, Tensor | Shard]) -> tuple[bytes, dict[str, int]]:
    """The beginning of a file of tensors, and their sizes in bytes in its order: wide numbers first, so that all lie at
    multiples of their width."""
    facts, sizes, end = {}, {}, 0
    owned = {name: one.own if isinstance(one, Shard) else one for name, one in tensors.items()}
    for name in sorted(owned, key=lambda name: -_kept(owned[name])[0].itemsize):
        dtype, count = _kept(owned[name])
        if dtype not in _TYPES:
            raise InputError(f"{name} has numbers of type {dtype}, which a checkpoint cannot keep")
        sizes[name] = count * dtype.itemsize
        facts[name] = {"dtype": _TYPES[dtype], "shape": [count], "data_offsets": [end, end + sizes[name]]}
        end += sizes[name]
    head = json.dumps(facts, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(_LENGTH, "little") + head, sizes


def _kept(value: Tensor) -> tuple[torch.dtype, int]:
    """The type of the numbers that are kept of a tensor, and how many they are."""
    return (value.dtype.to_real(), 2 * value.numel()) if value.is_complex() else (value.dtype, value.numel())


def _bytes_of(value: Tensor | Shard) -> memoryview:
    return numbers_of(value).view(torch.uint8).numpy().data
