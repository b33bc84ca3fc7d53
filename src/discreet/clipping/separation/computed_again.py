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
from discreet.clipping.separation.recording.program import Argument, Op, Ref, Template

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
        first: dict[int, list[int]] = {}
        for stretch in template.one.stretches:
            ops = [number for number in stretch.ops if template.op(number).func is not _DETACH]
            at_first = first.setdefault(stretch.checkpoint, [] if stretch.again else ops)
            if not stretch.again:
                self._given.update(dict.fromkeys(ops))
            elif [*map(self._func, ops)] != [*map(self._func, at_first)]:
                self.fault = "a function under torch.utils.checkpoint runs other operators when it is run again"
            else:
                self.pairs.update(zip(ops, at_first, strict=True))

    def differs(self, number: int) -> bool:
        """Whether operator `number` is computed again, and was given something else at first. To be asked of each in
        turn."""
        if number in self._given:
            self._given[number] = self._arguments(self._template.op(number))
        at_first = self.pairs.get(number)
        return at_first is not None and self._given[at_first] != self._arguments(self._template.op(number))

    def _func(self, number: int) -> Any:
        return self._template.op(number).func

    def _arguments(self, op: Op) -> Any:
        return self._labelled(op.args), self._labelled(op.kwargs)

    def _labelled(self, part: Any) -> Any:
        """An argument with the label of each tensor in place of its origin."""
        if type(part) is Argument:
            return self._label(part.ref), *part[1:]
        return tuple(map(self._labelled, part)) if type(part) is tuple else part
