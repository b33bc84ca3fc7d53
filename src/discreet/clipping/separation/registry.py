"""Rules by the name of an operator: from the labels of its arguments to the labels of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from discreet.clipping.separation.labels import MIXED, SHARED, Label, as_rows, joined
from discreet.clipping.separation.recording.program import Op, Ref

Rule = Callable[["Given"], "Label | list[Label]"]
"""From the arguments of an operator to the label of its outputs: one label for all, or a list with one for each."""

_Rule = TypeVar("_Rule", bound=Rule)

RULES: dict[str, Rule] = {}
"""Rules by the name of the operator, without its overload and without the final `_` of operators in place."""


SIZES: dict[str, frozenset[str]] = {}
"""The arguments that may depend on the number of examples (sizes and places), by the name of the operator."""


FAILING: dict[str, str] = {}
"""Operators with a rule that may fail by the numbers they are given, each with the name of the tensor that decides it,
or "" for any. Operators without a rule may do so too, unless they work entry by entry."""


def fails(*operators: str, by: str = "") -> None:
    """Enter operators that may fail by the numbers of the argument `by`, or of any; others with a rule never do."""
    FAILING.update(dict.fromkeys(operators, by))


def sizes(names: str, *operators: str) -> None:
    """Enter the arguments (separated by spaces) that are sizes or places for these operators."""
    SIZES.update(dict.fromkeys(operators, frozenset(names.split())))


def rule(*names: str) -> Callable[[_Rule], _Rule]:
    """Enter a rule for the operators of these names; used as a decorator."""

    def enter(function: _Rule) -> _Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


@dataclass(slots=True)
class Value:
    """A tensor among the arguments of an operator. `read`: whether the rule has asked for its label."""

    found: Label
    shape: tuple[int, ...]
    ref: Ref
    mask: bool = False
    read: bool = False

    @property
    def label(self) -> Label:
        self.read = True
        return self.found

    @property
    def dims(self) -> int:
        return len(self.shape)


class Given:
    """The arguments of an operator by the names of its schema, with defaults; the shapes of its outputs; and `grows`,
    the names of the arguments that hold numbers that grow with the batch."""

    def __init__(
        self,
        op: Op,
        shapes: tuple[tuple[int, ...], ...],
        values: Callable[[Any], Any],
        batch: int,
        grows: frozenset[str],
    ) -> None:
        self.func, self.batch, self.shapes, self.grows = op.func, batch, shapes, grows
        names = [one.name for one in op.func._schema.arguments]
        self._values = {one.name: one.default_value for one in op.func._schema.arguments if one.has_default_value()}
        self._values |= {name: values(value) for name, value in zip(names, op.args, strict=False)}
        self._values |= {name: values(value) for name, value in op.kwargs}

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name)

    @property
    def first(self) -> Value:
        """The first tensor."""
        return self.tensors[0]

    @property
    def tensors(self) -> list[Value]:
        """All tensors in order, also those in lists, without arguments that are only written to (`out`)."""
        found: list[Value] = []
        only_written = {one.name for one in self.func._schema.arguments if one.kwarg_only and one.is_out}
        for name, value in self._values.items():
            if name in only_written:
                continue
            found += tensors_in(value)
        return found

    @property
    def written(self) -> list[str]:
        """The names of the arguments to which the operator writes."""
        arguments = self.func._schema.arguments
        return [one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write]

    @property
    def gives_numbers(self) -> bool:
        """Whether the operator returns something else than tensors that is made of their numbers."""
        return not self.is_of_shape and not all("Tensor" in str(one.type) for one in self.func._schema.returns)

    @property
    def is_of_shape(self) -> bool:
        """Whether the operator asks for what is public of tensors."""
        name = self.func._schema.name.removeprefix("aten::")
        return name.startswith(_OF_SHAPE) or name in ("size", "stride", "storage_offset", "dim", "_version")

    @property
    def may_fail(self) -> bool:
        """Whether its numbers may make the operator fail."""
        name = self.func._schema.name.removeprefix("aten::")
        bare = name.removesuffix("_")
        if (by := FAILING.get(name, FAILING.get(bare))) is not None:
            return not by or isinstance(self[by], Value) or self[by] in _TO_WHOLE
        known = name in RULES or bare in RULES or torch.Tag.pointwise in self.func.tags
        return not known and not self.is_of_shape

    @property
    def only_checks(self) -> bool:
        """Whether the operator does nothing but fail if an entry of what it is given is not as it should be."""
        return self.func._schema.name in _CHECKS

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first output."""
        return self.shapes[0]

    def rows(self, one: Value) -> Label:
        """The label of a tensor, as `as_rows` turns it."""
        return as_rows(one.label, one.shape, self.batch)

    def without_numbers(self) -> None:
        """State that only the shape and type of the argument `self` matter, if there is one."""
        value = self["self"]
        if isinstance(value, Value):
            value.read = True

    def all_shared(self, *others: Value | None) -> bool:
        """Whether all of these (None for absent ones) are the same for every batch."""
        return all(one is None or one.label == SHARED for one in others)


_TO_WHOLE = ("floor", "trunc")

_CHECKS = ("aten::_linalg_check_errors", "aten::_assert_async", "aten::_functional_assert_async")

_OF_SHAPE = ("is_", "_is_", "_has_", "sym_")
"""Names of operators that return what is public of tensors begin with these."""


def tensors_in(value: Any) -> list[Value]:
    """The tensors of an argument, which may be a list of them."""
    return [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Value)]


fails("remainder", "fmod")  # whole numbers, by zero
fails("div", by="rounding_mode")
fails("pow", by="exponent")


def entry_by_entry(given: Given) -> Label:
    """The rule of operators that work entry by entry on broadcast tensors."""
    if any(math.prod(shape) and tuple(shape) != given.shape for shape in given.shapes):
        return MIXED
    return joined([(one.label, one.shape) for one in given.tensors], given.shape, given.batch)
