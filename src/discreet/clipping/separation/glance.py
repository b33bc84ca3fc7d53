"""A glance at modules: do they hold the very same parameters, plain values and containers of plain values as before?

Numbers, text and functions cannot change, so the same objects hold the same. A walk through what modules hold
(`memory`) gives the same answer; it takes several times as long, because it lists everything first. Only what may
change and be the same object is left to such a walk.
"""

from __future__ import annotations

import copyreg
import itertools
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.losses import holds_nothing


class Glance:
    """The objects that the modules of `model`, and `others`, hold now. `plain`: types whose objects cannot change.

    `rest`: objects among them that may change without being another object.
    """

    def __init__(self, plain: tuple[type, ...], model: nn.Module, *others: object) -> None:
        self._plain, self._others, self._modules = plain, others, [*model.modules()]
        self._tables: list[Any] = []  # dictionaries, modules' own among them, and lists, as all modules hold them
        self._lists: list[list[Any]] = []
        self._empty: list[Any] = []  # containers without anything in them, such as those of hooks
        self._parameters: list[Tensor] = []
        odd = [one for module in self._modules for one in self._odd_in(module)]
        self.rest = (*odd, *(one for one in others if not holds_nothing(one)))
        self._sizes, self._objects = self._now()
        self._facts = _facts(self._parameters)

    @classmethod
    def of(cls, plain: tuple[type, ...], model: nn.Module, *others: object) -> Glance | None:
        """A glance, or None where the modules cannot be looked at so."""
        try:
            return cls(plain, model, *others)
        except Exception:  # an object may raise any error
            return None

    def _odd_in(self, module: nn.Module) -> list[object]:
        """The attributes of a module that can be changed in place, which need a walk. The others are noted, to be
        compared as objects."""
        held = vars(module)
        own = held["_parameters"], held["_modules"]
        self._tables += own
        parameters = [one for one in own[0].values() if one is not None]
        slots = copyreg._slotnames(type(module))  # type: ignore[attr-defined]
        if slots or is_more(type(module)) or not all(map(_is_bare, parameters)):
            return [module]
        self._parameters += parameters
        return [*self._odd_among([one for one in held.values() if one is not own[0] and one is not own[1]], set())]

    def _odd_among(self, values: Iterable[Any], known: set[int]) -> Iterator[object]:
        for value in values:
            kind = type(value)
            if kind in self._plain or id(value) in known:
                continue
            known.add(id(value))
            if kind in (dict, OrderedDict, set, list) and not is_more_than_empty(value):
                self._empty.append(value)
            elif kind is dict:
                self._tables.append(value)
                yield from self._odd_among((*value, *value.values()), known)
            elif kind is list or kind is tuple:
                self._lists += [value] if kind is list else []
                yield from self._odd_among(value, known)
            else:
                yield value

    def _now(self) -> tuple[list[int], list[list[object]]]:
        """The lengths of all containers, and what they hold; both with the attributes and types of modules."""
        tables = [*map(vars, self._modules), *self._tables]
        containers = [*tables, *self._lists]
        values = itertools.chain.from_iterable(table.values() for table in tables)
        objects = [*map(type, self._modules)], [*itertools.chain.from_iterable(containers)], [*values]
        return [*map(len, containers)], [*objects]

    def is_kept(self, *others: object) -> bool:
        """True if nothing has changed in the modules and `others`, apart from inside the objects of `rest`. False says
        nothing: a full walk decides then."""
        try:
            return self._holds_the_same(others)
        except Exception:  # an object may raise any error
            return False

    def _holds_the_same(self, others: tuple[object, ...]) -> bool:
        sizes, objects = self._now()
        return (
            _same(others, self._others)
            and all(holds_nothing(one) or any(one is other for other in self.rest) for one in others)
            and sizes == self._sizes
            and all(map(_same, objects, self._objects))
            and not any(map(is_more_than_empty, self._empty))
            and all(map(_is_bare, self._parameters))
            and _facts(self._parameters) == self._facts
        )


def hooks_of(tensor: Tensor) -> tuple[object, object]:
    """The hooks on a tensor; None where it has had none."""
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def is_more_than_empty(container: Any) -> bool:
    """Whether a container is not empty, or has attributes (an `OrderedDict` can have some)."""
    return bool(container) or (type(container) is OrderedDict and bool(vars(container)))


def is_more(kind: type[nn.Module]) -> bool:
    """Whether modules of this type may hold something beside attributes, as one that is a list as well does."""
    return kind.__basicsize__ != nn.Module.__basicsize__ or kind.__itemsize__ != 0


def _is_bare(parameter: Tensor) -> bool:
    """Whether a parameter is a strided tensor without gradient, attributes and hooks."""
    own, later = hooks_of(parameter)
    bare = parameter.grad is None and not parameter.__dict__ and not own and not later
    return bare and parameter.layout is torch.strided


def _facts(parameters: list[Tensor]) -> list[tuple[object, ...]]:
    """For each parameter its type, shape and layout in memory, but not its values.

    Addresses may differ from run to run, so memory is named by the first parameter that uses it.
    """
    first: dict[int, int] = {}
    found: list[tuple[object, ...]] = []
    for place, one in enumerate(parameters):
        memory = one.untyped_storage()
        where = first.setdefault(memory.data_ptr(), place), memory.nbytes(), one.storage_offset(), one.stride()
        found.append((type(one), one.requires_grad, one.shape, one.dtype, *where))
    return found


def _same(now: Collection[object], before: Collection[object]) -> bool:
    """Whether these are the very same objects."""
    return len(now) == len(before) and all(map(is_, now, before))
