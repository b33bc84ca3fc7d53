"""The proof that a program keeps examples apart: every tensor gets a label, operator by operator.

An operator without a rule in the table, or one that is given what its rule does not cover, makes what it returns
`MIXED`. That may be looked at by nobody: it is no fault until it reaches an output of the model, a module with
parameters, memory that stays, Python, or the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from discreet.clipping.separation.labels import (
    BATCH,
    MIXED,
    SHARED,
    UNIFORM,
    Label,
    Rows,
    as_rows,
    joined,
    sized,
)
from discreet.clipping.separation.program import Argument, Op, Ref, Template, described
from discreet.clipping.separation.spans import reads_from_outside

Rule = Callable[["Given"], "Label | list[Label]"]
"""From what an operator is given to the label of what it returns: one for all parts, or one for each."""

RULES: dict[str, Rule] = {}
"""Rules by the name of the operator, without its overload and the mark of one in place."""


SIZES: dict[str, frozenset[str]] = {}
"""The arguments that may be, or name, the number of examples, by the name of the operator."""


def sizes(names: str, *operators: str) -> None:
    """Enter arguments for operators whose shape or place they are."""
    SIZES.update(dict.fromkeys(operators, frozenset(names.split())))


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a rule for the operators of these names."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


class Mixes(Exception):
    """A program that is not proved to keep examples apart, and why."""


@dataclass(slots=True)
class Value:
    """A tensor that an operator is given."""

    label: Label
    shape: tuple[int, ...]
    ref: Ref
    mask: bool = False

    @property
    def dims(self) -> int:
        return len(self.shape)


class Given:
    """What an operator is given, by the names of its schema, with defaults; the shapes of what it returned; and the
    names of the arguments with numbers that grow with the batch."""

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
        """All tensors, in order; those of lists as well. What is written to and not read (`out`) is left out."""
        found: list[Value] = []
        only_written = {one.name for one in self.func._schema.arguments if one.kwarg_only and one.is_out}
        for name, value in self._values.items():
            if name in only_written:
                continue
            found += [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Value)]
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first tensor that was returned."""
        return self.shapes[0]

    def all_shared(self, *others: Value | None) -> bool:
        """Whether these are the same for every batch, if they are there at all."""
        return all(one is None or one.label == SHARED for one in others)


def prove(template: Template) -> None:
    """`Mixes` unless a program, for a batch of any size, computes of each example what it would compute of it alone.

    Errors name the operator, and the module that it ran in.
    """
    program = template.one
    if program.fault is not None:
        raise Mixes(program.fault)
    labels = Labels(template)
    for number, op in enumerate(program.ops):
        labels.follow(number, op)
    for argument in program.returned:
        if labels.of(argument.ref) not in (BATCH, SHARED, UNIFORM):
            raise Mixes(labels.why("what the model returns"))
    for held in program.held:
        label = labels.of(held.tensor.ref)
        if held.axis < 0 and (isinstance(label, Rows) or label in (SHARED, UNIFORM)):
            continue
        if label not in (Rows(held.axis), UNIFORM):
            what = f"what module {held.module or 'model'!r} works on, along axis {held.axis},"
            raise Mixes(labels.why(what) if label == MIXED else f"{what} is not one example after the other")
    if (reason := reads_from_outside(program, labels.of)) is not None:
        raise Mixes(reason)


class Labels:
    """The labels of the tensors of a program, as far as it was followed."""

    def __init__(self, template: Template) -> None:
        self._template, self._program, self._batch = template, template.one, template.one.batch
        self._labels: dict[Ref, Label] = {}
        self._aliases: dict[Ref, tuple[int, Ref, bool]] = {}
        self._mixed: str | None = None

    def of(self, ref: Ref) -> Label:
        """The label of a tensor. Gradients have their examples where the tensor has them that they belong to."""
        if ref.kind in ("state", "kept", "empty"):
            return self._labels.get(ref, SHARED)
        if ref.kind == "input":
            return self._labels.get(ref, BATCH)
        if ref.kind == "gradient":
            axes = sized(ref.at, self._batch)
            return Rows(axes[0]) if len(axes) == 1 and ref.at[axes[0]] == self._batch else MIXED
        return self._labels[ref]

    def why(self, what: str) -> str:
        """The reason for a fault, with the operator where examples met first."""
        return f"{what} depends on several examples, by {self._mixed}" if self._mixed else f"{what} cannot be followed"

    def follow(self, number: int, op: Op) -> None:
        """Give labels to what operator `number` returned and wrote to."""
        given = self._given(number, op)
        found = self._found(given)
        parts = list(found) if isinstance(found, list) else [found] * max(1, len(given.shapes))
        for part in range(len(parts)):
            if (number, part) in self._template.odd:
                parts[part] = MIXED
        name = described(self._program, number)
        if MIXED in parts and self._mixed is None:
            self._mixed = name
        self._check(given, op, parts, name)
        for part, label in enumerate(parts):
            self._labels[Ref("made", number, part)] = label
        self._write(number, op, given, parts, name)

    def _given(self, number: int, op: Op) -> Given:
        grows = self._template.grows(number)
        return Given(op, self._program.seen[number].shapes, self._value, self._batch, grows)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Argument):
            label = self.of(value.ref)
            if value.ref.kind == "empty" and sized(value.shape, self._batch):
                label = UNIFORM
            return Value(label, value.shape, value.ref, value.mask)
        if value in ("True", "False"):
            return value == "True"
        return tuple(map(self._value, value)) if isinstance(value, tuple) else value

    def _found(self, given: Given) -> Label | list[Label]:
        name = given.func._schema.name.removeprefix("aten::")
        labels = {one.label for one in given.tensors}
        known = RULES.get(name) or RULES.get(name.removesuffix("_")) if "::" not in name else None
        if given.grows and not given.grows <= SIZES.get(name.removesuffix("_"), frozenset()):
            return MIXED  # the number of examples, as a number
        if known is not None:
            return known(given)
        if "::" in name:
            return MIXED
        if labels <= {SHARED} and not any(sized(shape, self._batch) for shape in given.shapes):
            return SHARED
        if torch.Tag.pointwise in given.func.tags and len(set(given.shapes)) == 1:
            return entry_by_entry(given)
        return MIXED

    def _check(self, given: Given, op: Op, parts: list[Label], name: str) -> None:
        """Refuse what gets out: to Python, or to the gradients."""
        tags = given.func.tags
        read: list[Value] = []
        if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
            read = given.tensors
            if given["indices"] is not None:  # whose numbers matter if they are masks
                read = [one for one in given["indices"] if isinstance(one, Value) and one.mask]
        if any(one.label != SHARED for one in read):
            raise Mixes(f"what runs depends on the numbers of examples, by {name}")
        if op.back and not all(label in (SHARED, UNIFORM) or isinstance(label, Rows) for label in parts):
            raise Mixes(f"gradients of examples meet in the backward pass, or cannot be followed, by {name}")

    def _write(self, number: int, op: Op, given: Given, parts: list[Label], name: str) -> None:
        """Give their new labels to tensors that were written to, and to what shares memory with them."""
        arguments = op.func._schema.arguments
        places = [i for i, one in enumerate(arguments) if one.alias_info is not None and one.alias_info.is_write]
        for part, place in enumerate(places):
            value = given[arguments[place].name]
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Value):
                    label = parts[min(part, len(parts) - 1)]
                    self._labels[Ref("made", number, -1 - part)] = label
                    self._aliases[Ref("made", number, -1 - part)] = number, one.ref, False
                    self._written(one, label, name)
        for part, base in enumerate(self._program.seen[number].shares):
            if base is not None:
                self._aliases[Ref("made", number, part)] = number, base, not places

    def _written(self, one: Value, label: Label, name: str) -> None:
        root, whole = self._root(one.ref)
        allowed = {"made": label, "kept": SHARED, "input": BATCH}  # whatever is written to what is made anew
        if allowed.get(root.kind) != label or (one.label != label and root.kind == "kept"):
            raise Mixes(f"{name} writes to {_held(root)}")
        before = self.of(root)
        if label == one.label and (isinstance(label, Rows) or label == SHARED == before or (whole and label != MIXED)):
            return
        if not whole and before == UNIFORM and label in (SHARED, UNIFORM):
            label = as_rows(UNIFORM, one.shape, self._batch) if sized(one.shape, self._batch) else MIXED
        candidates: list[Label] = []
        if whole:
            candidates = [label]
        elif before == UNIFORM and isinstance(label, Rows):
            shape = self._program.seen[root.at].shapes[max(0, root.part)] if root.kind == "made" else ()
            candidates = [*_places(shape, self._batch)]
        if label == MIXED or not any(self._fits(root, candidate, one.ref, label) for candidate in candidates):
            for ref in (root, *self._over(root)):
                self._labels[ref] = MIXED
            self._mixed = self._mixed or name

    def _fits(self, root: Ref, candidate: Label, written: Ref, label: Label) -> bool:
        """Whether what was written to has its label if the memory as a whole has the candidate's; then all that lies
        over that memory has what follows of it."""
        self._labels[root] = candidate
        for ref in self._over(root):
            number, base, is_view = self._aliases[ref]
            if is_view:
                found = self._found(self._given(number, self._program.ops[number]))
                self._labels[ref] = found[ref.part] if isinstance(found, list) else found
            else:
                self._labels[ref] = self.of(base)
        return self.of(written) == label

    def _over(self, root: Ref) -> list[Ref]:
        return [ref for ref in self._aliases if ref != root and self._root(ref)[0] == root]

    def _root(self, ref: Ref) -> tuple[Ref, bool]:
        """The tensor that had this memory first, and whether no view lies between."""
        whole = True
        while ref in self._aliases:
            _, ref, is_view = self._aliases[ref]
            whole = whole and not is_view
        return ref, whole


def _places(shape: tuple[int, ...], batch: int) -> list[Rows]:
    """Everywhere that examples may be."""
    return [
        Rows(axis, shape[axis] // batch // inner, inner)
        for axis in sized(shape, batch)
        for inner in range(1, shape[axis] // batch + 1)
        if shape[axis] // batch % inner == 0
    ]


def _arguments(values: Any) -> list[Argument]:
    if isinstance(values, Argument):
        return [values]
    return [found for one in values for found in _arguments(one)] if isinstance(values, tuple) else []


def _held(ref: Ref) -> str:
    return {"state": f"{ref.at!r}", "input": "the examples themselves"}.get(ref.kind, "a tensor that stays")


def entry_by_entry(given: Given) -> Label:
    """The rule of operators that work on each entry of tensors that are broadcast."""
    if any(math.prod(shape) and tuple(shape) != given.shape for shape in given.shapes):
        return MIXED
    return joined([(one.label, one.shape) for one in given.tensors], given.shape, given.batch)
