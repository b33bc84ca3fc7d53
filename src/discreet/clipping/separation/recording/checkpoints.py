"""A record of the operators that run under `torch.utils.checkpoint`: at first, and again in the backward pass.

A checkpoint saves nothing for the backward pass but what it is given, and computes the rest again. So torch's
derivatives see other tensors than those of the forward pass if its function does something else the second time.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils import checkpoint as torchs


@dataclass(slots=True)
class Stretch:
    """Operators `ops`, by number, that ran directly under checkpoint number `checkpoint` of a pass, when its function
    ran at first, or `again`. `states`: for each of them how many tensors the checkpoint had been given to save before,
    and whether gradients were on. With what the operator is given, they say which of these tensors it gives itself."""

    checkpoint: int
    again: bool
    ops: list[int] = field(default_factory=list)
    states: list[tuple[int, bool]] = field(default_factory=list)


class Checkpoints:
    """The checkpoints of one pass, which are told apart by the hooks that they set for saved tensors."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._of_hook: WeakKeyDictionary[Callable[..., Any], tuple[Stretch, Callable[[], int]]] = WeakKeyDictionary()
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = itertools.count()

    def note(self, hooks: tuple[Any, Any], number: int) -> bool:
        """Note that operator `number` runs under hooks; returns whether they are those of a checkpoint."""
        known = self._of_hook.get(hooks[0]) or self._begin(*hooks)
        if known is None:
            return False
        stretch, saved = known
        stretch.ops.append(number)
        stretch.states.append((saved(), torch.is_grad_enabled()))
        return True

    def _begin(self, pack: Any, unpack: Any) -> tuple[Stretch, Callable[[], int]] | None:
        again = _is_made_by(torchs._recomputation_hook, pack, unpack)
        if not again and not _is_made_by(torchs._checkpoint_hook, pack, unpack):
            return None
        held = inspect.getclosurevars(inspect.unwrap(pack)).nonlocals
        checkpoint = held["target_frame_ref"]() if again else held["frame"]
        # Its function would end when the last tensor was saved, before the operator that needs it is seen.
        checkpoint.early_stop = False
        if checkpoint not in self._numbers:
            self._numbers[checkpoint] = next(self._next)
        stretch = Stretch(self._numbers[checkpoint], again)
        self.stretches.append(stretch)
        self._of_hook[pack] = known = stretch, _counter(ref(checkpoint), held.get("gid"))
        return known


def _is_made_by(kind: type, *hooks: Any) -> bool:
    """Whether hooks were made by a class of torch. Torch has no public name for the hooks that checkpoints set: they
    are known by their code, and the checkpoint is a variable of them."""
    init: Any = kind.__init__  # type: ignore[misc]
    made = {id(one) for one in init.__code__.co_consts}
    return all(id(getattr(inspect.unwrap(hook), "__code__", init)) in made for hook in hooks)


def _counter(checkpoint: Callable[[], Any], run: Any) -> Callable[[], int]:
    """A function that counts the tensors that a checkpoint has saved until now, at first or in a later `run`."""

    def saved() -> int:
        known = checkpoint()
        return len(known.weak_holders) if run is None else int(known.recomp_counter[run])

    return saved
