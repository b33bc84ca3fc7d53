"""Recording the operators of a model while it runs on a batch.

In the forward pass every operator is recorded, in the backward pass those that Python code calls. `interception` hands
them over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.utils._pytree import tree_leaves, tree_map_only

from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.separation.memory import Memory
from discreet.clipping.separation.recording.interception import Functions, Operators
from discreet.clipping.separation.recording.passes import Pass, State
from discreet.clipping.separation.recording.program import Argument, BroadcastParameter, Held, Inside, Op, Program, Ref
from discreet.clipping.separation.recording.spans import Span

_RETURNED = (Tensor, nn.Parameter, type(None), bool, int, float, str)
"""The types that a recorded model may return, in tuples, lists and dictionaries."""

_active: ContextVar[Recorder | None] = ContextVar("recorder", default=None)

_proved: ContextVar[Sequence[BroadcastParameter] | None] = ContextVar("broadcast", default=None)


class Recorder:
    """Records the passes of a model over batches: `programs`, one for each forward pass with its backward pass.

    `forced`: values that replace, in order, the first numbers that Python reads from tensors. `closely`: shapes and
    modules are noted as well, for an examination. `plain_loss`: the loss has no Python code in the backward pass, so
    the backward pass is only recorded if the model has some. `expected`: the operators that most likely run on a batch;
    one that runs as expected is noted as that very object, so that records take hardly any memory.
    """

    def __init__(
        self,
        forced: Sequence[Any] = (),
        *,
        closely: bool = False,
        plain_loss: bool = False,
        expected: Callable[[int], Sequence[Op]] = lambda _: (),
    ) -> None:
        self.programs: list[Program] = []
        self.closely, self.plain_loss = closely, plain_loss
        self._forced, self._expected = list(forced), expected
        self._pass: Pass | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Inside, `forward` and `backward` record here. A backward pass stays in this thread: for tensors of a graphics
        card torch would run it in another, where neither this recorder nor the caller of an operator is known."""
        token = _active.set(self)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                yield
        finally:
            _active.reset(token)

    def _forward(self, state: State, inputs: Tensor, model: nn.Module | None) -> AbstractContextManager[None]:
        self._pass = one = Pass(state, inputs, self._forced, self.closely, self._expected(len(inputs)))
        self.programs.append(one.program)
        return _Intercepted(one, model if self.closely else None)


class _Intercepted:
    """Inside, all operators and functions of torch are handed to a pass, and with `model` the names of its modules."""

    __slots__ = ("_functions", "_named", "_operators")

    def __init__(self, one: Pass, model: nn.Module | None = None) -> None:
        self._operators: Any = Operators(one)
        self._functions: Any = Functions(one)
        self._named = None if model is None else one.named(model)

    def __enter__(self) -> None:
        if self._named is not None:
            self._named.__enter__()
        self._operators.__enter__()
        self._functions.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._functions.__exit__(*error)
        self._operators.__exit__(*error)
        if self._named is not None:
            self._named.__exit__(*error)


class _Aside:
    """Inside, operators and functions are not intercepted."""

    __slots__ = ("_functions", "_operators")
    _functions: Any
    _operators: Any

    def __enter__(self) -> None:
        self._operators = torch._C._DisableTorchDispatch()
        self._functions = torch._C.DisableTorchFunction()
        self._operators.__enter__()
        self._functions.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._functions.__exit__(*error)
        self._operators.__exit__(*error)


NOTHING = nullcontext()
"""The context of what is not recorded."""


def _has_own_derivatives(tensors: Sequence[Tensor]) -> bool:
    """Whether Python code takes part in the derivative of one of the tensors; no rule covers such code."""
    todo: list[Any] = [one.grad_fn for one in tensors if one.grad_fn is not None]
    seen = set(todo)
    while todo:
        node = todo.pop()
        if isinstance(node, BackwardCFunction):
            return True
        for one, _ in node.next_functions:
            if one is not None and one not in seen:
                seen.add(one)
                todo.append(one)
    return False


def forward(model: nn.Module | None, inputs: Tensor, state: State | None = None) -> AbstractContextManager[None]:
    """Inside, a model runs on a batch, and its operators are recorded if a recorder is active.

    `state`: the parameters and buffers in use, if they are not the model's own.
    """
    recorder = _active.get()
    if recorder is None:
        return NOTHING
    if state is None:
        held = () if model is None else named_tensors(model)
        state = [one for tensors in held for one in tensors.items()]
    return recorder._forward(state, inputs, model)


def returns(output: Any) -> None:
    """Note the output of the model."""
    one = _pass()
    if one is not None:
        with aside():
            leaves = tree_leaves(output)
            parts = [part for part in leaves if isinstance(part, Tensor)]
            if not all(type(part) in _RETURNED and not getattr(part, "__dict__", None) for part in leaves):
                one.fault("returns objects of a type of their own, or tensors with attributes")
            one.program.returned = [one.tensor(part) for part in parts]
            one.look_at_generator()
            one.look_at_kept()
            if _has_own_derivatives(parts):
                one.fault("has a derivative of its own (torch.autograd.Function, or a backward hook of a module)")


def holds(module: str, axis: int, given: Sequence[Tensor], returned: Sequence[Tensor], inner: int = 1) -> None:
    """Note inputs and outputs of a module with parameters; `axis` of the first ones must hold the examples, with
    `inner` entries of each one after the other. To be called inside `aside`."""
    one = _pass()
    if one is not None:
        for tensors, out in ((given, False), (returned, True)):
            for part, tensor in enumerate(tensors):
                where = (axis, one.tensor(tensor), inner) if part == 0 else (-1, one.tensor(tensor), 1)
                one.program.held.append(Held(module, *where, out, len(one.program.ops)))


def lies(name: str, parameter: Tensor) -> None:
    """Note that a parameter of the model lies elsewhere in memory now. To be called inside `aside`."""
    one = _pass()
    if one is not None:
        one.moved(parameter, name)


def enters() -> Span | None:
    """Note that a module starts which will run again. To be called inside `aside`, like `leaves`."""
    one = _pass()
    return None if one is None else one.enter()


def leaves(span: Span | None, module: str, given: Sequence[Tensor], returned: Any) -> None:
    """Note the end of a module that will run again, with its arguments and outputs."""
    one = _pass()
    if one is None or span is None:
        return
    one.spans.remove(span)
    span.end(one.program, _arguments(one, returned))
    refs = tuple([one.tensor(part).ref for part in given])
    one.program.inside.append(Inside(module, span.start, span.stop, refs))


def forgets(span: Span | None, module: str) -> None:
    """Note that no rule takes what a module is given and returns; `span`: of a call that was to run again."""
    one = _pass()
    if one is not None:
        program = one.program
        program.held = [held for held in program.held if held.module != module]
        if span is not None:
            start = span.start
            program.inside = [inside for inside in program.inside if inside.module != module or inside.start != start]


def traced(parameters: Mapping[int, str]) -> dict[int, Ref]:
    """The origins, by their ids, of those parameters (names by their ids) of which every gradient is traced to them."""
    one = _pass()
    if one is None:
        return {key: Ref("state", name) for key, name in parameters.items()}
    known = one.states_by_one_name()
    return {key: known[key] for key in parameters if key in known}


def proved_uses(parameter: Ref) -> Sequence[int] | None:
    """The numbers of the steps by which a parameter is proved to be broadcast over the examples: none, if it is not
    proved of this one; None if nothing is proved."""
    proved = _proved.get()
    return None if proved is None else next((one.uses for one in proved if one.ref == parameter), ())


def broadcasts(parameters: Sequence[BroadcastParameter]) -> None:
    """Note the parameters that are clipped where they are broadcast over the examples in this pass."""
    one = _pass()
    if one is not None:
        one.program.broadcast = tuple(sorted(parameters))


def is_followed() -> bool:
    """Whether the model is proved, or this pass is recorded for a proof: one says which entries are an example's."""
    return _pass() is not None or _proved.get() is not None


@contextmanager
def as_proved(parameters: Sequence[BroadcastParameter] | None) -> Iterator[None]:
    """Inside, the model is one for which there is a proof, by which these parameters alone are clipped where they are
    broadcast over the examples; None if there is no proof."""
    token = _proved.set(parameters)
    try:
        yield
    finally:
        _proved.reset(token)


def run_again(span: Span | None, module: str, run: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Run a module again on its arguments, and on one example of these, as rules do. Note a fault if it runs or reads
    something else, or changes what it holds."""
    one = _pass()
    if one is None or span is None:
        return
    look = one.again(span)
    with Operators(look), Functions(look):  # objects may have code of their own for being looked at
        memory = Memory(None, run, tensors=False)
    with aside():
        alone = one.again(span)
        given = [alone.tensor(part).ref for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
        first = tree_map_only(Tensor, lambda part: part[:1] if part.dim() else part, (args, kwargs))
        alone.give([part for part in tree_leaves(first) if isinstance(part, Tensor)])
    again, returned = one.again(span), None
    with Operators(again), Functions(again):
        try:
            returned = run(*args, **kwargs)
        except Exception as error:  # a module may raise any error
            again.fault(type(error).__name__)
    with Operators(alone), Functions(alone), contextlib.suppress(Exception):  # some need several examples
        run(*first[0], **first[1])
    with Operators(look), Functions(look):
        kept = memory.is_kept(None, run)
    with aside():
        if look.program.fault is not None or len(look.program.ops) > span.start:
            one.fault(f"module {module or 'model'!r} holds an object that works with tensors when it is looked at")
        if not kept:
            one.fault(f"module {module or 'model'!r} changes what it holds at each of its several calls")
        if not span.is_as(one.program, again.program, _arguments(again, returned)):
            one.fault(
                f"module {module or 'model'!r} does something else when it is run again on what it was given, to clip "
                "its gradients: something that it holds has changed since, or a hook changes what it is given"
            )
        if not span.is_closed(one.program, alone.program, given):
            one.fault(f"module {module or 'model'!r} reads something that it is not given when it has one example only")


def _arguments(one: Pass, values: Any) -> tuple[Argument, ...]:
    return tuple([one.tensor(part) for part in tree_leaves(values) if isinstance(part, Tensor)])


def _pass() -> Pass | None:
    recorder = _active.get()
    return None if recorder is None else recorder._pass


def backward() -> AbstractContextManager[None]:
    """Inside, the backward pass of the last recorded forward pass runs.

    A backward pass without Python code consists of torch's own derivatives and is not recorded, unless `.data` was
    used: by that, code that nobody calls (the finalizer of a tensor) could write unnoticed. For all Python code in it a
    fault was noted before, except for checkpoints and losses.
    """
    recorder, one = _active.get(), _pass()
    if one is None or recorder is None:
        return NOTHING
    if recorder.plain_loss and not (one.hooked or one.program.uncounted or recorder.closely):
        return NOTHING
    one.back = True
    return _Intercepted(one)


def aside() -> AbstractContextManager[None]:
    """Inside, operators are an engine's own and are not recorded, even in the middle of a backward pass."""
    return NOTHING if _active.get() is None else _Aside()
