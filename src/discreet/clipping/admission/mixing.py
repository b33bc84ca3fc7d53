"""An experiment that finds modules through which examples influence each other, within a call or from call to call.

The model is called on random examples, on others, and on the first ones again: the results must be the same. Then each
example in turn is exchanged for another, sometimes a far larger one: in the outputs of all modules, no other example's
row may change. Every module gets the same random numbers in all calls, so dropout raises no alarm. A second round has
other examples and randomly moved weights, so that it also sees a branch whose weights start at zero.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from discreet.clipping.admission.example_axes import UNKNOWN, Place, is_whole, moved, place_of, strayed
from discreet.clipping.capture.repeatable import repeatable
from discreet.clipping.capture.tracing import Call, Trace, steady_slopes, trace
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import CANNOT_TAKE

_LARGE = (1e3, 1e6)
"""Some rows are also exchanged for rows this many times larger, since a branch may be taken for such rows only."""

_LARGE_WHOLE = (255, 65_535, -128)
"""Large whole numbers, which may be pixels: limits of one and of two bytes, cut to the range of the input's type."""

Exchange = tuple[int, Tensor, bool]
"""A row, its replacement, and whether every model must be able to run on it."""


@dataclass(frozen=True)
class Findings:
    """Names of modules; the name of the model itself is the empty string.

    `mixing`: modules that mix examples, so that the output of the model shows it. `inside`: modules whose mixing does
    not reach the output, which matters only for engines that run batches. `remembering`: modules that return something
    else when called again. `writing`: parameters and buffers that change. `sparse`: parameters with sparse gradients.
    """

    mixing: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    remembering: tuple[str, ...] = ()
    writing: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()


def try_out(model: nn.Module, inputs: Tensor, others: Tensor) -> Findings:
    """Look for influence between examples, in the current mode of the model.

    `inputs`, `others`: two sets of different random examples along axis 0, equally many, at least three each. Weights,
    buffers and torch's generator are restored. Errors are those of the model.
    """
    kept = {name: tensor.detach().clone() for name, tensor in named_tensors(model).together.items()}
    try:
        with torch.no_grad(), torch.random.fork_rng(), steady_slopes(model), repeatable():
            sparse = _sparse_gradients(model, inputs)
            first = _look(model, inputs, others)
            with moved_weights(model):
                second = _look(model, others, inputs)
            third = _look_there(model, inputs)
    finally:
        writing = _put_back(model, kept)
    looks = first, second, third
    mixing, inside, remembering = (
        tuple(dict.fromkeys(name for look in looks for name in getattr(look, kind)))
        for kind in ("mixing", "inside", "remembering")
    )
    return Findings(mixing, tuple(name for name in inside if name not in mixing), remembering, writing, sparse)


def _sparse_gradients(model: nn.Module, inputs: Tensor) -> tuple[str, ...]:
    """The parameters whose gradients are sparse; none if the backward pass fails."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    try:
        with torch.enable_grad(), warnings.catch_warnings(action="ignore"):  # later checks show them
            outputs = [one for one in tree_leaves(model(inputs)) if isinstance(one, Tensor) and one.requires_grad]
            total = torch.stack([output.sum() for output in outputs]).sum()
            gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    except CANNOT_TAKE:
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
    places = _places(usual, shorter, len(inputs))
    return _exchanged(model, usual, places, inputs, _exchanges(inputs, others))


def _places(usual: Trace, shorter: Trace, size: int) -> list[list[Place]]:
    """The axis of the examples in every tensor of a trace, found by comparison with a trace of one example less."""
    if [call.name for call in usual] != [call.name for call in shorter]:
        return [[Place(0, 1)] * len(_all(one)) for one in usual]
    return [
        [place_of(a, b, size, size - 1) for a, b in zip(_all(one), _all(other), strict=False)]
        for one, other in zip(usual, shorter, strict=True)
    ]


def _exchanged(
    model: nn.Module, usual: Trace, places: list[list[Place]], inputs: Tensor, exchanges: Iterable[Exchange]
) -> Findings:
    """The modules in which other examples change when one example is exchanged for another."""
    mixing: list[str] = []
    inside: list[str] = []
    for row, other, usually in exchanges:
        changed = inputs.clone()
        changed[row] = other
        calls = trace(model, (changed,)) if usually else _trace_large(model, changed)
        if calls is None:
            continue
        culprits, arrived = _strays(usual, calls, places, row, len(inputs))
        (mixing if arrived else inside).extend(culprits)
    if mixing:  # modules after a culprit may be culprits too
        mixing = _innermost([*mixing, *_mixing_alone(model, usual, places, len(inputs))])
    return Findings(tuple(mixing), tuple(inside))


def _trace_large(model: nn.Module, inputs: Tensor) -> Trace | None:
    """All calls; None if the model fails on such numbers."""
    try:
        return trace(model, (inputs,))
    except CANNOT_TAKE:
        return None


def _exchanges(inputs: Tensor, others: Tensor) -> Iterator[Exchange]:
    """All exchanges.

    The last replacements are not finite. Private rows are finite, but outputs of modules for large rows need not be,
    and a branch that tests for this may be taken for all rows.
    """
    for row in range(len(inputs)):
        yield row, others[row], True
    if is_whole(inputs):
        if _on_processor(inputs):
            yield from _large_whole(inputs)
        return
    for row, factor in enumerate(_LARGE):
        yield row, others[row] * factor, False
    yield 0, torch.full_like(others[0], math.nan), False
    overflown = others[1].clone()
    if overflown.numel():
        overflown[(0,) * overflown.dim()] = math.inf  # one number only: several could give NaN together
        yield 1, overflown, False


def _large_whole(inputs: Tensor) -> Iterator[Exchange]:
    """Exchanges for rows of large whole numbers."""
    for row, number in enumerate(_LARGE_WHOLE if inputs.dtype != torch.bool else ()):
        kind = torch.iinfo(inputs.dtype)
        yield row, torch.full_like(inputs[row], max(kind.min, min(number, kind.max))), False


def _on_processor(inputs: Tensor) -> bool:
    return inputs.device.type == "cpu"


def _look_there(model: nn.Module, inputs: Tensor) -> Findings:
    """The modules in which other examples change when one is of large whole numbers, if the model runs on the CPU.

    Such numbers are tried only there: they may be indices into a table, and an accelerator cannot be used any more
    after an index out of range.
    """
    if not is_whole(inputs) or _on_processor(inputs):
        return Findings()
    try:
        there, rows = copy.deepcopy(model).cpu(), inputs.cpu()
        usual, shorter = trace(there, (rows,)), trace(there, (rows[:-1],))
        return _exchanged(there, usual, _places(usual, shorter, len(rows)), rows, _large_whole(rows))
    except Exception:  # copying may raise any error
        return Findings()


def _mixing_alone(model: nn.Module, usual: Trace, places: list[list[Place]], size: int) -> list[str]:
    """The modules that mix when they are called by themselves, with exchanged rows in their inputs."""
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
        except CANNOT_TAKE:
            continue  # the module does not run by itself
        spots = where[len(call.given) :]
        if any(strayed(a, b, at, 0, size) for a, b, at in zip(before.returned, after.returned, spots, strict=False)):
            found.append(call.name)
    return found


def _all(call: Call) -> list[Tensor]:
    return call.given + call.returned


def _strays(usual: Trace, changed: Trace, places: list[list[Place]], row: int, size: int) -> tuple[list[str], bool]:
    """The innermost modules whose outputs changed at other places than `row` although their inputs did not, and whether
    the output of the model changed there."""
    if [call.name for call in usual] != [call.name for call in changed]:
        usual, changed, places = usual[-1:], changed[-1:], places[-1:]  # which modules run depends on the values
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
    """The innermost modules whose outputs differ for the same input."""
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
    """The names without those of modules that contain another named module."""
    return [name for name in names if not any(_inside(other, name) for other in names)]


def _inside(name: str, outer: str) -> bool:
    return name != outer and (not outer or name.startswith(f"{outer}."))


@contextmanager
def moved_weights(model: nn.Module) -> Iterator[None]:
    """Inside, every weight is moved at random, far enough to matter; the weights are restored afterwards."""
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


def _put_back(model: nn.Module, kept: dict[str, Tensor]) -> tuple[str, ...]:
    """Restore the values of parameters and buffers; returns the names of those that had changed."""
    changed = []
    with torch.no_grad():
        for name, tensor in named_tensors(model).together.items():
            before = kept.get(name)
            if before is None or before.shape != tensor.shape:
                changed.append(name)
            elif not torch.equal(tensor, before):
                changed.append(name)
                tensor.copy_(before)
    return tuple(changed)
