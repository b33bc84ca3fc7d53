"""The checks that every rule must pass, including your own rules: call `check_rule` in a test."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.capture.capture import capture
from discreet.clipping.capture.owners import owners_of
from discreet.clipping.clip import Clip, Group
from discreet.clipping.engines.engine import ENGINES
from discreet.clipping.rules import Rule, Vectorised
from discreet.clipping.rules.numbers import examples_together
from discreet.clipping.seeding import seed_torch
from discreet.clipping.units import Chunk, Units
from discreet.core.errors import CANNOT_TAKE, DiscreetError, first_line

_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""The allowed distance between two sums, relative to batch x clip norm."""

_BLOCKS, _LOST = 5, 0.45
"""Blocks of examples beside a long term, and the share of their sum that may be lost there: one block is."""

_SHARES = (0.1, 0.7, 10.0)
"""Clip norms, relative to the largest norm of a gradient: they clip all gradients, some, or none."""


def check_rule(model: nn.Module, inputs: Tensor) -> None:
    """Compare the rules for the modules in `model` with one backward pass per example.

    `inputs`: at least four examples along axis 0 (numbers or token indices); `model(inputs)`: one tensor, examples
    along axis 0. Checked in single and in double precision: the sum of clipped gradients for no, one and all examples,
    contiguous or not, and for units of several rows; that chunks add up; that no example moves the sum by more than the
    clip norm, also where the gradients of its places cancel; that long terms of one stand beside few of others while
    they are added up; that an example that is not finite does not change the others. Random numbers start from a fixed
    seed.

    `AssertionError` says which check failed and by how much, or which module has no rule.
    """
    for owner in owners_of(model):
        _claim(
            not issubclass(owner.rule, Vectorised),
            f"{owner.described} has no rule whose names are those of its parameters, so nothing would be tested",
        )
    _claim(len(inputs) >= 4, f"a battery needs four examples at least, got {len(inputs)}")
    for dtype, tolerance in _TOLERANCE.items():
        with torch.random.fork_rng():
            seed_torch(0)
            _check(
                copy.deepcopy(model).to(dtype), inputs.to(dtype) if inputs.is_floating_point() else inputs, tolerance
            )


def _check(model: nn.Module, inputs: Tensor, tolerance: float) -> None:
    targets = torch.rand(len(inputs), dtype=next(model.parameters()).dtype) + 0.1
    largest = _largest_norm(model, inputs, targets)
    for share in _SHARES:
        clip = Clip(share * largest, share * largest * 2.0**-30)
        for what, chunk in _batches(inputs, targets):
            _agrees(f"{what}, clip norm at {share:g} of the largest gradient", model, chunk, clip, tolerance)
        _bounded(model, Chunk(inputs, targets), clip, tolerance)
        _separate(model, Chunk(inputs, targets), clip, tolerance)
    _bounded_where_places_cancel(model, inputs, 1e-6 * largest, tolerance)
    if targets.dtype == torch.float32:  # in double precision, terms in the order of examples may be added up at once
        _few_together(model, inputs)


def _batches(inputs: Tensor, targets: Tensor) -> Iterator[tuple[str, Chunk]]:
    count = len(inputs)
    apart = torch.stack([inputs, inputs], -1)[..., 0]  # the same values, not contiguous
    yield "all examples", Chunk(inputs, targets)
    yield "inputs that are not contiguous", Chunk(apart, targets)
    yield "one example", Chunk(inputs[:1], targets[:1])
    yield "no example", Chunk(inputs[:0], targets[:0])
    yield "a repeated example", Chunk(inputs[[0, 0, 1]], targets[[0, 0, 1]])
    yield "units of several rows", Chunk(inputs, targets, Units((1, count - 2, 1)))
    yield "one unit", Chunk(inputs, targets, Units((count,)))


def _loss(output: Tensor, target: Tensor) -> Tensor:
    """A loss whose gradient differs between examples and between places."""
    return (torch.sin(3 * output) * target.view(-1, *[1] * (output.dim() - 1))).sum()


def _sums(
    engine: str, model: nn.Module, chunk: Chunk, clip: Clip, loss: Callable[[Tensor, Tensor], Tensor] = _loss
) -> Tensor:
    if chunk.size == 0 and engine == "reference":
        return torch.zeros(sum(parameter.numel() for parameter in private_parameters(model).values()))
    try:
        sums = ENGINES[engine].clipped_sum(model, loss, chunk, clip)
    except CANNOT_TAKE as error:
        of_rule = engine != "reference" and not isinstance(error, DiscreetError)
        how = "; a rule gives gradients of the shape (examples, *that of the parameter)" if of_rule else ""
        raise AssertionError(
            f"the engine {engine!r} fails ({type(error).__name__}: {first_line(error)}){how}"
        ) from error
    return torch.cat([sums[name].double().flatten() for name in private_parameters(model)])


def _agrees(what: str, model: nn.Module, chunk: Chunk, clip: Clip, tolerance: float) -> None:
    one, other = (_sums(engine, model, chunk, clip) for engine in ("bookkeeping", "reference"))
    apart = float((one - other).norm()) / (clip.norm * max(1, len(chunk.inputs)))
    _claim(apart <= tolerance, f"{what}: {apart:.1e} of the clip norm away from the reference, more than {tolerance:g}")


def _bounded(model: nn.Module, chunk: Chunk, clip: Clip, tolerance: float) -> None:
    """Chunks add up, and no example moves the sum by more than the clip norm."""
    whole = _sums("bookkeeping", model, chunk, clip)
    for row in range(chunk.size):
        rest = [i for i in range(chunk.size) if i != row]
        without = _sums("bookkeeping", model, Chunk(chunk.inputs[rest], chunk.targets[rest]), clip)
        alone = _sums("bookkeeping", model, chunk.part(row, row + 1), clip)
        gap = float((whole - without - alone).norm()) / (clip.norm * chunk.size)
        _claim(gap <= tolerance, f"chunks: the sum of parts is {gap:.1e} of the clip norm away from that of the whole")
        moved = float((whole - without).norm()) / clip.norm
        _claim(moved <= 1 + chunk.size * tolerance, f"bound: example {row} moved the sum by {moved:.6f} clip norms")


def _bounded_where_places_cancel(model: nn.Module, inputs: Tensor, norm: float, tolerance: float) -> None:
    """The first example moves the sum by at most the clip norm where its places are alike, and their gradients cancel.

    What `total` adds up of it is much longer than its gradient then, and so is the rounding, which `lengths` covers.
    """
    for one in (model, _Twice(model)):
        scales = {name: torch.ones_like(own, dtype=torch.float64) for name, own in private_parameters(one).items()}
        groups = tuple(Group(norm, frozenset([name])) for name in scales)
        clips = Clip.grouped(groups, norm * 2.0**-30), Clip(norm, norm * 2.0**-30, scales=scales)
        for (x, gradients), clip in itertools.product(_cancelling(one, inputs), clips):
            with_it, without = (
                _sums("bookkeeping", one, Chunk(x[i:], gradients[i:]), clip, lambda y, gradient: (y * gradient).sum())
                for i in (0, 1)
            )
            moved = float((with_it - without).norm()) / clip.sensitivity
            _claim(
                moved <= 1 + len(inputs) * tolerance,
                f"places that cancel: an example moved the sum by {moved:.6f} sensitivities; a rule that adds up "
                "terms without forming gradients gives their `lengths` and `terms`",
            )


class _Twice(nn.Module):
    """A model that is called twice, so that the gradients of two calls are added up."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.inner(x), self.inner(x)
        found: Tensor = first - 0.3 * second
        return found


def _cancelling(model: nn.Module, inputs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and gradients of outputs. Those of the first example are alike along an axis, and cancel along one."""
    outputs = model(inputs).detach()
    for axis, places in itertools.product(range(1, inputs.dim()), range(1, outputs.dim())):
        x, gradients = inputs.clone(), torch.randn_like(outputs)
        x[:1] = x[:1].narrow(axis, 0, 1)
        first, rest = gradients[:1].mul_(1e5).round_().tensor_split([1], places)  # whole, so that they cancel exactly
        first.copy_(-rest.sum(places, keepdim=True))
        yield x, gradients


def _few_together(model: nn.Module, inputs: Tensor) -> None:
    """A rule that adds up terms, and forms no gradients, loses few small ones beside a long one.

    Between two examples whose gradients are long and cancel are some blocks of examples whose terms are each below
    the rounding of a long sum. Added up with others first, they are not.
    """
    outputs = model(inputs[:1]).detach()
    for axis, places in itertools.product(range(1, inputs.dim()), range(1, outputs.dim())):
        x, gradient = inputs[:1].clone(), torch.randn_like(outputs)
        x[:] = x.narrow(axis, 0, 1)
        gradient[:] = gradient.narrow(places, 0, 1)
        cancelling = (1e5 * gradient).round_()
        cancelling.narrow(places, 0, 1).mul_(1 - outputs.shape[places])
        for number, (one, name, _) in enumerate(_measured(model, x, cancelling)):
            terms, room = int(torch.as_tensor(one.terms(name)).max()), float(one.squares(name).sqrt())
            excess = room - float(one.rows(name, 0, 1).double().norm())
            if terms == 1 or excess <= 1e-6 * float(one.lengths(name)):
                continue  # it forms gradients, in which terms have cancelled
            count = _BLOCKS * examples_together(terms) + 1
            factors = torch.ones(count, *[1] * (outputs.dim() - 1))
            factors[0] = 2.0 ** math.ceil(26 - math.log2(terms))  # a power of two, which rounds nothing
            factors[-1] = -factors[0]
            among = [*_measured(model, x.repeat(count, *[1] * (x.dim() - 1)), gradient * factors)]
            one, name, described = among[number]
            row = one.rows(name, 1, 2).double().flatten()
            with torch.no_grad():
                total = one.total(name, torch.ones(count, dtype=torch.float64)).double().flatten()
            lost = float((total / (count - 2) - row).norm() / row.norm())
            _claim(
                not lost > _LOST or float(row.norm()) < 0.8 * float(one.lengths(name)[1]),
                f"{name!r} of {described}: terms of {count - 2} examples are lost beside a long one ({lost:.0%}); a "
                "rule that adds up terms without forming gradients takes `examples_together(terms)` examples at a time",
            )


def _measured(model: nn.Module, inputs: Tensor, gradients: Tensor) -> Iterator[tuple[Rule, str, str]]:
    """The rule of each call of a module, after it has measured a parameter, with the names of both."""
    for call in capture(model, lambda y, gradient: (y * gradient).sum(), inputs, gradients):
        owner = call.owner
        made = owner.rule(owner.module, owner.names, call.args, call.kwargs, call.gradients)
        made.generator = call.generator
        for name in owner.names:
            with torch.no_grad():
                made.squares(name)
            yield made, name, owner.described


def _separate(model: nn.Module, chunk: Chunk, clip: Clip, tolerance: float) -> None:
    """An example that is not finite moves the sum by at most the clip norm, and does not change the others."""
    rest = _sums("bookkeeping", model, chunk.part(1, chunk.size), clip)
    for value in (float("nan"), float("inf")):
        other = chunk.copied()
        (other.inputs if other.inputs.is_floating_point() else other.targets)[0] = value
        moved = float((_sums("bookkeeping", model, other, clip) - rest).norm()) / clip.norm
        _claim(
            moved <= 1 + chunk.size * tolerance, f"an example of {value}: it moved the sum by {moved:.6f} clip norms"
        )


def _largest_norm(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    norms: list[float] = []
    for i in range(len(inputs)):
        loss = _loss(model(inputs[i : i + 1]), targets[i : i + 1])
        rows = torch.autograd.grad(loss, list(private_parameters(model).values()), allow_unused=True)
        norms.append(sum(float(row.double().square().sum()) for row in rows if row is not None) ** 0.5)
    _claim(max(norms) > 0, "all gradients are zero, so nothing would be tested")
    return max(norms)


def _claim(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)
