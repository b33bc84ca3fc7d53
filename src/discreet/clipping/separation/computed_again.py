"""Do checkpoints compute again what they computed at first?

Torch's derivative of an operator then gets the tensors that were computed again. It keeps examples apart if these lie
as the first ones did: the rule that covers an operator covers it on all tensors with the same labels, and so does the
derivative. Their entries may differ, since each entry of an example still meets entries of that example alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from discreet.clipping.separation.labels import Label
from discreet.clipping.separation.recording.program import Argument, Ref, Template

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
        """Whether operator `number` is computed again, with other arguments than at first. To be asked of all operators
        in their order."""
        if number in self._given:
            self._given[number] = self._arguments(number)
        at_first = self.pairs.get(number)
        return at_first is not None and self._given[at_first] != self._arguments(number)

    def _func(self, number: int) -> Any:
        return self._template.op(number).func

    def _arguments(self, number: int) -> Any:
        """The arguments of an operator, with labels in place of origins, and how they grow with the batch."""
        op, grown = self._template.one.ops[number], self._template.op(number)
        return self._labelled((op.args, op.kwargs)), _without_origins((grown.args, grown.kwargs))

    def _labelled(self, part: Any) -> Any:
        if type(part) is Argument:
            return self._label(part.ref)
        return tuple(map(self._labelled, part)) if type(part) is tuple else part


def _without_origins(part: Any) -> Any:
    if type(part) is Argument:
        return part[1:]
    return tuple(map(_without_origins, part)) if type(part) is tuple else part
