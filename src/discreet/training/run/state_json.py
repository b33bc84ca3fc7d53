"""States of models and optimizers as JSON and named tensors: values, never code.

What `state_dict` returns is made of numbers, text, tensors, and lists, tuples and dictionaries of them. All but tensors
becomes JSON, in which an object says the kind of what JSON has no word for: `{"tuple": [1, 2]}`. A tensor becomes its
name, which is the way to it, its type and its shape.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from discreet.core.errors import InputError, kind_of

Way = tuple[object, ...]
"""The keys that lead to a value, from the outermost."""

_MAPPINGS: Mapping[str, type[dict[Any, Any]]] = {one.__name__: one for one in (dict, OrderedDict, Counter)}

_TYPES = {str(one).removeprefix("torch."): one for one in vars(torch).values() if isinstance(one, torch.dtype)}


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """The part of a tensor of this `shape` that this process has: numbers in a row. Those of all processes, one after
    the other, are the tensor."""

    own: Tensor
    shape: torch.Size


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor as JSON describes it. `strides`: where it did not lie in memory row by row."""

    name: str
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...] | None = None

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> NamedTensor:
        """The description that `as_dict` wrote. `InputError` for one that no tensor has."""
        name, dtype, shape, strides = facts["tensor"], _TYPES.get(facts["dtype"]), facts["shape"], facts.get("strides")
        fits = dtype is not None and _is_sizes(shape) and (strides is None or _is_dense(shape, strides))
        if dtype is None or not fits:
            raise InputError(f"the checkpoint describes {name!s:.100} as no tensor is; its index was changed")
        return cls(name, dtype, torch.Size(shape), None if strides is None else tuple(strides))

    def as_dict(self) -> dict[str, object]:
        """The description as JSON."""
        facts: dict[str, object] = {
            "tensor": self.name,
            "dtype": str(self.dtype).removeprefix("torch."),
            "shape": list(self.shape),
        }
        return facts if self.strides is None else facts | {"strides": list(self.strides)}

    @property
    def kept_type(self) -> torch.dtype:
        """The type of the numbers that are kept: complex ones are two real ones."""
        return self.dtype.to_real()

    def of(self, numbers: Tensor) -> Tensor:
        """The tensor, of its kept `numbers` in a row. `InputError` if there are more or fewer than its shape needs."""
        wanted = self.shape.numel() * (2 if self.dtype.is_complex else 1)
        if numbers.numel() != wanted:
            raise InputError(f"the checkpoint has {numbers.numel()} numbers of {self.name}, not {wanted}")
        found = torch.view_as_complex(numbers.reshape(-1, 2)) if self.dtype.is_complex else numbers
        found = found.reshape(self.shape)
        return found if self.strides is None else _strided(found, self.strides)


def numbers_of(value: Tensor | Shard) -> Tensor:
    """The numbers of a tensor that are kept, in a row, in the memory of the host."""
    own = (value.own if isinstance(value, Shard) else value).detach()
    real = torch.view_as_real(own.resolve_conj()) if own.is_complex() else own
    return real.resolve_neg().contiguous().reshape(-1).cpu()


def encoded(state: object) -> tuple[Any, dict[str, Tensor | Shard]]:
    """A state as JSON, and its tensors by name. A tensor that stands in two places is named once.

    `InputError` for a value that is neither number nor text nor made of them.
    """
    encoder = _Encoder()
    return encoder.encode(state, ()), encoder.tensors


class _Encoder:
    def __init__(self) -> None:
        self.tensors: dict[str, Tensor | Shard] = {}
        self._named: dict[object, str] = {}

    def encode(self, value: Any, way: Way) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if kind in (list, tuple):
            inside = [self.encode(one, (*way, place)) for place, one in enumerate(value)]
            return inside if kind is list else {"tuple": inside}
        if kind in _MAPPINGS.values():
            pairs = [[self.encode(key, way), self.encode(one, (*way, key))] for key, one in value.items()]
            more = getattr(value, "_metadata", None)  # versions of modules, which torch keeps beside a state
            return {kind.__name__: pairs} | ({} if more is None else {"metadata": self.encode(more, way)})
        if isinstance(value, Tensor | Shard):
            return self._tensor(value, way)
        raise InputError(
            f"{_words(way)} is {kind_of(value)}, which a checkpoint cannot keep: a state is made of numbers, text, "
            "tensors, and lists, tuples and dictionaries of them"
        )

    def _tensor(self, value: Tensor | Shard, way: Way) -> dict[str, object]:
        one = value.own if isinstance(value, Shard) else value
        if one.layout is not torch.strided or one.is_quantized:
            raise InputError(f"{_words(way)} is sparse or quantized, which a checkpoint cannot keep")
        if not _has_numbers(one):
            raise InputError(
                f"{_words(way)} is {kind_of(one)} without numbers of its own, which a checkpoint cannot keep"
            )
        strides = None
        if isinstance(value, Tensor) and not value.is_contiguous():
            strides = torch.empty_like(value, device="meta").stride()
        name = self._named.get(_identity(value)) or self._new(value, _words(way))
        return NamedTensor(name, one.dtype, value.shape, strides).as_dict()

    def _new(self, value: Tensor | Shard, words: str) -> str:
        name = next(one for one in _names(words) if one not in self.tensors)
        self.tensors[name] = value
        self._named[_identity(value)] = name
        return name


def decoded(tree: Any, take: Callable[[Way, NamedTensor], Tensor], way: Way = ()) -> Any:
    """The state that was written as `tree`. `take` gives each tensor, in the order of the tree."""
    if isinstance(tree, list):
        return [decoded(one, take, (*way, place)) for place, one in enumerate(tree)]
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        return take(way, NamedTensor.read(tree))
    if "float" in tree:
        return float(tree["float"])
    if "tuple" in tree:
        return tuple(decoded(tree["tuple"], take, way))
    kind = next(iter(tree))
    found = _MAPPINGS[kind]()
    for pair in tree[kind]:
        key = decoded(pair[0], take, way)
        found[key] = decoded(pair[1], take, (*way, key))
    if "metadata" in tree:
        found._metadata = decoded(tree["metadata"], take, way)  # type: ignore[attr-defined]
    return found


def _is_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 2**63 for one in value)


def _is_dense(shape: list[int], strides: object) -> bool:
    """Whether numbers with these strides lie within as much memory as the shape has numbers."""
    if not _is_sizes(strides) or len(strides) != len(shape):
        return False
    if 0 in shape:
        return True
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return reach < math.prod(shape)


def _strided(value: Tensor, strides: tuple[int, ...]) -> Tensor:
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)


def _identity(value: Tensor | Shard) -> object:
    """The same for two tensors that are one."""
    if isinstance(value, Shard) or value.numel() == 0:
        return id(value)
    seen = value.is_conj(), value.is_neg()
    return value.data_ptr(), value.dtype, value.shape, value.stride(), str(value.device), seen


def _has_numbers(value: Tensor) -> bool:
    """Whether there is memory behind a tensor: not for one that lies on "meta", or only wraps others."""
    try:
        return value.numel() == 0 or value.data_ptr() != 0
    except (RuntimeError, NotImplementedError):
        return False


def _names(words: str) -> Iterator[str]:
    yield words
    yield from (f"{words} ({number})" for number in itertools.count(1))


def _words(way: Way) -> str:
    return ".".join(str(one) for one in way) or "the state"
