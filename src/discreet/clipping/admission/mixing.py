"""Finding, by experiment, what lets the examples of a batch influence each other: within a call, or from call to call.

The model is called on random examples, on others, and on the first ones again: nothing may have changed. Then one
example is exchanged, and so on for each. No other example's row may move, in what any module returns. Some of what
comes instead is far larger. Every module
gets the same random numbers in all calls, so dropout is no cause for alarm. A second round has other examples, and
weights that are moved at random, so that a branch that starts at zero is seen as well.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from discreet.clipping.admission.example_axes import UNKNOWN, Place, is_whole, moved, place_of, strayed
from discreet.clipping.capture.tracing import Call, Trace, repeatable, steady_slopes, trace
from discreet.clipping.seeding import seed_torch

_LARGE = (1e3, 1e6)
"""Some rows are also exchanged for others that are so many times larger: a branch may be taken for such rows only."""

_LARGE_WHOLE = (255, 65_535, -128)
"""The same of whole numbers, which may be pixels: what a byte and two of them can be, as far as their type goes."""

CANNOT = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AssertionError)
"""What models raise for rows that they cannot take."""


@dataclass(frozen=True)
class Findings:
    """Names of modules; that of the model is the empty text.

    What is `mixing` reaches the output of the model. What mixes only `inside` does not, and concerns engines that run
    batches. What is `remembering` returns something else when it is called again. `writing` names what changes of
    parameters and buffers, `sparse` the parameters whose gradients are sparse.
    """

    mixing: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    remembering: tuple[str, ...] = ()
    writing: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()


def try_out(model: nn.Module, inputs: Tensor, others: Tensor) -> Findings:
    """Look for influence between examples, in the mode that the model is in.

    `inputs`, `others`: two sets of different random examples along axis 0, as many of each, at least three. Weights,
    buffers and torch's generator are put back. Errors are those of the model.
    """
    kept = {name: tensor.detach().clone() for name, tensor in _state(model).items()}
    try:
        with torch.no_grad(), torch.random.fork_rng(), steady_slopes(model), repeatable():
            sparse = _sparse_gradients(model, inputs)
            first = _look(model, inputs, others)
            with moved_weights(model):
                second = _look(model, others, inputs)
            third = _look_there(model, inputs, others)
    finally:
        writing = _put_back(model, kept)
    looks = first, second, third
    mixing, inside, remembering = (
        tuple(dict.fromkeys(name for look in looks for name in getattr(look, kind)))
        for kind in ("mixing", "inside", "remembering")
    )
    return Findings(mixing, tuple(name for name in inside if name not in mixing), remembering, writing, sparse)


def _sparse_gradients(model: nn.Module, inputs: Tensor) -> tuple[str, ...]:
    """The parameters whose gradients are sparse; a model without a gradient of them all is not judged."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    try:
        with torch.enable_grad(), warnings.catch_warnings(action="ignore"):  # a run shows them
            outputs = [one for one in tree_leaves(model(inputs)) if isinstance(one, Tensor) and one.requires_grad]
            total = torch.stack([output.sum() for output in outputs]).sum()
            gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    except CANNOT:
        return ()
    found = {name: gradient for name, gradient in zip(trained, gradients, strict=True) if gradient is not None}
    return tuple(name for name, gradient in found.items() if gradient.layout is not torch.strided)


def _look(model: nn.Module, inputs: Tensor, others: Tensor) -> Findings:
    usual, shorter = trace(model, (inputs,)), trace(model, (inputs[:-1],))
    trace(model, (others,))
    if not is_whole(inputs):
        _trace_large(model, others * _LARGE[-1])
    again = trace(model, (inputs,))
    forgetful = _differing(usual, again)
    if forgetful:
        return Findings(remembering=forgetful)
    aligned = [call.name for call in usual] == [call.name for call in shorter]
    sizes = len(inputs), len(inputs) - 1
    places = [
        [place_of(a, b, *sizes) for a, b in zip(_all(one), _all(other), strict=False)]
        if aligned
        else [Place(0, 1)] * len(_all(one))
        for one, other in zip(usual, shorter if aligned else usual, strict=True)
    ]
    mixing: list[str] = []
    inside: list[str] = []
    for row, other, usually in _exchanges(inputs, others):
        changed = inputs.clone()
        changed[row] = other
        calls = trace(model, (changed,)) if usually else _trace_large(model, changed)
        if calls is None:
            continue
        culprits, arrived = _strays(usual, calls, places, row, len(inputs))
        (mixing if arrived else inside).extend(culprits)
    if mixing:  # what follows a culprit may be one itself
        mixing = _innermost([*mixing, *_mixing_alone(model, usual, places, len(inputs))])
    return Findings(tuple(mixing), tuple(inside))


def _trace_large(model: nn.Module, inputs: Tensor) -> Trace | None:
    """All calls, if the model takes such numbers."""
    try:
        return trace(model, (inputs,))
    except CANNOT:
        return None


def _exchanges(inputs: Tensor, others: Tensor) -> Iterator[tuple[int, Tensor, bool]]:
    """Which rows are exchanged, for what, and whether a model must take it.

    At last for what is not finite. Rows are finite, but what modules return of large ones need not be; and a branch
    that looks for that may be taken for all rows.
    """
    for row in range(len(inputs)):
        yield row, others[row], True
    if is_whole(inputs):
        for row, number in enumerate(_LARGE_WHOLE if _on_processor(inputs) and inputs.dtype != torch.bool else ()):
            kind = torch.iinfo(inputs.dtype)
            yield row, torch.full_like(others[row], max(kind.min, min(number, kind.max))), False
        return
    for row, factor in enumerate(_LARGE):
        yield row, others[row] * factor, False
    yield 0, torch.full_like(others[0], math.nan), False
    overflown = others[1].clone()
    if overflown.numel():
        overflown[(0,) * overflown.dim()] = math.inf  # one number only: several would make NaN of each other
        yield 1, overflown, False


def _on_processor(inputs: Tensor) -> bool:
    return inputs.device.type == "cpu"


def _look_there(model: nn.Module, inputs: Tensor, others: Tensor) -> Findings:
    """The same on the processor, if the model can be run there. Large whole numbers are tried there alone: they may be
    codes that a model looks up, and an accelerator that does not find one is of no use afterwards."""
    if not is_whole(inputs) or _on_processor(inputs):
        return Findings()
    try:
        return _look(copy.deepcopy(model).cpu(), inputs.cpu(), others.cpu())
    except Exception:  # a copy may raise whatever it likes
        return Findings()


def _mixing_alone(model: nn.Module, usual: Trace, places: list[list[Place]], size: int) -> list[str]:
    """The modules that mix when they are called by themselves, with rows exchanged in what they were given."""
    found = []
    for call, where in zip(usual[:-1], places[:-1], strict=True):
        known = dict(zip(map(id, call.given), where, strict=False))

        def exchange(part: Any, known: dict[int, Place] = known) -> Any:
            place = known.get(id(part), UNKNOWN)
            if place.axis < 0 or place.each != 1:
                return part
            return part.index_select(place.axis, torch.tensor([1, *range(1, size)], device=part.device))

        module = model.get_submodule(call.name)
        try:
            before, after = (
                trace(module, *part)[-1] for part in (call.passed, tree_map_only(Tensor, exchange, call.passed))
            )
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue  # it needs what is around it
        spots = where[len(call.given) :]
        if any(strayed(a, b, at, 0, size) for a, b, at in zip(before.returned, after.returned, spots, strict=False)):
            found.append(call.name)
    return found


def _all(call: Call) -> list[Tensor]:
    return call.given + call.returned


def _strays(usual: Trace, changed: Trace, places: list[list[Place]], row: int, size: int) -> tuple[list[str], bool]:
    """The innermost modules that returned something of `row` at other places, though they were not given it there; and
    whether the model returned some."""
    if [call.name for call in usual] != [call.name for call in changed]:
        usual, changed, places = usual[-1:], changed[-1:], places[-1:]  # what runs depends on the values
    found: list[tuple[str, bool]] = []
    arrived = False
    for before, after, where in zip(usual, changed, places, strict=True):
        flags = [strayed(a, b, place, row, size) for a, b, place in zip(_all(before), _all(after), where, strict=False)]
        given, returned = flags[: len(before.given)], flags[len(before.given) :]
        arrived = any(returned)
        if arrived and not any(given):
            told = any(flag and place.axis >= 0 for flag, place in zip(flags, where, strict=False))
            found.append((before.name, told))
    return _innermost([name for name, told in found if told or arrived]), arrived


def _differing(usual: Trace, again: Trace) -> tuple[str, ...]:
    """The innermost modules that returned something else for the same input."""
    if [call.name for call in usual] != [call.name for call in again]:
        return (usual[-1].name,)
    found = [
        one.name
        for one, other in zip(usual, again, strict=True)
        if _unlike(one.returned, other.returned) and not _unlike(one.given, other.given)
    ]
    return tuple(_innermost(found))


def _unlike(ones: list[Tensor], others: list[Tensor]) -> bool:
    return len(ones) != len(others) or any(
        one.shape != other.shape or moved(one, other) for one, other in zip(ones, others, strict=True)
    )


def _innermost(names: list[str]) -> list[str]:
    """Without those that have another one inside."""
    return [name for name in names if not any(_inside(other, name) for other in names)]


def _inside(name: str, outer: str) -> bool:
    return name != outer and (not outer or name.startswith(f"{outer}."))


@contextmanager
def moved_weights(model: nn.Module) -> Iterator[None]:
    """Inside, every weight is moved at random, by about what it would take to matter."""
    parameters = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    kept = [parameter.detach().clone() for parameter in parameters]
    try:
        seed_torch(1)
        with torch.no_grad():
            for parameter in parameters:
                fan = math.prod(parameter.shape[1:]) if parameter.dim() > 1 else 1
                parameter.add_(torch.randn_like(parameter), alpha=0.3 / math.sqrt(max(1, fan)))
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)


def _state(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _put_back(model: nn.Module, kept: dict[str, Tensor]) -> tuple[str, ...]:
    """Give parameters and buffers their values again; the names of those that had others."""
    changed = []
    with torch.no_grad():
        for name, tensor in _state(model).items():
            before = kept.get(name)
            if before is None or before.shape != tensor.shape:
                changed.append(name)
            elif not torch.equal(tensor, before):
                changed.append(name)
                tensor.copy_(before)
    return tuple(changed)
