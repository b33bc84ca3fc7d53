"""Do checkpoints compute again what they computed at first?

Torch's derivative of an operator then gets the tensors that were computed again. It keeps examples apart if these lie
as the first ones did: the rule that covers an operator covers it on all tensors with the same labels, and so does the
derivative. Their entries may differ, since each entry of an example still meets entries of that example alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from discreet.clipping.separation.labels import Label
from discreet.clipping.separation.recording.program import Argument, Op, Program, Ref, Template
from discreet.clipping.separation.recording.spans import refs_in

_DETACH = torch.ops.aten.detach.default
"""Checkpoints detach what they save again. The operator has no derivative, and leaves examples where they are."""


class ComputedAgain:
    """Compares what operators under checkpoints are given, at first and again, while labels are followed.

    `label`: gives the label of a tensor. `pairs`: for each operator that is computed again, the number of its first
    call. `fault`: what is wrong with the programs as they are, or None.
    """

    def __init__(self, template: Template, label: Callable[[Ref], Label]) -> None:
        self._template, self._label = template, label
        self.pairs: dict[int, int] = {}
        self._given: dict[int, Any] = {}
        self.fault: str | None = None
        first: dict[int, list[tuple[int, Any]]] = {}
        for stretch in template.one.stretches:
            ran = zip(stretch.ops, stretch.states, strict=True)
            ops = [(number, state) for number, state in ran if template.op(number).func is not _DETACH]
            at_first = first.setdefault(stretch.checkpoint, [] if stretch.again else ops)
            if not stretch.again:
                self._given.update(dict.fromkeys(number for number, _ in ops))
                continue
            self.pairs.update((number, before) for (number, _), (before, _) in zip(ops, at_first, strict=False))
            if [self._func(number) for number, _ in ops] != [self._func(number) for number, _ in at_first]:
                self.fault = "a function under torch.utils.checkpoint runs other operators when it is run again"
            elif [state for _, state in ops] != [state for _, state in at_first]:
                self.fault = "a function under torch.utils.checkpoint saves other tensors when it is run again"

    def differs(self, number: int) -> bool:
        """Whether operator `number` is computed again, and was given something else at first. To be asked of each in
        turn."""
        if number in self._given:
            self._given[number] = self._arguments(number)
        at_first = self.pairs.get(number)
        return at_first is not None and self._given[at_first] != self._arguments(number)

    def _func(self, number: int) -> Any:
        return self._template.op(number).func

    def _arguments(self, number: int) -> Any:
        """What an operator is given, with labels in place of origins; and how that grows with the batch."""
        op, grown = self._template.one.ops[number], self._template.op(number)
        return self._labelled((op.args, op.kwargs)), _without_origins((grown.args, grown.kwargs))

    def _labelled(self, part: Any) -> Any:
        if type(part) is Argument:
            return self._label(part.ref)
        return tuple(map(self._labelled, part)) if type(part) is tuple else part


class SavedAgain:
    """What may be written to in the backward pass, and after a use of `.data`. `root`: gives the first tensor with the
    memory of another one.

    Torch does not look whether what a checkpoint saved is written to before a derivative gets it, nor whether anything
    saved is written to by `.data`. And the tensors that modules were given are held in the backward pass, from which
    norms were measured, and sums will be formed. So only memory that was made in the backward pass may be written to
    then; and once an operator with a derivative has read memory, examples must stay where they are in it. (What an
    operator makes of examples has them already.)
    """

    def __init__(self, program: Program, root: Callable[[Ref], Ref], label: Callable[[Ref], Label]) -> None:
        self._program, self._root, self._label = program, root, label
        self._saved: set[Ref] = set()

    def note(self, number: int, op: Op) -> None:
        """Note what operator `number` may have saved: what it read, views apart."""
        if (op.back or self._program.uncounted) and _has_derivative((op.args, op.kwargs)):
            viewed = {*self._program.seen[number].shares}
            self._saved |= {self._root(ref) for ref in {*refs_in((op.args, op.kwargs))} - viewed}

    @contextmanager
    def kept(self, op: Op, written: Ref) -> Iterator[list[str]]:
        """Inside, labels follow what `op` writes to a tensor; gives a list with what is wrong with it, at the end."""
        found: list[str] = []
        root = self._root(written)
        before = self._label(root) if root in self._saved else None
        if op.back and not (root.kind == "made" and self._program.ops[root.at].back):
            found.append("in the backward pass to a tensor from before it")
        yield found
        if before is not None and self._label(root) != before:
            found.append("over what was saved for a derivative")


def _has_derivative(part: Any) -> bool:
    if type(part) is Argument:
        return part.grad
    return type(part) is tuple and any(map(_has_derivative, part))


def _without_origins(part: Any) -> Any:
    if type(part) is Argument:
        return part[1:]
    return tuple(map(_without_origins, part)) if type(part) is tuple else part
