"""Parameters that are broadcast over the examples, in the proof that a program keeps examples apart.

The gradient of such a parameter is taken for each example as if it had a copy of its own. So what operators make of it
counts as each example's own: a row may be used by its example alone, even where all rows are equal. Of labels that say
so, the gradients of the rows are each of one example, as those of any tensor are that has a row for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.clipping.separation.labels import BATCH, EMPTY, MIXED, SHARED, Label, Rows, as_rows
from discreet.clipping.separation.recording.program import Ref
from discreet.clipping.separation.registry import Given


class OfEach:
    """The parameters `broadcast`, what has been made of them that has no axis of examples yet, and all views of these.

    A row of a view that has the examples along axis 0 is in memory what it is a copy of. A tensor is known by its place
    in memory, so the row must not be made: it would be taken for the other.
    """

    def __init__(self, broadcast: Sequence[Ref], batch: int) -> None:
        self._refs, self._batch = {*broadcast}, batch
        self._views = {*broadcast}

    def read_by(self, given: Given) -> bool:
        """Whether an operator reads such a parameter, or what was made of it without an axis of examples."""
        return not self._refs.isdisjoint(one.ref for one in given.tensors)

    def labels(self, given: Given, parts: Sequence[Label]) -> list[Label]:
        """The labels of the outputs of an operator that is given one: `BATCH` in the place of `UNIFORM`, and `MIXED` in
        the place of other rows."""
        shapes = [*given.shapes, *[()] * (len(parts) - len(given.shapes))]
        return [self._label(label, shape) for label, shape in zip(parts, shapes, strict=False)]

    def _label(self, label: Label, shape: tuple[int, ...]) -> Label:
        rows = as_rows(label, shape, self._batch)
        return rows if rows in (SHARED, EMPTY, BATCH) else MIXED

    def follow(self, number: int, given: Given, parts: Sequence[Label], shares: Sequence[Ref | None]) -> str | None:
        """Note what operator `number` made; the fault if that is not followed, or else None. `shares`: what each of its
        outputs shares memory with."""
        made = [Ref("made", number, part) for part, label in enumerate(parts) if label == SHARED]
        if made and self.read_by(given):
            if given.func._schema.is_mutable:
                return "writes what is made of a parameter that is broadcast over the examples"
            self._refs.update(made)
            self._views.update(made)
        for part, (label, base) in enumerate(zip(parts, shares, strict=False)):
            if base in self._views:
                if label != SHARED and not (isinstance(label, Rows) and label == Rows(label.axis)):
                    return "takes a parameter that is broadcast over the examples apart again"
                self._views.add(Ref("made", number, part))
        return None
