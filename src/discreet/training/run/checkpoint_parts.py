"""A part of a checkpoint: a safetensors file of tensors, that is compared with its size and SHA-256 when it is read."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from discreet.clipping.digests import TYPE_NAMES
from discreet.core.errors import InputError
from discreet.training.run.state_json import Shard, numbers_of

ADVICE = (
    "restore it from a copy, or delete checkpoint.json and all checkpoint-*.safetensors beside it to go on from the "
    "first model; what was charged stays charged"
)

_OF_NAMES = {name: dtype for dtype, name in TYPE_NAMES.items()}

_LENGTH = 8
"""Bytes at the beginning of a part that say how long its head is."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of tensors: its name, its size in bytes, its SHA-256."""

    file: str
    size: int
    sha256: str


class Gone(InputError):
    """There is no file with the name of a part."""


@contextmanager
def read_part(path: Path, part: Part) -> Iterator[Mapping[str, Callable[[], Tensor]]]:
    """By name, a function that reads a tensor of a part, from the same mapping of the file that was hashed."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            if os.fstat(file.fileno()).st_size != part.size or part.size < _LENGTH:
                raise damaged(path, "it was changed, cut, or is of another checkpoint")
            held = stack.enter_context(mmap.mmap(file.fileno(), part.size, access=mmap.ACCESS_READ))
            if hashlib.sha256(held).hexdigest() != part.sha256:
                raise damaged(path, "it was changed, cut, or is of another checkpoint")
            tensors = _tensors_of(held)
        except FileNotFoundError:
            raise Gone(str(damaged(path, "there is no such file"))) from None
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(path, str(error)) from None
        yield tensors


def _tensors_of(held: mmap.mmap) -> dict[str, Callable[[], Tensor]]:
    """A reader for each tensor of a file as `head_of` describes them. `ValueError` or the like for a head unlike it."""
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


def damaged(path: Path, reason: str) -> InputError:
    """The error for a file of a checkpoint that cannot be used."""
    return InputError(f"cannot read {path} of the checkpoint: {reason:.200}; {ADVICE}")


def head_of(tensors: Mapping[str, Tensor | Shard]) -> tuple[bytes, dict[str, int]]:
    """The beginning of a file of tensors, and their sizes in bytes in its order: wide numbers first, so that all lie at
    multiples of their width."""
    facts, sizes, end = {}, {}, 0
    owned = {name: one.own if isinstance(one, Shard) else one for name, one in tensors.items()}
    for name in sorted(owned, key=lambda name: -_kept(owned[name])[0].itemsize):
        dtype, count = _kept(owned[name])
        if dtype not in TYPE_NAMES:
            raise InputError(f"{name} has numbers of type {dtype}, which a checkpoint cannot keep")
        sizes[name] = count * dtype.itemsize
        facts[name] = {"dtype": TYPE_NAMES[dtype], "shape": [count], "data_offsets": [end, end + sizes[name]]}
        end += sizes[name]
    head = json.dumps(facts, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(_LENGTH, "little") + head, sizes


def _kept(value: Tensor) -> tuple[torch.dtype, int]:
    """The type of the numbers that are kept of a tensor, and how many they are."""
    return value.dtype.to_real(), value.numel() * (2 if value.is_complex() else 1)


def bytes_of(value: Tensor | Shard) -> memoryview:
    return numbers_of(value).view(torch.uint8).numpy().data
