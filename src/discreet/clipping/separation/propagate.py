"""The labels of the tensors of a program, operator by operator.

The outputs of an operator are `MIXED` if it has no rule in the table, or if its rule does not cover its arguments. A
`MIXED` tensor that nobody reads is no fault. It is one as soon as it reaches an output of the model, a module with
parameters, memory that stays, Python, or the backward pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from discreet.clipping.separation.labels import (
    BATCH,
    EMPTY,
    MIXED,
    NUMBERS,
    SHARED,
    UNIFORM,
    Every,
    Label,
    Rows,
    as_rows,
    sized,
)
from discreet.clipping.separation.of_each import OfEach
from discreet.clipping.separation.recording.program import Argument, Op, Ref, Template, described
from discreet.clipping.separation.recording.spans import refs_in
from discreet.clipping.separation.registry import RULES, SIZES, Given, Value, entry_by_entry, tensors_in
from discreet.clipping.separation.saved_memory import SavedMemory


class Mixes(Exception):
    """A program is not proved to keep examples apart; the message says why."""


class Labels:
    """The labels of the tensors of a program, up to the operator that was followed last."""

    def __init__(self, template: Template) -> None:
        self._template, self._program, self._batch = template, template.one, template.one.batch
        self._labels: dict[Ref, Label] = {}
        self._aliases: dict[Ref, tuple[int, Ref, bool]] = {}
        self._mixed: str | None = None
        self._of_each = OfEach([one.ref for one in template.one.broadcast], self._batch)
        self._saved = SavedMemory(self._program, lambda ref: self._root(ref)[0], self.of)

    def of(self, ref: Ref) -> Label:
        """The label of a tensor. A gradient has its examples where its tensor has them, found by its shape."""
        if ref.kind in ("state", "kept", "empty"):
            return self._labels.get(ref, SHARED)
        if ref.kind == "input":
            return self._labels.get(ref, BATCH)
        if ref.kind == "gradient":
            axes = sized(ref.at, self._batch)
            return Rows(axes[0]) if len(axes) == 1 and ref.at[axes[0]] == self._batch else MIXED
        return self._labels[ref]

    def why(self, what: str) -> str:
        """The reason for a fault in `what`, with the operator at which examples met first."""
        return f"{what} depends on several examples, by {self._mixed}" if self._mixed else f"{what} cannot be followed"

    def follow(self, number: int, op: Op, *, again: bool = False) -> None:
        """Give labels to the outputs of operator `number`, and to the tensors to which it wrote. `again`: a checkpoint
        computes it again of the same, so that the backward pass gets from it what was followed at first."""
        given = self._given(number, op)
        parts = self._parts(number, given)
        if self._hides_a_gradient(given, parts):
            parts = [MIXED] * len(parts)
        name = described(self._program, number)
        if MIXED in parts and given.shapes and self._mixed is None:
            common = _draws(given) and given.all_shared(*given.tensors)
            self._mixed = f"{name}, which draws numbers that examples have in common" if common else name
        self._check(given, parts, name, back=op.back and not again)
        for part, label in enumerate(parts):
            self._labels[Ref("made", number, part)] = label
        if (fault := self._of_each.follow(number, given, parts, self._program.seen[number].shares)) is not None:
            raise Mixes(f"{name} {fault}")
        self._write(number, op, given, parts, name)
        self._saved.note(number, op)

    def _parts(self, number: int, given: Given) -> list[Label]:
        """The labels of all outputs of operator `number`."""
        found, drawn = self._found(given), _draws(given)
        parts = list(found) if isinstance(found, list) else [found] * max(1, len(given.shapes))
        for part, shape in enumerate(given.shapes[: len(parts)]):
            label = parts[part]
            counts = label == NUMBERS or isinstance(label, Every)
            if (number, part) in self._template.odd or (counts and not _keeps_counts(given)):
                label = MIXED
            parts[part] = self._possible(label, shape, drawn=drawn)
        return self._of_each.labels(given, parts) if self._of_each.read_by(given) else parts

    def _possible(self, label: Label, shape: tuple[int, ...], *, drawn: bool) -> Label:
        """The label if a tensor of this shape can have it, else `MIXED`. Random numbers must be drawn for each example:
        an example that is done again alone has no random number in common with others."""
        if 0 in shape:
            return label  # it has no entries
        axes = sized(shape, self._batch)
        if drawn and label in (SHARED, UNIFORM):
            label = as_rows(UNIFORM, shape, self._batch)
        if (label == SHARED and axes) or (isinstance(label, Rows) and axes != [label.axis]):
            return MIXED
        return label

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
        known = RULES.get(name) or RULES.get(name.removesuffix("_")) if "::" not in name else None
        if given.grows and not given.grows <= SIZES.get(name.removesuffix("_"), frozenset()):
            return MIXED  # the number of examples enters as a number
        if torch.Tag.inplace_view in given.func.tags and name not in _TURNED:
            return MIXED  # other views of that memory keep their shape
        if known is not None:
            label = known(given)
            return label if all(one.read or one.found == SHARED or 0 in one.shape for one in given.tensors) else MIXED
        if "::" in name:
            if name.split("::")[0] not in _OF_TORCH:
                raise Mixes(f"{name} is not an operator of torch itself, so nobody can tell what else it writes to")
            return MIXED
        if any(one.ref.kind == "empty" for one in given.tensors) and any(map(math.prod, given.shapes)):
            return MIXED  # there is memory behind what has no entries
        labels = {one.label for one in given.tensors}
        if labels <= {SHARED} and not any(sized(shape, self._batch) for shape in given.shapes):
            return SHARED
        if torch.Tag.pointwise in given.func.tags and len(set(given.shapes)) == 1:
            return entry_by_entry(given)
        return MIXED

    def _check(self, given: Given, parts: list[Label], name: str, *, back: bool) -> None:
        """`Mixes` if numbers of examples reach Python, or mixed numbers the backward pass."""
        tags = given.func.tags
        read: list[Value] = []
        if torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags:
            read = given.tensors
            if given["indices"] is not None:  # indices whose numbers matter only if they are masks
                read = [one for one in given["indices"] if isinstance(one, Value) and one.mask]
        if given.func._schema.name == "aten::_pack_padded_sequence":
            read = [one for one in [given["lengths"]] if isinstance(one, Value)]  # they say how long the output is
        if given.gives_numbers:
            read = given.tensors
        if any(one.label != SHARED for one in read):
            raise Mixes(self.why(f"what runs depends on the numbers of examples, by {name}: that"))
        if given.may_fail and self._fails_by_several(given, parts):
            raise Mixes(self.why(f"whether {name} fails"))
        if back and not all(label in (SHARED, UNIFORM) or isinstance(label, Rows) for label in parts):
            raise Mixes(f"gradients of examples meet in the backward pass, or cannot be followed, by {name}")

    def _fails_by_several(self, given: Given, parts: Sequence[Label]) -> bool:
        """Whether several examples may decide if an operator fails. One that fails makes a chunk be done again, one
        example at a time; and it may do so because of a single one alone, which then fails wherever it is."""
        labels = {one.found for one in given.tensors}
        if given.only_checks:
            return not all(label in (SHARED, UNIFORM) or isinstance(label, Rows) for label in labels)
        return MIXED in labels or (parts[0] == MIXED and not labels <= {SHARED})

    def _write(self, number: int, op: Op, given: Given, parts: list[Label], name: str) -> None:
        """Give new labels to tensors that were written to, and to tensors that share memory with them."""
        if torch.Tag.inplace_view in given.func.tags and parts[0] != MIXED:
            self._turn(number, given.first, parts[0], name)
            return
        places = given.written
        for part, place in enumerate(places):
            value = given[place]
            for one in tensors_in(value):
                if one is value and part < len(given.shapes) and tuple(one.shape) != tuple(given.shapes[part]):
                    raise Mixes(f"{name} writes to a tensor of another shape")
                label, written = parts[min(part, len(parts) - 1)], Ref("made", number, -1 - part)
                before = self._saved.before(one.ref)
                self._labels[written], self._aliases[written] = label, (number, one.ref, False)
                self._written(one, label, name)
                if (fault := self._saved.fault(op, one.ref, before)) is not None:
                    raise Mixes(f"{name} writes {fault}")
        for part, base in enumerate(self._program.seen[number].shares):
            if base is not None:
                self._aliases[Ref("made", number, part)] = number, base, not places

    def _hides_a_gradient(self, given: Given, parts: Sequence[Label]) -> bool:
        """Whether an operator writes numbers with another label over those of a tensor through which a gradient may go.
        Where autograd does not see it (`torch.no_grad`, `.data`, `out=`), the gradient goes on as before."""
        if torch.Tag.inplace_view in given.func.tags:
            return False  # it writes no numbers
        for part, place in enumerate(given.written):
            label = parts[min(part, len(parts) - 1)]
            for one in tensors_in(given[place]):
                changes = label != one.label and (one.label == MIXED or isinstance(one.label, Rows))
                if changes and self._carries_a_gradient(self._root(one.ref)[0]):
                    return True
        return False

    def _carries_a_gradient(self, root: Ref) -> bool:
        """Whether what made the memory of a tensor, or wrote to it, was given a tensor that needs a gradient."""
        numbers = {ref.at for ref in (root, *self._over(root)) if ref.kind == "made"}
        return any(one.grad for number in numbers for one in self._program.ops[number].tensors)

    def _turn(self, number: int, one: Value, label: Label, name: str) -> None:
        """Follow axes that are swapped in place as one more view of the same memory; `Mixes` if it was read before.

        Who holds the tensor itself (autograd for its backward pass, a module's rule, a checkpoint that computes it
        again) would see other axes than it was given."""
        root, _ = self._root(one.ref)
        if root.kind != "made":
            raise Mixes(f"{name} swaps axes of {_held(root)}")
        program, memory = self._program, {root, *self._over(root)}
        held = [*(one.tensor.ref for one in program.held), *(ref for one in program.inside for ref in one.given)]
        read = (ref for op in program.ops[:number] for ref in refs_in((op.args, op.kwargs)))
        if not memory.isdisjoint(itertools.chain(held, read)):
            raise Mixes(f"{name} swaps axes of a tensor that was read before")
        for part in (0, -1):
            self._labels[Ref("made", number, part)] = label
            self._aliases[Ref("made", number, part)] = number, one.ref, True

    def _written(self, one: Value, label: Label, name: str) -> None:
        root, whole = self._root(one.ref)
        allowed = {"made": label, "kept": SHARED, "input": BATCH}  # tensors made by operators may get any label
        if allowed.get(root.kind) != label or (one.label != label and root.kind == "kept"):
            raise Mixes(f"{name} writes to {_held(root)}")
        before = self.of(root)
        if before == SHARED and isinstance(one.label, Rows):
            raise Mixes(f"{name} writes to memory that all examples have in common")
        if label == MIXED and before not in (MIXED, EMPTY):
            raise Mixes(self.why(f"what {name} writes over a tensor"))
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
        """Give the memory as a whole the label `candidate`, and its views the labels that follow; returns whether the
        tensor `written` then has the label `label`."""
        self._labels[root] = candidate
        for ref in self._over(root):
            number, base, is_view = self._aliases[ref]
            if is_view:
                self._labels[ref] = self._parts(number, self._given(number, self._program.ops[number]))[ref.part]
            else:
                self._labels[ref] = self.of(base)
        return self.of(written) == label

    def _over(self, root: Ref) -> list[Ref]:
        return [ref for ref in self._aliases if ref != root and self._root(ref)[0] == root]

    def _root(self, ref: Ref) -> tuple[Ref, bool]:
        """The first tensor with this memory, and whether no view lies in between."""
        whole = True
        while ref in self._aliases:
            _, ref, is_view = self._aliases[ref]
            whole = whole and not is_view
        return ref, whole


_TURNED = ("transpose_",)
"""Operators in place that only swap axes; torch's GRU and RNN end with it where the batch comes first."""

_OF_TORCH = ("prim", "prims", "profiler")
"""Names of torch's own operators begin with these, or with none."""

_COUNTED = frozenset(
    {
        *("arange", "_to_copy", "clone", "to", "type_as", "contiguous", "lift", "detach", "alias", "slice", "expand"),
        *("view", "_unsafe_view", "reshape", "flatten", "unsqueeze", "squeeze"),
    }
)
"""Operators that keep the labels `NUMBERS` and `Every`."""


def _keeps_counts(given: Given) -> bool:
    return given.func._schema.name.removeprefix("aten::") in _COUNTED


def _draws(given: Given) -> bool:
    """Whether an operator draws random numbers, with these arguments."""
    never = [given[name] for name in ("p", "dropout_p", "dropout") if given[name] is not None]
    return torch.Tag.nondeterministic_seeded in given.func.tags and (0.0).hex() not in never


def _places(shape: tuple[int, ...], batch: int) -> list[Rows]:
    """All `Rows` labels that a tensor of this shape can have."""
    return [
        Rows(axis, shape[axis] // batch // inner, inner)
        for axis in sized(shape, batch)
        if len(sized(shape, batch)) == 1
        for inner in range(1, shape[axis] // batch + 1)
        if shape[axis] // batch % inner == 0
    ]


def _held(ref: Ref) -> str:
    return {"state": f"{ref.at!r}", "input": "the examples themselves"}.get(ref.kind, "a tensor that stays")
