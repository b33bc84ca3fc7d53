"""Book-keeping: clipped sums at about the price of an ordinary step, without per-example gradients.

One forward and one backward pass to the outputs of the modules that own parameters. From what each was given and the
gradients of what it returned, its rule has the per-example norms; their clip factors are the weights of a sum that
each rule forms from the same tensors (Bu et al. 2023, "Differentially private optimization on large model at small
cost", algorithm 1).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from discreet.clipping.admission import private_parameters
from discreet.clipping.backward import visit
from discreet.clipping.capture import Call, capture, record, tensors_in
from discreet.clipping.factor import clip_factor
from discreet.clipping.losses import Criterion
from discreet.clipping.precision import full_precision
from discreet.clipping.rules import OfUnits, Rule, base
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel

Share = tuple[Rule, str]
"""A rule, and the name by which its module knows a parameter."""


def clipped_sums(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, norm: float, units: Units | None = None
) -> dict[str, Tensor]:
    """The sum of the gradients of all examples, each clipped to `norm`, by parameter name: in the type in which it was
    formed, at least single precision, and float64 where several calls add up.

    With `units`, the sum of the mean gradients of units, each clipped as a whole.
    """
    parameters = private_parameters(model)
    if len(inputs) == 0:
        return {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in parameters.items()}
    count = len(inputs) if units is None else len(units)
    device = inputs.device.type
    shares: dict[str, list[Share]] = {}
    squares: dict[str, Tensor] = {}

    def measure(group: list[Call]) -> None:
        with torch.no_grad(), full_precision(device):
            found, lengths = measured(parameters, group, units)
        shares.update(found)
        squares.update(lengths)

    loss, calls = record(model, criterion, inputs, targets)
    if calls:
        visit(loss, calls, measure)
    del loss, calls  # with what is left of the graph
    with torch.no_grad(), full_precision(device):
        parts = [squares[name] for name in parameters if name in squares]
        norms = torch.stack(parts).sum(0).sqrt() if parts else torch.zeros(count, dtype=torch.float64)
        weights = clip_factor(norms, norm, terms=sum(parameter.numel() for parameter in parameters.values()))
        usable = torch.isfinite(norms)
        spoilt = not bool(usable.all())
        for one in _rules(shares):
            one.check()
            if spoilt:
                one.drop(~usable)
        return {
            name: _total(shares.pop(name, []), parameter, weights.to(parameter.device))
            for name, parameter in parameters.items()
        }


def measured(
    parameters: dict[str, nn.Parameter], calls: list[Call], units: Units | None
) -> tuple[dict[str, list[Share]], dict[str, Tensor]]:
    """By parameter of the calls: the rules that have a share in its gradient, and the squared norms of that gradient
    for each example (or unit), float64, shape (examples,). What the sum will not need is let go."""
    shares = _shares(parameters, calls, units if units is not None and units.most > 1 else None)
    squares = {name: _squares(held) for name, held in shares.items()}
    for one in _rules(shares):
        one.settle()
    return shares, squares


def _rules(shares: dict[str, list[Share]]) -> list[Rule]:
    return list({id(one): one for held in shares.values() for one, _ in held}.values())


def bytes_per_example(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> int:
    """Memory that is held for one example between the passes: what owners were given, and gradients of outputs."""
    calls = capture(model, criterion, inputs, targets)
    held = [part for call in calls for part in tensors_in((call.args, call.kwargs, call.gradients))]
    return sum(part.numel() * part.element_size() for part in held) // len(inputs)


def _shares(parameters: dict[str, nn.Parameter], calls: list[Call], units: Units | None) -> dict[str, list[Share]]:
    """Which rules have a share in the gradient of each parameter of the calls."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    shares: dict[str, list[Share]] = {}
    for one, call in _joined(calls):
        if units is not None:
            one = one.of_units(units) or OfUnits(one, units)
        for local, parameter in call.owner.parameters.items():
            shares.setdefault(names[id(parameter)], []).append((one, local))
    return shares


def _joined(calls: list[Call]) -> Iterator[tuple[Rule, Call]]:
    """The rule of every call; calls with the same parameters share one where the family can do that."""
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
    try:
        made = call.owner.rule(call.owner.module, call.owner.names, call.args, call.kwargs, call.gradients)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{call.owner.described}: {error}") from error
    made.generator = call.generator
    return made


def _squares(held: list[Share]) -> Tensor:
    """The squared norm of each example's gradient for one parameter. Several calls are added up before they are
    measured, block by block: their gradients are not at right angles."""
    if len(held) == 1:
        one, name = held[0]
        return one.squares(name)
    first, name = held[0]
    size = first.module.get_parameter(name).numel() * 8
    step = max(1, base.BUDGET // max(1, size))
    parts = []
    for start in range(0, first.examples, step):
        stop = min(start + step, first.examples)
        rows = first.rows(name, start, stop)
        for other, local in held[1:]:
            rows = rows + other.rows(local, start, stop)
        parts.append(base.squared_norms(rows))
    return torch.cat(parts)


def _total(held: list[Share], parameter: nn.Parameter, weights: Tensor) -> Tensor:
    if not held:
        return torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device)
    first, *others = (one.total(name, weights).view(parameter.shape) for one, name in held)
    if not others:
        return first
    total = first.double()
    for part in others:
        total += part
    return total
