"""A model's work on a batch as a straight-line program: operators, their arguments, and the origins of these.

The programs for batches of two sizes give a `Template`: the same operators on the same tensors, with whole numbers that
grow by the same amount per example. The template predicts the program for any other size, to compare with what ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discreet.clipping.separation.memory import same_values
from discreet.clipping.separation.recording.checkpoints import Stretch


class Ref(NamedTuple):
    """The origin of a tensor.

    | kind | meaning |
    |---|---|
    | `input` | the examples |
    | `state` | a parameter or buffer, by name |
    | `made` | an output of operator number `at` (`part` 0, 1, ...), or an argument that it wrote to (-1, -2, ...) |
    | `kept` | a tensor from elsewhere, number `at` |
    | `gradient` | a tensor of the backward pass, by its shape |
    | `given` | argument number `at` of a module that runs again on one example |
    | `empty` | a tensor without entries |
    """

    kind: str
    at: Any = 0
    part: int = 0


class Argument(NamedTuple):
    """A tensor given to an operator; `grad`: it requires a gradient."""

    ref: Ref
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    grad: bool = False

    @property
    def mask(self) -> bool:
        """Whether it may be a mask (booleans or bytes)."""
        return self.dtype in (torch.bool, torch.uint8)


class Op(NamedTuple):
    """A call of an operator. `back`: called by Python code in the backward pass. torch's own derivatives are not
    recorded, since the derivative of a function of one example is a function of that example."""

    func: Any
    args: tuple[Any, ...]
    kwargs: tuple[Any, ...]
    back: bool

    @property
    def tensors(self) -> list[Argument]:
        """The tensors that it was given."""
        return _arguments((self.args, self.kwargs))


def _arguments(values: Any) -> list[Argument]:
    if isinstance(values, Argument):
        return [values]
    return [found for one in values for found in _arguments(one)] if isinstance(values, tuple) else []


class Seen(NamedTuple):
    """Notes on an operator in an examination: the shapes of its output tensors, the argument with which each of them
    shares memory (or None), and the innermost module that was running."""

    shapes: tuple[tuple[int, ...], ...]
    shares: tuple[Ref | None, ...]
    module: str


class Held(NamedTuple):
    """An input or output (`returned`) of a module with parameters, and its axis that must hold the examples, with
    `inner` entries of each one after the other; -1 for any axis. It was noted before operator number `at`."""

    module: str
    axis: int
    tensor: Argument
    inner: int = 1
    returned: bool = False
    at: int = 0


class Inside(NamedTuple):
    """Operators `start` .. `stop` - 1, which ran inside a module that runs again to clip its gradients; `given`: the
    tensors among the module's arguments."""

    module: str
    start: int
    stop: int
    given: tuple[Ref, ...]


class BroadcastParameter(NamedTuple):
    """A parameter that is broadcast over the examples wherever it is used; `uses`: the numbers of the steps above it in
    the graph that do that (see `capture.functions.steps_above`)."""

    ref: Ref
    uses: tuple[int, ...]


@dataclass(slots=True)
class Program:
    """The operators of a pass over `batch` examples.

    `kept`: tensors from elsewhere. `items`: numbers that Python read from tensors. `returned`: outputs of the model.
    `held`: inputs and outputs of modules with parameters. `inside`: modules that run again. `broadcast`: parameters
    that are clipped where they are broadcast over the examples. `edges`: which way the gradients of tensors go that
    need one (see `Edges`), in the order in which these were given to operators and modules. `stretches`: what ran under
    checkpoints. `fault`: the first thing that cannot be followed, or None. `seen`: notes on each operator, in an
    examination. `uncounted`: whether memory may be written to without torch noticing, as it was handed out by `.data`.
    """

    batch: int
    ops: list[Op] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    returned: list[Argument] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    inside: list[Inside] = field(default_factory=list)
    broadcast: tuple[BroadcastParameter, ...] = ()
    edges: list[str] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    uncounted: bool = False
    fault: str | None = None

    def fails(self, why: str, modules: Sequence[str]) -> None:
        """Note the first thing that cannot be followed, with its subject: the innermost of the `modules` that run, if
        any does, unless `why` names one."""
        if self.fault is None:
            subject = f"module {modules[-1] or 'model'!r}" if modules else NO_MODULE
            self.fault = why if why.startswith("module ") else f"{subject} {why}"

    def same_kept(self, others: Sequence[Tensor]) -> bool:
        """Whether the tensors from elsewhere are the same, number by number."""
        return len(self.kept) == len(others) and all(map(same, self.kept, others))


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two constants are equal bit by bit, on whatever devices."""
    return same_values(one.detach(), other.detach().to(one.device))


NO_MODULE = "the model or its loss"
"""The subject of a fault while no module runs."""

AFTER_ERROR = "goes on after an error of an operator of torch"
"""Words of a fault that says less than the error itself, where the model goes on to fail."""

_REMEMBERED = 2**14
"""The operators that a template remembers evaluated, over all batch sizes: sizes of Poisson batches come again."""


class Grows(NamedTuple):
    """The whole number `first` + `each` x batch."""

    first: int
    each: int


class Differs(Exception):
    """Two programs differ in more than the size of the batch."""


class Ambiguous(Exception):
    """A size is a multiple of the batch size by chance."""


class Template:
    """A program for batches of every size, from the programs for two sizes. `Differs` says where these disagree."""

    def __init__(self, one: Program, other: Program) -> None:
        if [op.func for op in one.ops] != [op.func for op in other.ops]:
            raise Differs(_where(one, other))
        self.batches = one.batch, other.batch
        self.one = one
        pairs = enumerate(zip(one.ops, other.ops, strict=True))
        self._ops: list[Op] = [self._merged(a, b, f"{described(one, k)} is given") for k, (a, b) in pairs]
        self.odd = self._odd(other)
        self._ends = self._merged(_ends(one), _ends(other), "the model returns")
        if not one.same_kept(other.kept):
            raise Differs("a constant is made of the number of examples")
        if (one.edges, one.broadcast) != (other.edges, other.broadcast):
            raise Differs("where gradients go depends on the number of examples")
        self.at = lru_cache(maxsize=max(8, _REMEMBERED // max(1, len(self._ops))))(self._at)

    def matches(self, ran: Program) -> bool:
        """Whether `ran` is this program for its batch size, on the same constants."""
        ops, ends = self.at(ran.batch)
        same_way = ran.edges == self.one.edges and ran.broadcast == self.one.broadcast
        return ran.fault is None and ran.ops == ops and _ends(ran) == ends and same_way and self.one.same_kept(ran.kept)

    def op(self, number: int) -> Op:
        """Operator `number`, with `Grows` in place of numbers that grow with the batch."""
        return self._ops[number]

    def grows(self, number: int) -> frozenset[str]:
        """The names of the arguments of operator `number` that hold numbers that grow with the batch, shapes apart."""
        op = self._ops[number]
        names = [one.name for one in op.func._schema.arguments]
        pairs = [*zip(names, op.args, strict=False), *op.kwargs]
        return frozenset(name for name, value in pairs if _grows(value))

    def _odd(self, other: Program) -> frozenset[tuple[int, int]]:
        """The outputs (operator, part) with sizes that are neither public nor multiples of the batch size."""
        found = set()
        for number, (one, two) in enumerate(zip(self.one.seen, other.seen, strict=True)):
            if len(one.shapes) != len(two.shapes):
                raise Differs(
                    f"how many tensors {described(self.one, number)} returns depends on the number of examples"
                )
            for part, (before, after) in enumerate(zip(one.shapes, two.shapes, strict=True)):
                if len(before) != len(after) or not all(map(self._is_regular, before, after)):
                    found.add((number, part))
        return frozenset(found)

    def _is_regular(self, before: int, after: int) -> bool:
        small, large = self.batches
        if before == after and before and before % small == 0:
            raise Ambiguous
        return before == after or (before % small == 0 and before // small * large == after)

    def _at(self, batch: int) -> tuple[list[Op], Any]:
        return [_evaluated(op, batch) for op in self._ops], _evaluated(self._ends, batch)

    def _merged(self, one: Any, other: Any, where: str) -> Any:
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return _like(one, [self._merged(a, b, where) for a, b in zip(one, other, strict=True)])
        if one == other:
            return one
        if type(one) is int and type(other) is int:
            small, large = self.batches
            each, rest = divmod(other - one, large - small)
            if not rest:
                return Grows(one - each * small, each)
        raise Differs(f"a number that {where} depends on the number of examples")


def _grows(part: Any) -> bool:
    if type(part) is Argument:
        return False
    return type(part) is Grows or (isinstance(part, tuple) and any(map(_grows, part)))


def _ends(program: Program) -> tuple[Any, ...]:
    stretches = [(one.checkpoint, one.again, tuple(one.ops), tuple(one.states)) for one in program.stretches]
    return tuple(program.returned), tuple(program.held), tuple(stretches), program.uncounted


def _evaluated(part: Any, batch: int) -> Any:
    if type(part) is Grows:
        return part.first + part.each * batch
    return _like(part, [_evaluated(one, batch) for one in part]) if isinstance(part, tuple) else part


def _like(kind: tuple[Any, ...], parts: list[Any]) -> Any:
    return tuple(parts) if type(kind) in (tuple, torch.Size) else type(kind)(*parts)


def _where(one: Program, other: Program) -> str:
    for k, (a, b) in enumerate(zip(one.ops, other.ops, strict=False)):
        if a.func is not b.func:
            return f"what runs depends on the number of examples, first at {described(one, k)}"
    return "how many operators run depends on the number of examples"


def described(program: Program, number: int) -> str:
    """The description of an operator in messages, with the module in which it ran."""
    name = str(program.ops[number].func).removesuffix(".default")
    module = program.seen[number].module if program.seen else ""
    return f"{name} in module {module!r}" if module else name
