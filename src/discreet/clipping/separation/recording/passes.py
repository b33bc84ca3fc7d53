"""One forward and backward pass of a model over a batch, with a record of every operator."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from discreet.clipping.replay import Generators
from discreet.clipping.separation.memory import same_values, writes_to
from discreet.clipping.separation.recording.checkpoints import Checkpoints
from discreet.clipping.separation.recording.edges import Edges
from discreet.clipping.separation.recording.other_names import (
    Key,
    gradients_are_traced,
    in_one_memory,
    is_same_view,
    key_of,
    place_of,
    shares_memory,
)
from discreet.clipping.separation.recording.program import AFTER_ERROR, Argument, Op, Program, Ref, Seen
from discreet.clipping.separation.recording.spans import Span, refs_in

_ITEM = torch.ops.aten._local_scalar_dense.default
_FRESH = torch.ops.aten.lift_fresh.default
_STRIDED = torch.ops.aten.as_strided_.default

_PLAIN = (Tensor, nn.Parameter, nn.Buffer)

_WRITTEN = "works with a tensor that was written to by other means than torch's operators"

_UNTRACED = (
    "works with a tensor that was made unseen of others, to which a gradient goes on (by torch.asarray, or in another "
    "thread); use these as they are"
)

State = Iterable[tuple[str, Tensor]]


class Pass:
    """The record of a forward pass and its backward pass. `expected`: operators that most likely run, in order."""

    def __init__(
        self, state: State, inputs: Tensor, forced: list[Any], closely: bool, expected: Sequence[Op] = ()
    ) -> None:
        self.program = Program(len(inputs))
        self.forced, self.closely, self._expected = forced, closely, expected
        self.busy = self.back = self.validating = self.hooked = False
        self.called: tuple[str, Any] | None = None
        self.modules: list[str] = []
        self.spans: list[Span] = []
        self._checkpoints = Checkpoints()
        self.program.stretches = self._checkpoints.stretches
        self._edges = Edges()
        self.states: dict[int, Ref] = {}
        self._refs: dict[Key, Ref] = {}
        self._kept: list[tuple[Tensor, int]] = []
        self._drawn: set[bytes] = set()
        held = [*state]
        self._generators = Generators([inputs, *(tensor for _, tensor in held)])
        for name, tensor in held:
            self._note(tensor, Ref("state", name))
        self.held = [tensor for _, tensor in held]
        keys = [(id(tensor), self._key(tensor)) for tensor in self.held]
        self.states = {one: self._refs[key] for one, key in keys if key is not None and key in self._refs}
        self._note(inputs, Ref("input"))

    def states_by_one_name(self) -> dict[int, Ref]:
        """The origins of parameters and buffers, by their ids, but of those that share memory, or of which a gradient
        is not traced to a parameter. (A program that is compared with an examined one is traced as that was.)"""
        parameters = [one for one in self.held if isinstance(one, nn.Parameter)]
        if self.closely:
            traced = {self.states[id(one)] for one in parameters if id(one) in self.states}
            if not gradients_are_traced(self.program.ops, traced):
                return {}
        shared = in_one_memory([*self.held, *(tensor for tensor, _ in self._kept)])
        return {key: ref for key, ref in self.states.items() if key not in shared}

    def fault(self, text: str) -> None:
        """Note something that cannot be followed; only the first fault is kept."""
        self.program.fails(text, self.modules)

    def argument(self, value: Any) -> Any:
        """An argument of an operator in a form that can be compared."""
        kind = type(value)
        if kind is Tensor or kind is nn.Parameter or isinstance(value, Tensor):
            return self.tensor(value)
        if kind is int or value is None:
            return value
        if kind is list or kind is tuple or isinstance(value, list | tuple):
            return tuple([self.argument(one) for one in value])
        if kind is float:
            return value.hex() if value == value else _bytes(value)  # in hexadecimal, minus zero differs from zero
        if kind is complex:
            return _bytes(value)
        if kind is bool:
            return str(value)
        if kind is torch.Generator:
            self.fault("draws from a generator of its own")
        return value

    def tensor(self, tensor: Tensor) -> Argument:
        """The origin of a tensor, with its shape."""
        key = self._key(tensor)
        ref = self._refs.get(key) if key is not None else None
        if ref is None:
            ref = Ref("empty") if key is not None and tensor.numel() == 0 else self.keep(tensor)
        elif ref.kind == "kept" and not same_values(tensor.detach(), self.program.kept[ref.at]):
            self.fault(_WRITTEN)
        for span in self.spans:
            span.reads(tensor, ref)
        if type(tensor) not in _PLAIN:
            self.fault(f"works with tensors of a type of their own ({type(tensor).__name__})")
        needs = tensor.requires_grad
        if needs:
            self.program.edges.append(self._edges.of(tensor, self.states))
        return Argument(ref, tensor.shape, tensor.dtype, needs)

    def keep(self, tensor: Tensor) -> Ref:
        """Note a tensor from elsewhere. A fault, if a gradient leads on from it: nobody knows to whom."""
        if not tensor.is_leaf:
            self.fault(_UNTRACED)
        kept = self.program.kept
        ref = Ref("kept", len(kept))
        kept.append(tensor.detach().clone())  # in case it is written to
        self._kept.append((tensor, writes_to(tensor)))
        self._note(tensor, ref)
        return ref

    def _fresh(self, tensor: Tensor) -> Ref:
        """Note a constant that torch has just made; its memory may have been another tensor's before."""
        if shares_memory(tensor):
            self.fault("makes a constant of the memory of another tensor (lift_fresh)")
        return self.keep(tensor)

    def moved(self, tensor: Tensor, name: str) -> None:
        """Note where a parameter or buffer is now, also for modules that have started and will run again."""
        ref, key = Ref("state", name), self._key(tensor)
        self._note(tensor, ref)
        self.states[id(tensor)] = ref
        for span in self.spans:
            span.refs[key] = ref

    def ran(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], back: bool) -> Any:
        """Run an operator and record it."""
        if func is _ITEM and self.validating:
            return func(*args)
        if func is _STRIDED and is_same_view(*args, **kwargs):
            ref = self.tensor(args[0]).ref
            self._note(func(*args, **kwargs), ref)
            return args[0]
        self._edges.operator()
        fresh = self._fresh(args[0]) if func is _FRESH else None
        given = tuple([self.argument(value) for value in args])
        named = tuple([(name, self.argument(value)) for name, value in kwargs.items()]) if kwargs else ()
        program, number, op = self.program, len(self.program.ops), Op(func, given, named, back)
        if number < len(self._expected) and op == self._expected[number]:
            op = self._expected[number]
        program.ops.append(op)
        written, draws = _FACTS.get(func) or _facts(func)
        if draws:
            self._look_before_draw(back)
        if (hooks := torch._C._autograd._top_saved_tensors_default_hooks(True)) is not None:
            self.hooked = True
            if not self._checkpoints.note(hooks, number):
                self.fault("changes what is saved for the backward pass (saved_tensors_hooks)")
        try:
            returned = self._read(func, args) if func is _ITEM else func(*args, **kwargs)
        except BaseException:
            self.fault(f"{AFTER_ERROR} ({func})")  # which may have written something
            raise
        if not back and draws:
            self._generators.renew()
        made = [returned] if isinstance(returned, Tensor) else tree_leaves(returned)
        tensors = [one for one in made if isinstance(one, Tensor)]
        for part, tensor in enumerate(tensors):
            self._note(tensor, fresh or _made(number, part))
        for part, place in enumerate(written):
            value = args[place] if isinstance(place, int) and place < len(args) else kwargs.get(_name(func, place))
            for tensor in tree_leaves(value):
                if isinstance(tensor, Tensor) and not any(tensor is one for one in tensors):
                    self._note(tensor, Ref("made", number, -1 - part))
        if self.closely:
            self._look((args, kwargs), (given, named), tensors)
        return returned

    def enter(self) -> Span:
        """Note that a module starts which will run again."""
        program = self.program
        self.spans.append(Span(len(program.ops), len(program.items), len(program.kept), dict(self._refs)))
        return self.spans[-1]

    def again(self, span: Span) -> Pass:
        """A new pass with the record as it was when the module of `span` started."""
        other = Pass((), torch.empty(0), self.program.items[span.items :], False)
        other.program = Program(self.program.batch, self.program.ops[: span.start], self.program.kept[: span.kept])
        other._refs, other._generators = dict(span.refs), self._generators.now()
        return other

    def give(self, tensors: Sequence[Tensor]) -> None:
        """Note the arguments of a module that runs again on other tensors."""
        for number, tensor in enumerate(tensors):
            self._note(tensor, Ref("given", number))

    def look_at_kept(self) -> None:
        """Note a fault if a tensor from elsewhere was written to, but not by torch: the backward pass may use it."""
        for (tensor, writes), before in zip(self._kept, self.program.kept, strict=True):
            if writes == writes_to(tensor) and not same_values(tensor.detach(), before):
                self.fault(_WRITTEN)

    def look_at_generator(self) -> None:
        """Note a fault if a generator of torch is not in the state in which the last operator left it."""
        if not self._generators.are_kept():
            self.fault("sets torch's generator")

    def _look_before_draw(self, back: bool) -> None:
        """Note a fault if a generator may have been set to numbers of examples. In the backward pass, checkpoints set
        it to where it was at first."""
        if not back:
            self.look_at_generator()
            if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
                self._drawn.add(self._generators.read())
        elif self._generators.read() not in self._drawn:
            self.fault(
                "draws other random numbers when a function under torch.utils.checkpoint is run again; leave "
                "preserve_rng_state on"
            )

    def derivative(self, returned: Any) -> Any:
        """Note the outputs of an operator of torch's own derivatives."""
        for tensor in (returned,) if isinstance(returned, Tensor) else tree_leaves(returned):
            if isinstance(tensor, Tensor):
                self._note(tensor, Ref("gradient", tuple(tensor.shape)))
        return returned

    def _read(self, func: Any, args: Sequence[Any]) -> Any:
        """A number that Python reads from a tensor: its value, or the forced one."""
        items = self.program.items
        value = func(*args)
        if len(items) < len(self.forced):
            value = self.forced[len(items)]
        items.append(value)
        return value

    def _look(self, values: Any, arguments: Any, tensors: list[Tensor]) -> None:
        """Note what an examination needs about an operator that ran."""
        inputs = [one for one in tree_leaves(values) if isinstance(one, Tensor)]
        places = dict(zip(map(place_of, reversed(inputs)), reversed(refs_in(arguments)), strict=True))
        shapes = tuple([tuple(one.shape) for one in tensors])
        shares = tuple([places.get(place_of(one)) if one.numel() else None for one in tensors])
        self.program.seen.append(Seen(shapes, shares, self.modules[-1] if self.modules else ""))

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor has been noted, or is no array in memory."""
        try:
            return tensor.numel() == 0 or key_of(tensor) in self._refs
        except (RuntimeError, NotImplementedError):
            return True

    def _note(self, tensor: Tensor, ref: Ref) -> None:
        key = self._key(tensor)
        if key is not None and tensor.numel():
            self._refs[key] = ref

    def _key(self, tensor: Tensor) -> Key | None:
        try:
            return key_of(tensor)
        except (RuntimeError, NotImplementedError):
            self.fault("works with a tensor that is not an array in memory (sparse, nested, or of another kind)")
            return None

    @contextmanager
    def named(self, model: nn.Module) -> Iterator[None]:
        """Inside, `modules` ends with the innermost module that is running."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: self.modules.append(name)))
            handles.append(module.register_forward_hook(lambda *_: self._left(), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _left(self) -> None:
        self.modules.pop()


_FACTS: dict[Any, tuple[tuple[int, ...], bool]] = {}
"""For each operator the places of the arguments that it writes to, and whether it draws from torch's generator."""


@lru_cache(2**16)
def _made(number: int, part: int) -> Ref:
    """The origin of an output of an operator: the same object in every pass."""
    return Ref("made", number, part)


def _bytes(value: complex) -> bytes:
    """The bits of a number: NaN has a sign, and so have both zeros of a complex number."""
    return struct.pack("dd", value.real, value.imag)


def _facts(func: Any) -> tuple[tuple[int, ...], bool]:
    arguments = enumerate(func._schema.arguments)
    written = tuple(i for i, one in arguments if one.alias_info is not None and one.alias_info.is_write)
    found = _FACTS[func] = written, torch.Tag.nondeterministic_seeded in func.tags
    return found


def _name(func: Any, place: int) -> str:
    return str(func._schema.arguments[place].name)
