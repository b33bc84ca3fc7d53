"""One forward pass over a batch: the inputs of every owner, and where the gradients of its outputs will be.

The backward pass (see `backward`) goes to the outputs of the owners only, so it computes no gradient of a parameter.
The hooks on modules are removed before it starts; the model is left as it was, also after an exception.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_map, tree_map_only
from torch.utils.hooks import RemovableHandle

from discreet.clipping.admission.foreign import refuse_foreign
from discreet.clipping.capture.broadcasts import broadcasts_apart
from discreet.clipping.capture.call import OTHER_ENGINE, Call, tensors_in, versions_of
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.capture.owners import Owner, owners_of, refuse_own_tensors, refuse_own_walks
from discreet.clipping.capture.routes import check_routes
from discreet.clipping.losses import Criterion, summed_loss
from discreet.clipping.rules import HeldDirectly
from discreet.clipping.separation.recording import recorder
from discreet.clipping.separation.recording.spans import Span
from discreet.clipping.separation.recording.trees import check_containers
from discreet.core.errors import UnsupportedModel


def capture(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> list[Call]:
    """The calls of all owners whose outputs the loss depends on, with the gradients of those outputs.

    Errors are those of `record`.
    """
    loss, calls = record(model, criterion, inputs, targets)
    edges = [edge for call in calls for edge in call.outputs if edge is not None]
    found = iter(torch.autograd.grad(loss, edges, allow_unused=True)) if edges else iter(())
    for call in calls:
        call.gradients = tuple(None if edge is None else next(found) for edge in call.outputs)
    return [call for call in calls if any(gradient is not None for gradient in call.gradients)]


def record(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Call]]:
    """The forward pass alone: the sum of the losses, shape (), and the calls whose outputs have a gradient, in order.

    `UnsupportedModel` if a trainable parameter is used in a way that no owner accounts for, or if the inputs or outputs
    of an owner do not hold the examples along the axis that its rule names.
    """
    refuse_own_walks(model)
    owners = owners_of(model)
    refuse_foreign(
        {f"{one.name}.{local}".lstrip("."): held for one in owners for local, held in one.parameters.items()}
    )
    refuse_own_tensors(model)
    following = recorder.forward(model, inputs)
    with torch.enable_grad(), _recording(owners, len(inputs)) as calls, following, _without_cache():
        around = Surroundings()
        output = model(inputs)
        around.check()
        check_containers(output)
        recorder.returns(output)
    refuse_own_walks(model)  # which it may have got meanwhile
    around = Surroundings()
    with torch.enable_grad():
        loss = summed_loss(criterion, output, targets)
    around.check()
    if not loss.requires_grad:
        return loss, []
    calls = broadcasts_apart(model, owners, loss, [call for call in calls if any(call.outputs)], len(inputs))
    for call in calls:
        _check_axes(call, len(inputs))
        _check_versions(call)
    check_routes(owners, loss, calls)
    _run_again(calls)
    around.check()
    return loss, calls


def _run_again(calls: list[Call]) -> None:
    """Check that modules without a rule do the same when they run again, in the order in which they ran."""
    for call in calls:
        if call.once is not None:
            raise UnsupportedModel(call.once)
        if call.drew:
            raise UnsupportedModel(_random(call.owner))
        if call.span is None:
            continue
        with torch.enable_grad(), _without_cache():
            recorder.run_again(call.span, call.owner.name, call.owner.module, call.args, call.kwargs)
        call.span = None


def _random(owner: Owner) -> str:
    """Why a module that draws random numbers cannot run again, and what mends it: of a class that holds parameters
    beside what draws, which of them make it run again."""
    said = f"{owner.described} has no rule and draws random numbers; "
    if owner.rule is not HeldDirectly:
        return f"{said}{OTHER_ENGINE}"
    names, more = ", ".join(map(repr, owner.names[:3])), len(owner.names) - 3
    listed = f"{names} and {more} more" if more > 0 else names
    return f"{said}put {listed} into a module that draws none and takes and returns rows alone, or {OTHER_ENGINE}"


@contextmanager
def _recording(owners: list[Owner], examples: int) -> Iterator[list[Call]]:
    """Record the calls of `owners` that are made inside, on a batch of so many examples."""
    calls: list[Call] = []
    handles: list[RemovableHandle] = []
    try:
        for owner in owners:
            hook = _recorder(owner, calls, examples)
            handles.append(owner.module.register_forward_hook(hook, with_kwargs=True, prepend=True))
            if owner.runs_again:
                before, after = _watch(owner, calls)
                handles.append(owner.module.register_forward_pre_hook(before, with_kwargs=True, prepend=True))
                handles.append(owner.module.register_forward_hook(after, with_kwargs=True))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _without_cache() -> Iterator[None]:
    """Inside, autocast converts a weight at every use, so that a module does the same when it runs again."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _recorder(owner: Owner, calls: list[Call], examples: int) -> Callable[..., Any]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> Any:
        with recorder.aside():
            return record_call(args, kwargs, returned)

    def record_call(args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> Any:
        check_containers((args, kwargs, returned))
        if not isinstance(returned, Tensor) and sum(part.requires_grad for part in tensors_in(returned)) > 1:
            # One may be made from another inside the module; only the uses outside of the module count.
            returned = tree_map_only(Tensor, _alias, returned)
        leaves, parts = tensors_in((args, kwargs) if kwargs else args), tensors_in(returned)
        axis, entries = owner.rule.axis(owner.module), _entries(owner, leaves, parts, examples)
        recorder.holds(owner.name, axis, leaves, parts, entries)
        if kwargs or not all(isinstance(one, Tensor) for one in args):
            # Lists and dictionaries are the model's, and it may change what they hold before a rule reads them.
            args, kwargs = tree_map(lambda one: one, (args, kwargs))
        calls.append(
            Call(
                owner=owner.as_it_is(),
                args=args,
                kwargs=kwargs,
                versions=versions_of(args, kwargs),
                inputs=[get_gradient_edge(leaf) for leaf in leaves if leaf.requires_grad],
                outputs=[get_gradient_edge(part) if part.requires_grad else None for part in parts],
                shapes=[part.shape for part in (*leaves[:1], *parts[:1])],
                entries=entries,
            )
        )
        return returned

    return hook


def _entries(owner: Owner, leaves: list[Tensor], parts: list[Tensor], examples: int) -> int:
    """The number of entries that each example has along axis 0 of a module's input and output. Where there are several
    examples and no proof, which has to show that the entries of each follow one another, it is 1."""
    if len(leaves) != 1 or len(parts) != 1 or owner.runs_again or owner.rule.axis(owner.module) != 0:
        return 1
    given, returned = leaves[0].shape[:1], parts[0].shape[:1]
    entries, rest = divmod(math.prod(given), examples)
    known = examples == 1 or recorder.is_followed()
    return entries if known and given == returned and entries > 1 and not rest else 1


def _alias(tensor: Tensor) -> Tensor:
    """The tensor by another node, with the strides that it has, by which a record knows it."""
    return torch.ops.aten.alias.default(tensor) if tensor.requires_grad else tensor


def _watch(owner: Owner, calls: list[Call]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Hooks that note the state of the generator, the input and the operators when a module starts, and whether it can
    run again with the same random numbers on the same input."""
    states: list[tuple[Tensor, list[int], Span | None]] = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with recorder.aside():
            states.append((_generator(owner), versions_of(args, kwargs), recorder.enters()))

    def after(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any) -> None:
        state, versions, span = states.pop()
        with recorder.aside():
            recorder.leaves(span, owner.name, tensors_in((args, kwargs)), returned)
        call = calls[-1]
        if call.versions != versions:
            call.once = (
                f"{owner.described} overwrites its own input, so it cannot be run on it again; remove the operation in "
                "place (inplace=True, +=)"
            )
        if owner.rule.replays:
            call.generator = state
            return
        call.span = span
        if _moved(state, owner):
            call.drew = True

    return before, after


def _moved(state: Tensor, owner: Owner) -> bool:
    with recorder.aside():
        return not torch.equal(state, _generator(owner))


def _generator(owner: Owner) -> Tensor:
    device = next(iter(owner.parameters.values())).device
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _check_axes(call: Call, examples: int) -> None:
    if any(isinstance(part, PackedSequence) for part in (*call.args, *call.kwargs.values())):
        raise UnsupportedModel(
            f"{call.owner.described} got a PackedSequence, which has no axis of examples; give it padded sequences, "
            "and pick each example's last output by its length"
        )
    axis = call.owner.rule.axis(call.owner.module)
    for shape in call.shapes:
        if len(shape) <= axis or shape[axis] != call.entries * examples:
            raise UnsupportedModel(
                f"{call.owner.described} works on a tensor of shape {tuple(shape)} in a batch of {examples}; "
                f"its axis {axis} must hold the examples, or else {OTHER_ENGINE}"
            )


def _check_versions(call: Call) -> None:
    if versions_of(call.args, call.kwargs) != call.versions:
        raise UnsupportedModel(
            f"an input of {call.owner.described} was overwritten after the module had read it; "
            "remove the operation in place (inplace=True, +=)"
        )
