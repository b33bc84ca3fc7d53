"""The memory that may be written to after a derivative has saved it, and in the backward pass.

Torch counts how often a tensor is written to, and refuses a derivative that saved it before. It does not count writes
by `.data` or in modes of its own, nor does it look at what a checkpoint saved when it ran again. And in the backward
pass the tensors that modules were given are held, from which norms were measured, and sums will be formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet.clipping.separation.labels import Label
from discreet.clipping.separation.recording.program import Argument, Op, Program, Ref
from discreet.clipping.separation.recording.spans import refs_in


class SavedMemory:
    """The memory that derivatives may read and torch does not watch, while labels are followed.

    Examples must stay where they are in it. What an operator makes of examples has them already. `root`: gives the
    first tensor with the memory of another one; `label`: the label of a tensor.
    """

    def __init__(self, program: Program, root: Callable[[Ref], Ref], label: Callable[[Ref], Label]) -> None:
        self._program, self._root, self._label = program, root, label
        self._saved: set[Ref] = set()

    def note(self, number: int, op: Op) -> None:
        """Note what operator `number` may have saved: what it read, views apart."""
        if _has_derivative((op.args, op.kwargs)):
            viewed = {*self._program.seen[number].shares}
            self._saved |= {self._root(ref) for ref in {*refs_in((op.args, op.kwargs))} - viewed}

    def before(self, written: Ref) -> Label | None:
        """The label of the memory of a tensor that is going to be written to; None if no derivative has saved it."""
        root = self._root(written)
        return self._label(root) if root in self._saved else None

    def fault(self, op: Op, written: Ref, before: Label | None) -> str | None:
        """The fault of `op`, which has written to a tensor, in words that follow "writes"; None if it may. `before`:
        the label that `before` gave."""
        root = self._root(written)
        if op.back and not (root.kind == "made" and self._program.ops[root.at].back):
            return "in the backward pass to a tensor from before it"
        if before is not None and self._label(root) != before:
            return "over what was saved for a derivative"
        return None


def _has_derivative(part: Any) -> bool:
    if type(part) is Argument:
        return part.grad
    return type(part) is tuple and any(map(_has_derivative, part))
