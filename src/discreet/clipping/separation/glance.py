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

import torch
from torch import Tensor, nn

from discreet.clipping.losses import holds_nothing


class Glance:
    """The objects that the modules of `model` hold now. `others`: losses of torch, which hold nothing."""

    def __init__(self, modules: list[_Held], others: tuple[object, ...]) -> None:
        self._modules, self._others = modules, others

    @classmethod
    def at(cls, plain: tuple[type, ...], model: object, *others: object) -> Glance | None:
        """None if anything could change without being another object. `plain`: types whose objects cannot change."""
        if not isinstance(model, nn.Module) or not all(map(holds_nothing, others)):
            return None
        try:
            return cls([_Held(module, plain) for module in model.modules()], others)
        except _MayChange:
            return None

    def is_kept(self, *others: object) -> bool:
        """Whether the modules and these losses certainly hold the same; if not, they may do so all the same."""
        return (
            _same(others, self._others)
            and all(map(holds_nothing, others))
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
        parameters = [one for one in own[0].values() if one is not None]
        self.parameters = [(one, type(one), one.requires_grad, strides_of(one)) for one in parameters]
        slots = copyreg._slotnames(self.kind)  # type: ignore[attr-defined]
        if slots or is_more(self.kind) or not all(map(_is_bare, parameters)):
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
                type(one) is kind and one.requires_grad is needed and strides_of(one) == strides and _is_bare(one)
                for one, kind, needed, strides in self.parameters
            )
        )


def hooks_of(tensor: Tensor) -> tuple[object, object]:
    """The hooks on a tensor; None where it has had none."""
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def strides_of(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor; None if it is not an array in memory."""
    return tensor.stride() if tensor.layout == torch.strided else None


def is_more(kind: type[nn.Module]) -> bool:
    """Whether modules of this type may hold something beside attributes, as one that is a list as well does."""
    return kind.__basicsize__ != nn.Module.__basicsize__ or kind.__itemsize__ != 0


def _is_bare(parameter: Tensor) -> bool:
    """Whether a parameter has no gradient, no attributes and no hooks."""
    own, later = hooks_of(parameter)
    return parameter.grad is None and not parameter.__dict__ and not own and not later


def _same(now: Collection[object], before: Collection[object]) -> bool:
    """Whether these are the very same objects."""
    return len(now) == len(before) and all(map(is_, now, before))
