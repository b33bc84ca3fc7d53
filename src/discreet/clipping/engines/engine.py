"""Engines: different ways to the same clipped sum.

`reference` processes every example as a batch of one; it is slow and obviously right. `vmap` is the same function,
vectorised by torch.func. `exact` is `reference` on the grid, so that its sums have no rounding at all. In these three
no module can mix examples. `bookkeeping` and `ghost` run the batch as a batch: `bookkeeping` is fast and takes one
backward pass, `ghost` takes two and less memory. Tests compare all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.admission.foreign import refuse_foreign
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.clip import Clip
from discreet.clipping.engines.bookkeeping import clipped_sums
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.engines.ghost import ghost_sums
from discreet.clipping.factor import clipped, clipped_sum
from discreet.clipping.losses import Criterion
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.units import Chunk
from discreet.clipping.vectorise import vectorised_call
from discreet.core import assumptions
from discreet.core.errors import UnsupportedModel, first_line

Gradients = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to compute clipped sums, and the assumption about its floating-point arithmetic.

    `float_bits`: 2^-bits bounds, relative to the clip norm and per unit on average, how far clipped gradients depend
    on the division of the batch into chunks. None means that sums are exact multiples of the grid.
    `runs`: what goes through the model at once. A "batch" goes as it is, so modules could mix its rows; a "chunk" goes
    vectorised over rows; "rows" go one at a time. It decides what is proved beforehand and looked at in every step.
    """

    name: str
    clipped_sum: ClippedSums
    float_bits: int | None
    runs: Literal["batch", "chunk", "rows"]

    @property
    def error(self) -> float | None:
        """The float slack of an example, relative to the clip norm."""
        return None if self.float_bits is None else 2.0**-self.float_bits

    @property
    def assumption(self) -> str:
        """The assumption about its arithmetic, in the words of certificates."""
        return assumptions.engine(self.name, self.float_bits)


def _per_row(model: nn.Module, criterion: Criterion, chunk: Chunk) -> Iterator[Gradients]:
    """One backward pass per row; each gradient has a leading axis of length one."""
    parameters, inputs, targets = private_parameters(model), chunk.inputs, chunk.targets
    refuse_foreign(parameters)
    for i in range(len(inputs)):
        around = Surroundings()
        loss = criterion(model(inputs[i : i + 1].clone()), targets[i : i + 1].clone()).sum()
        row = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        around.check()  # it would take part in what is computed from the gradient
        yield {
            name: (torch.zeros_like(parameter) if gradient is None else gradient).unsqueeze(0)
            for (name, parameter), gradient in zip(parameters.items(), row, strict=True)
        }


def _per_unit(model: nn.Module, criterion: Criterion, chunk: Chunk) -> Iterator[Gradients]:
    """The gradient of each unit, added up in float64 in the order of its rows, with a leading axis of length one."""
    rows, units = _per_row(model, criterion, chunk), chunk.units
    if units is None:
        yield from rows
        return
    for size in units.sizes[: len(units) - units.padding]:
        total = {name: row.double() for name, row in next(rows).items()}
        for row in itertools.islice(rows, size - 1):
            for name in total:
                total[name] = total[name] + row[name]
        yield {name: tensor / size for name, tensor in total.items()}


def reference(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Gradients:
    """One backward pass per row, added up in float64."""
    return _add(clipped(one, clip) for one in _per_unit(model, criterion, chunk))


def unit_gradients(model: nn.Module, criterion: Criterion, chunk: Chunk) -> Gradients:
    """The gradients that `reference` clips: of each unit, with the units along axis 0."""
    rows = [*_per_unit(model, criterion, chunk)]
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def exact(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Gradients:
    """One backward pass per row; the clipped gradient of an example or unit is truncated to the grid.

    Truncation cannot raise the norm, and sums of multiples of the grid are exact in float64 (the mechanism refuses
    sums beyond 2^52 multiples), so the order and the chunks of a batch make no difference.
    """
    return _add(
        {name: torch.trunc(row / clip.grid) * clip.grid for name, row in clipped(one, clip).items()}
        for one in _per_unit(model, criterion, chunk)
    )


def vectorised(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Gradients:
    """All rows of the chunk at once, through torch.func.vmap; memory grows with the chunk.

    `UnsupportedModel` if vmap cannot run the model.
    """
    refuse_foreign(private_parameters(model))
    trainable = {name: parameter.detach() for name, parameter in private_parameters(model).items()}
    fixed = {name: one.detach() for name, one in named_tensors(model).together.items() if name not in trainable}

    def loss(parameters: Gradients, example: Tensor, target: Tensor) -> Tensor:
        output = functional_call(model, {**parameters, **fixed}, (example.unsqueeze(0),))
        return criterion(output, target.unsqueeze(0)).sum()

    try:
        gradients = vectorised_call(grad(loss), (None, 0, 0), trainable, chunk.inputs, chunk.targets)
    except RuntimeError as error:
        reason = first_line(error)
        if "data-dependent control flow" in reason:
            reason = "Python code reads the numbers of a tensor: an `if` on one, or .item()"
        raise UnsupportedModel(f"the engine 'vmap' cannot run this model ({reason}); use engine='reference'") from error
    if (units := chunk.units) is not None:
        means = units.means if units.limit > 1 else torch.as_tensor
        gradients = {name: units.counted(means(rows)) for name, rows in gradients.items()}
    return clipped_sum(gradients, clip)


def _add(rows: Iterator[Gradients]) -> Gradients:
    total = next(rows)
    for row in rows:
        for name, tensor in row.items():
            total[name] = total[name] + tensor
    return {name: tensor.squeeze(0) for name, tensor in total.items()}


ENGINES: dict[str, Engine] = {
    "bookkeeping": Engine("bookkeeping", clipped_sums, assumptions.MOST_BITS, "batch"),
    "ghost": Engine("ghost", ghost_sums, assumptions.MOST_BITS, "batch"),
    "vmap": Engine("vmap", vectorised, assumptions.MOST_BITS, "chunk"),
    "reference": Engine("reference", reference, assumptions.MOST_BITS, "rows"),
    "exact": Engine("exact", exact, None, "rows"),
}
"""The ways to sum clipped gradients, by the names that `EngineOptions` takes."""
