"""Book-keeping: clipped sums at about the price of an ordinary step, without per-example gradients.

There is one forward pass, and one backward pass to the outputs of the modules that own parameters. From the inputs of
a module and the gradients of its outputs, its rule computes the per-example norms. The clip factors are then the
weights of a sum that each rule forms from the same tensors (Bu et al. 2023, "Differentially private optimization on
large model at small cost", algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.capture.backward import visit
from discreet.clipping.capture.call import Call, tensors_in
from discreet.clipping.capture.capture import record
from discreet.clipping.clip import Clip
from discreet.clipping.engines.clipped_sums import sums_of_none
from discreet.clipping.engines.small_gradients import SmallGradients
from discreet.clipping.engines.tied_weights import joined
from discreet.clipping.factor import SMALL, decide, divided, in_box, summed_bits
from discreet.clipping.losses import Criterion
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.precision import full_precision
from discreet.clipping.rules import OfUnits, Rule, base
from discreet.clipping.rules.numbers import squared_norms, weighted_sum, wide_type, with_rounding
from discreet.clipping.units import Chunk, Units
from discreet.clipping.weights import counted, for_chunk, sizes
from discreet.core.errors import UnsupportedModel

_PASSES = 8
"""Rows that are read several times are formed in blocks this many times smaller, which stay in caches (measured)."""

_HARDLY = 1 + 1e-5
"""Squared norms that are enlarged by no more than this factor for rounding are enlarged by enough."""

Share = tuple[Rule, str]
"""A rule, and the name by which its module knows a parameter."""


def clipped_sums(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
    """The sum of the gradients of all examples, each clipped as `clip` says, by parameter name: at least in single
    precision, and in float64 where several calls add up.

    Of units of several rows, the mean gradients are clipped as a whole. Errors are those of `capture.record`.
    """
    sums = sums_to_form(model, criterion, chunk, clip)
    with full_precision(chunk.inputs.device.type):  # once, and not for each sum
        return {**sums}


class SumsToForm(Mapping[str, Tensor]):
    """Clipped sums by name, each formed when it is asked for; that can be done once, as what it is formed from is freed
    then."""

    def __init__(self, form: Callable[[str], Tensor], names: Iterable[str], formed: dict[str, Tensor]) -> None:
        self._form, self._formed, self._names = form, formed, tuple(names)
        self._left = {*self._names} - formed.keys()

    def __getitem__(self, name: str) -> Tensor:
        if name in self._left:
            self._left.discard(name)
            return self._form(name)
        return self._formed.pop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def sums_to_form(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
    """The sums of `clipped_sums`, bit for bit; those that need no weights are formed when they are asked for.

    All norms are known before, and what is left to form is arithmetic on tensors that were measured and lie elsewhere
    than weights: only a lack of memory ends it.
    """
    parameters = private_parameters(model)
    if chunk.size == 0:
        return sums_of_none(model, clip)
    inputs, units, device = chunk.inputs, chunk.units, chunk.inputs.device.type
    shares: dict[str, list[Share]] = {}
    squares: dict[str, Tensor] = {}
    small = SmallGradients(clip)
    at_once: set[str] = set()  # names whose sum needs weights: a rule reads them, or a tensor is a part of one
    names = {id(parameter): name for name, parameter in parameters.items()}

    def measure(group: list[Call]) -> None:
        with torch.no_grad(), full_precision(device):
            found, lengths = measured(names, group, units, clip, small)
        settle(found, clip)
        if any(call.owner.reads_weights or not memory.isdisjoint(_memory(_of_call(call))) for call in group):
            at_once.update(found)
        shares.update(found)
        squares.update(lengths)

    loss, calls = record(model, criterion, inputs, chunk.targets)
    memory = _memory(named_tensors(model).parameters.values())
    if calls:
        visit(loss, calls, measure)
    del loss, calls  # and the rest of the graph with them
    for one in rules_of(shares):
        one.check()
    with torch.no_grad(), full_precision(device):
        squares |= small.measured()
        none = torch.zeros(chunk.size, dtype=torch.float64, device=inputs.device)
        squares = {name: squares.get(name, none) for name in parameters}
        decision = decide(clip, counted(squares, units), sizes(parameters))
        # With scales, `total_of` handles small weights itself.
        decision = for_chunk(decision, parameters, units, cut_off=clip.scales is None)
        if bool(decision.unusable.any()):
            for one in rules_of(shares):
                one.drop(decision.unusable)

    def form(name: str) -> Tensor:
        parameter = parameters[name]
        with torch.no_grad(), full_precision(device):
            weights = decision.weights[name].to(parameter.device)
            return total_of(shares.pop(name, []), parameter, weights, clip, name)

    formed = {name: form(name) for name in parameters if name in at_once} | summed_bits(decision)
    return SumsToForm(form, {**parameters, **formed}, formed)


def _of_call(call: Call) -> list[Tensor]:
    """The tensors that its rule forms a sum from."""
    given = tensors_in((call.args, call.kwargs) if call.kwargs else call.args)
    return [*given, *(one for one in call.gradients if one is not None)]


def _memory(tensors: Iterable[Tensor]) -> set[int]:
    """The addresses of the memory that tensors are parts of."""
    return {one.untyped_storage().data_ptr() for one in tensors if one.layout is torch.strided} - {0}


def measured(
    names: Mapping[int, str], calls: list[Call], units: Units | None, clip: Clip, small: SmallGradients | None = None
) -> tuple[dict[str, list[Share]], dict[str, Tensor]]:
    """By parameter of the calls: the rules that contribute to its gradient, and the squared norms of that gradient
    for each example (or unit), in the scales of the clip unless it is a box: float64, shape (examples,). `names`: the
    name of each trainable parameter, by its id. `small`: takes what can be measured later."""
    shares = _shares(names, calls, units if units is not None and units.limit > 1 else None)
    if clip.scales is None:
        squares = {}
        for name, held in shares.items():
            tied = joined(held)
            if tied is not None:
                shares[name], squares[name] = tied
            elif small is None or len(held) > 1 or not small.take(name, *held[0]):
                squares[name] = _squares(held, None)
        return shares, squares
    scales = {} if clip.box else clip.scales
    return shares, {name: _squares(held, scales.get(name), _PASSES) for name, held in shares.items()}


def settle(shares: Mapping[str, list[Share]], clip: Clip) -> None:
    """Let the rules free what only norms needed, where `total_of` does not form rows again."""
    several = {id(one) for held in shares.values() if len(held) > 1 for one, _ in held}
    for one in rules_of(shares):
        one.settle(rows=clip.scales is not None or id(one) in several)


def rules_of(shares: Mapping[str, list[Share]]) -> list[Rule]:
    """All rules that contribute to a gradient, each once."""
    return list({id(one): one for held in shares.values() for one, _ in held}.values())


def _shares(names: Mapping[int, str], calls: list[Call], units: Units | None) -> dict[str, list[Share]]:
    """The rules that contribute to the gradient of each parameter of the calls."""
    shares: dict[str, list[Share]] = {}
    for one, call in _joined(calls):
        if units is not None:
            one = one.of_units(units) or OfUnits(one, units)
        for local, parameter in call.owner.parameters.items():
            shares.setdefault(names[id(parameter)], []).append((one, local))
    return shares


def _joined(calls: list[Call]) -> Iterator[tuple[Rule, Call]]:
    """The rule of every call; calls with the same parameters share one rule if the rule can join them."""
    if len(calls) == 1:
        yield _rule(calls[0]), calls[0]
        return
    alike: dict[tuple[int, ...], list[Call]] = {}
    for call in calls:
        alike.setdefault((id(call.owner.rule), *call.owner.keys), []).append(call)
    for group in alike.values():
        first, *others = [_rule(call) for call in group]
        joined = first.join(others) if others else first
        if joined is not None:
            yield joined, group[0]
        else:
            yield from zip([first, *others], group, strict=True)


def _rule(call: Call) -> Rule:
    """The rule for a call. Several entries of each example along axis 0 become positions of it, where the rule takes
    any; else their gradients are added up."""
    kind, several = call.owner.rule, call.entries > 1
    captured = call.args, call.kwargs, call.gradients
    if several and kind.takes_positions:
        captured = tree_map_only(Tensor, lambda one: one.unflatten(0, (-1, call.entries)), captured)
    try:
        made = kind(call.owner.module, call.owner.names, *captured)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{call.owner.described}: {error}") from error
    made.generator = call.generator
    if several and not kind.takes_positions:
        return OfUnits(made, Units((call.entries,) * (made.examples // call.entries)), added=True)
    return made


def _squares(held: list[Share], scale: Tensor | None, part: int = 1) -> Tensor:
    """The squared norm of each example's gradient for one parameter, divided by `scale` if given. The gradients of
    several calls are added up before they are measured, block by block, since they are not orthogonal. `part`: of the
    blocks in which `total_of` forms them."""
    first, name = held[0]
    if len(held) == 1:
        known = first.squares(name) if scale is None else first.scaled_squares(name, scale)
        if known is not None and (part == 1 or not first.forms_again(name)):
            return known
    terms, count = torch.stack([one.lengths(local) for one, local in held]).sum(0), sum(one.terms(x) for one, x in held)
    kind = wide_type(first.module.get_parameter(name).dtype)
    if scale is None:
        return with_rounding(torch.cat([squared_norms(rows) for rows in _rows(held, part)]), terms, kind, count)
    squares = torch.cat([_scaled_squares(rows, scale) for rows in _rows(held, part)])
    enlarged = with_rounding(squares, terms / scale.min(), kind, count)
    enough = enlarged <= squares * _HARDLY
    if bool(enough.all()):
        return enlarged
    # Rounding is proportional to the terms, number by number: a small scale enlarges it only at its own number.
    terms = torch.stack([one.scaled_lengths(local, scale) for one, local in held]).sum(0)
    tighter = torch.minimum(enlarged, with_rounding(squares, terms, kind, count))
    return torch.where(enough, enlarged, tighter)  # the rows of others decide nothing


def _scaled_squares(rows: Tensor, scale: Tensor) -> Tensor:
    rows = rows.reshape(-1, *scale.shape)
    squares = squared_norms(divided(rows, scale))
    beyond = ~torch.isfinite(squares)
    if bool(beyond.any()):  # perhaps only of single precision
        squares[beyond] = squared_norms(rows[beyond].double() / scale)
    return squares


def _rows(held: list[Share], part: int = 1) -> Iterator[Tensor]:
    """The gradients of the examples for one parameter, in blocks that take 1 / `part` of the memory budget."""
    first, name = held[0]
    step = base.room_for(8 * part * first.module.get_parameter(name).numel())
    for start in range(0, first.examples, step):
        stop = min(start + step, first.examples)
        rows = first.rows(name, start, stop)
        for other, local in held[1:]:
            rows = rows + other.rows(local, start, stop)
        yield rows


def total_of(held: list[Share], parameter: nn.Parameter, weights: Tensor, clip: Clip, name: str) -> Tensor:
    """The clipped sum for the parameter called `name`, in the scales of the clip."""
    if not held:
        return torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device)
    if clip.scales is None:
        return _plain_total(held, parameter, weights)
    scale = clip.scales[name]
    known = held[0][0].boxed_total(held[0][1], scale) if clip.box and len(held) == 1 else None
    if known is not None:
        return known.view(parameter.shape)
    if not clip.box and bool(((weights == 0) | (weights > SMALL)).all()):
        return _plain_total(held, parameter, weights, _PASSES).double() / scale
    total, start = torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device), 0
    for block in _rows(held, _PASSES):
        rows, start = block.view(-1, *parameter.shape), start + len(block)
        if clip.box:
            total += in_box(rows, scale).sum(0)
        else:  # single precision would keep too few digits of such small weights
            total += weighted_sum(weights[start - len(rows) : start], rows.double() / scale)
    return total


def _plain_total(held: list[Share], parameter: nn.Parameter, weights: Tensor, part: int = 1) -> Tensor:
    one, name = held[0]
    if len(held) == 1 and (part == 1 or not one.forms_again(name)):
        total = one.total(name, weights)
        return total if total.shape == parameter.shape else total.view(parameter.shape)
    # Gradients of several calls may cancel: the sum is one of the rows that were measured. Were each call summed by
    # itself, the rounding of a long gradient, and of what is added to it, would stay. For one call, blocks of another
    # size may give other gradients than were measured.
    total, start = torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device), 0
    for rows in _rows(held, part):
        total += weighted_sum(weights[start : start + len(rows)], rows).view(parameter.shape)
        start += len(rows)
    return total
