"""Containers of tensors that torch takes apart by code of its own, or of `transformers`.

Others are registered with functions of anybody (`torch.utils._pytree`), which run wherever tensors are looked for in
what a module is given or returns, and which no record sees there.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from functools import cache
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from discreet.core.errors import UnsupportedModel, kind_of
from discreet.core.imports.origin import bases, held_by, is_from

_LISTS, _TABLES = (tuple, list, deque), (dict, OrderedDict, defaultdict)

_KEYS = (str, int, float, bool, bytes, type(None))

_PACKAGES = frozenset({"torch", "transformers", "collections", "builtins"})

_READING = frozenset(
    {
        *("__iter__", "__len__", "__length_hint__", "__getitem__", "__getattribute__", "__getattr__", "__setattr__"),
        *("__setitem__", "__post_init__", "values", "keys", "items"),
    }
)
"""Methods by which such containers are read, and made again."""


def check_containers(values: Any) -> None:
    """`UnsupportedModel` for a container, also in others, that somebody else's code takes apart or puts together."""
    todo = [values]
    while todo:
        one = todo.pop()
        kind: Any = type(one)  # `Any`, as not all types of torch are `Hashable`
        if kind is Tensor or one is None:
            continue
        if kind in _LISTS:
            todo += one
        elif kind in _TABLES:
            if not _is_plain_table(one):
                raise UnsupportedModel(
                    f"a module is given, or returns, {kind_of(one)} with objects as keys, or with a function for "
                    "missing ones; use text or numbers as keys of a dict, or engine='vmap'"
                )
            todo += one.values()
        elif issubclass(kind, tuple) or kind in _pytree.SUPPORTED_NODES:
            if not _is_known(kind, _pytree.SUPPORTED_NODES.get(kind)):
                raise UnsupportedModel(
                    f"a module is given, or returns, {kind_of(one)}, which code of its own takes apart; use tuples, "
                    "lists and dictionaries, or engine='vmap'"
                )
            todo += tuple.__iter__(one) if issubclass(kind, tuple) else _pytree.SUPPORTED_NODES[kind].flatten_fn(one)[0]


def _is_plain_table(table: Any) -> bool:
    """Whether a dictionary holds nothing but by its values: torch keeps keys as they are, and what makes values for
    missing ones."""
    made = getattr(table, "default_factory", None)
    return (made is None or isinstance(made, type)) and all(type(key) in _KEYS for key in table)


@cache
def _is_known(kind: type, node: Any) -> bool:
    """Whether objects of a type are read and made by code of torch or `transformers`, and by Python's own. `node`: how
    torch takes them apart, if it has been told."""
    if node is not None and not all(is_from(one, *_PACKAGES) for one in (node.flatten_fn, node.unflatten_fn)):
        return False
    return all(_is_plain(one) for one in bases(kind) if not is_from(one, *_PACKAGES))


def _is_plain(kind: type) -> bool:
    """Whether a class derived from a container is read as that is, and made by what Python writes for it, as for a
    dataclass or a named tuple."""
    held = held_by(kind)
    made = [held.get(name) for name in ("__new__", "__init__")]
    written = all(one is None or _code(one).co_filename.startswith("<") for one in made)
    return written and _READING.isdisjoint(held)


def _code(function: Any) -> Any:
    return getattr(function, "__func__", function).__code__
