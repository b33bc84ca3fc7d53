"""A glance at modules that hold only parameters and plain values: are these still the very same objects?

Numbers, text and functions cannot change, so the same objects hold the same. A walk through what modules hold
(`memory`) gives the same answer; it takes several times as long, because it lists everything first.
"""

from __future__ import annotations

import copyreg
from collections import OrderedDict
from collections.abc import Collection
from operator import is_
from typing import Any

from torch import Tensor, nn

from discreet.clipping.losses import is_of_torch


class Glance:
    """The objects that the modules of `model` hold now. `others`: losses of torch, which hold nothing."""

    def __init__(self, modules: list[_Held], others: tuple[object, ...]) -> None:
        self._modules, self._others = modules, others

    @classmethod
    def at(cls, plain: tuple[type, ...], model: object, *others: object) -> Glance | None:
        """None if anything could change without being another object. `plain`: types whose objects cannot change."""
        if not isinstance(model, nn.Module) or not all(map(is_of_torch, others)):
            return None
        try:
            return cls([_Held(module, plain) for module in model.modules()], others)
        except _MayChange:
            return None

    def is_kept(self, *others: object) -> bool:
        """Whether the modules and these losses certainly hold the same; if not, they may do so all the same."""
        return (
            _same(others, self._others)
            and all(map(is_of_torch, others))
            and all(held.is_kept() for held in self._modules)
        )


class _MayChange(Exception):
    """A module holds something that may change and be the same object."""


class _Held:
    """All that one module holds. `empty`: containers without anything in them, such as those of hooks."""

    __slots__ = ("empty", "kind", "module", "names", "objects", "parameters", "tables")

    def __init__(self, module: nn.Module, plain: tuple[type, ...]) -> None:
        self.module, self.kind = module, type(module)
        held = vars(module)
        self.names, self.objects = [*held], [*held.values()]
        own = held["_parameters"], held["_modules"]
        self.tables = [(table, [*table], [*table.values()]) for table in own]
        self.empty: list[Any] = []
        for value in self.objects:
            kind = type(value)
            if value is own[0] or value is own[1]:
                continue
            if kind in (dict, OrderedDict, set) and not value:
                self.empty.append(value)
            elif not (kind in plain or (kind is tuple and all(type(one) in plain for one in value))):
                raise _MayChange
        self.parameters = [(one, type(one), one.requires_grad) for one in own[0].values() if one is not None]
        if copyreg._slotnames(self.kind) or not all(map(_is_bare, own[0].values())):  # type: ignore[attr-defined]
            raise _MayChange

    def is_kept(self) -> bool:
        held = self.module.__dict__
        return (
            type(self.module) is self.kind
            and _same(held, self.names)
            and _same(held.values(), self.objects)
            and not any(self.empty)
            and all(_same(table, names) and _same(table.values(), values) for table, names, values in self.tables)
            and all(
                type(one) is kind and one.requires_grad is needed and _is_bare(one)
                for one, kind, needed in self.parameters
            )
        )


def _is_bare(parameter: Tensor | None) -> bool:
    """Whether a parameter has neither a gradient nor attributes."""
    return parameter is None or (parameter.grad is None and not parameter.__dict__)


def _same(now: Collection[object], before: Collection[object]) -> bool:
    """Whether these are the very same objects."""
    return len(now) == len(before) and all(map(is_, now, before))
