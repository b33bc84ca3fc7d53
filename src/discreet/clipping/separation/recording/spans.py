"""Spans: the operators inside a module that runs again, alone and for each example, to clip its gradients.

When a module runs again, it must find what it found in the forward pass, and nothing of the batch except its arguments:
an attribute that holds a part of the batch would be the same for every example, or belong to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from discreet.clipping.separation.labels import SHARED, Label
from discreet.clipping.separation.recording.program import Argument, Program, Ref, described, same


@dataclass(slots=True, eq=False)
class Span:
    """A call of a module that will run again. `start`, `items`, `kept`: how many operators, numbers read by Python and
    kept tensors were recorded before the call; `refs`: where tensors came from then. `stop`, `last_kept`, `returned`:
    the same at its end, and its outputs.

    Tensors that it reads from outside are held until it has run again, or else their memory could be reused.
    """

    start: int
    items: int
    kept: int
    refs: dict[Any, Ref]
    stop: int = -1
    last_kept: int = -1
    returned: tuple[Argument, ...] = ()
    held: list[Tensor] = field(default_factory=list)

    def reads(self, tensor: Tensor, ref: Ref) -> None:
        """Note an argument of an operator inside the module."""
        if not (ref.kind == "made" and ref.at >= self.start):
            self.held.append(tensor)

    def end(self, program: Program, returned: tuple[Argument, ...]) -> None:
        """Note the end of the call, and what the module returned."""
        self.stop, self.last_kept, self.returned = len(program.ops), len(program.kept), returned

    def is_as(self, program: Program, again: Program, returned: tuple[Argument, ...]) -> bool:
        """Whether the module did the same when it ran again."""
        kept = program.kept[self.kept : self.last_kept], again.kept[self.kept :]
        return (
            again.fault is None
            and again.ops[self.start :] == program.ops[self.start : self.stop]
            and returned == self.returned
            and len(kept[0]) == len(kept[1])
            and all(map(same, *kept))
        )

    def is_closed(self, program: Program, alone: Program, given: Sequence[Ref]) -> bool:
        """Whether the module read nothing else from outside when it ran on one example, the pass `alone`. `given`: its
        arguments with all examples."""
        known = {ref for op in program.ops[self.start : self.stop] for ref in refs_in((op.args, op.kwargs))} - {*given}
        constants = program.kept[self.kept : self.last_kept]
        return all(
            ref.kind in ("given", "state", "empty")
            or (ref.kind == "made" and ref.at >= self.start)
            or (ref.kind == "kept" and ref.at >= self.kept and any(same(alone.kept[ref.at], one) for one in constants))
            or (ref in known and not (ref.kind == "kept" and ref.at >= self.kept))
            for op in alone.ops[self.start :]
            for ref in refs_in((op.args, op.kwargs))
        )


def reads_from_outside(program: Program, label: Callable[[Ref], Label]) -> str | None:
    """The fault if a module that runs again reads something of the batch that is no argument of it; else None.
    `label`: gives the label of a tensor."""
    for call in program.inside:
        for number in range(call.start, call.stop):
            op = program.ops[number]
            for ref in refs_in((op.args, op.kwargs)):
                own = (ref.kind == "made" and ref.at >= call.start) or ref.kind == "empty" or ref in call.given
                if not own and label(ref) != SHARED:
                    return (
                        f"{described(program, number)} reads something of the batch that module "
                        f"{call.module or 'model'!r} is not given; it is run again for each example, so make that an "
                        "argument"
                    )
    return None


def refs_in(values: Any) -> list[Ref]:
    """Where the tensors in nested tuples came from."""
    if isinstance(values, Argument):
        return [values.ref]
    return [ref for one in values for ref in refs_in(one)] if isinstance(values, tuple) else []
