"""What runs under `torch.utils.checkpoint`: at first, and again in the backward pass.

A checkpoint saves nothing for the backward pass but what it is given, and computes the rest again. So torch's
derivatives see other tensors than those of the forward pass if its function does something else the second time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary


@dataclass(slots=True)
class Stretch:
    """Operators `ops`, by number, that ran directly under checkpoint number `checkpoint` of a pass, when its function
    ran at first, or `again`."""

    checkpoint: int
    again: bool
    ops: list[int] = field(default_factory=list)


class Checkpoints:
    """The checkpoints of one pass, which are told apart by the hooks that they set for saved tensors."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._of_hook: WeakKeyDictionary[Callable[..., Any], Stretch] = WeakKeyDictionary()
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def note(self, hook: Callable[..., Any], number: int) -> bool:
        """Note that operator `number` runs under a hook; returns whether it is the hook of a checkpoint."""
        stretch = self._of_hook.get(hook)
        if stretch is None:
            stretch = self._begin(hook)
            if stretch is None:
                return False
        stretch.ops.append(number)
        return True

    def _begin(self, hook: Callable[..., Any]) -> Stretch | None:
        checkpoint, again = _whose(hook)
        if not isinstance(getattr(checkpoint, "early_stop", None), bool):
            return None
        # Its function would end when the last tensor was saved, before the operator that needs it is seen.
        checkpoint.early_stop = False
        stretch = Stretch(self._numbers.setdefault(checkpoint, len(self._numbers)), again)
        self.stretches.append(stretch)
        self._of_hook[hook] = stretch
        return stretch


def _whose(hook: Callable[..., Any]) -> tuple[Any, bool]:
    """The checkpoint that set a hook, and whether it is the hook with which it runs again; None if there is none.
    Torch has no public name for either: they are variables of the hook."""
    hook = inspect.unwrap(hook)
    if getattr(hook, "__module__", "") != "torch.utils.checkpoint":
        return None, False
    held = inspect.getclosurevars(hook).nonlocals
    again = held.get("target_frame_ref")
    return (again(), True) if again is not None else (held.get("frame"), False)
