"""Small gradients of many layers, such as adapters: those that are alike are measured together once all are known.

A model with many small layers spends its time in the calls, and not in what these compute.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discreet.clipping.clip import Clip
from discreet.clipping.rules import Rule, base
from discreet.clipping.rules.numbers import squared_norms
from discreet.clipping.rules.products.stack import Stack

SMALL = 2**20
"""Bytes of the gradients of a layer, for all examples, beyond which the copy costs more than the calls."""


class _Kept(NamedTuple):
    """The gradients of all examples for the parameter `name`, which a rule keeps. `group`: the place of the group of
    the clip that the parameter belongs to."""

    name: str
    rule: Rule
    rows: Tensor
    group: int


class SmallGradients:
    """Gradients that are small, kept by their rules, and still to be measured."""

    def __init__(self, clip: Clip) -> None:
        self._alike: dict[tuple[torch.Size, torch.dtype, torch.device], list[_Kept]] = {}
        self._groups = {name: place for place, group in enumerate(clip.groups) for name in group.names}

    def take(self, name: str, rule: Rule, local: str) -> bool:
        """Take the per-example gradients of the parameter `name` if they are small and the rule keeps them; `measured`
        then has their norms. False if not. `local`: the parameter's name in the rule's module."""
        rows = rule.form_rows(local, SMALL)
        if rows is None:
            return False
        kept = _Kept(name, rule, rows, self._groups.get(name, 0))
        self._alike.setdefault((rows.shape, rows.dtype, rows.device), []).append(kept)
        return True

    def measured(self) -> dict[str, Tensor]:
        """The squared norms of all that was taken, by the name of the parameter: float64, shape (batch,). The gradients
        lie in stacks then."""
        squares: dict[str, Tensor] = {}
        while self._alike:
            _, alike = self._alike.popitem()
            alike.sort(key=lambda one: one.group)  # those with the same weights lie side by side
            most = base.room_for(alike[0].rows.nbytes)
            for some in (alike[first : first + most] for first in range(0, len(alike), most)):
                squares |= _stacked(some) if len(some) > 1 else {some[0].name: squared_norms(some[0].rows)}
        return squares


def _stacked(alike: list[_Kept]) -> dict[str, Tensor]:
    stack = Stack([one.rows for one in alike], [one.group for one in alike])
    for place, one in enumerate(alike):
        one.rule.lie_in(stack, place)
    return {one.name: lengths for one, lengths in zip(alike, stack.squares(), strict=True)}
