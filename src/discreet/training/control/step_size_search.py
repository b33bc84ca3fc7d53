"""The line search of AGD: a private choice among step sizes, by the clipped losses of all rows.

    events (gradient, choice) -> ledger, durably -> gradient released -> losses at the candidates -> one of them

The scores are the sums over rows of losses clipped to [0, bound], in whole numbers of a public grid, so that they are
exact. One row adds between 0 and `bound` to every score. With Gumbel noise of scale bound / epsilon on their negatives,
the log-probabilities of all candidates move by amounts that differ by at most epsilon (one-sided scores), which is
epsilon^2 / 8 of zCDP (Cesar and Rogers 2021, Lemma 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, Engine, evaluation_mode, private_parameters
from discreet.clipping.seeding import unit_seeds
from discreet.core.array_types import IntArray
from discreet.core.errors import OTHER_ROWS, InputError, PrivacyViolation
from discreet.core.release import Receipt
from discreet.data import PrivateData
from discreet.methods import AGD
from discreet.methods.agd import moved
from discreet.plan import AdaptivePlan, LineSearch, Phase, Plan
from discreet.queries.choices import FULL_SCORE, noisy_argmax
from discreet.randomness import Purpose, Stream
from discreet.training.control.losses_apart import LossesApart, losses_at, singly
from discreet.training.preflight.model_check import admit_evaluated
from discreet.training.preflight.random_rows import Examples, random_rows
from discreet.training.public.public_copy import PublicCopy

_MARGIN = 8
"""The float slack must be this many times the measured difference on random rows."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A model at several points of a line: its parameters less each step size times the directions."""

    model: nn.Module
    directions: Mapping[str, Tensor]
    step_sizes: Sequence[float]

    def parameters(self, step_size: float) -> dict[str, Tensor]:
        """The trained parameters at this step size."""
        named = private_parameters(self.model)
        return {name: _laid_out(moved(named[name], part, step_size)) for name, part in self.directions.items()}


def _laid_out(parameter: Tensor) -> Tensor:
    """The same numbers, with channels last, where convolutions and pooling are up to three times as fast.

    Copied, because `contiguous` leaves a single channel with strides by which the layout is not recognised.
    """
    if parameter.dim() != 4:
        return parameter
    return torch.empty_like(parameter, memory_format=torch.channels_last).copy_(parameter)


def clipped_losses(losses: Tensor, bound: float) -> Tensor:
    """Losses of rows, clipped to [0, bound], as whole multiples of bound / `FULL_SCORE`. A loss that is not finite
    counts as the bound.

    So a row with a loss of NaN adds the same to every candidate, and does not drop out.
    """
    values = losses.detach().double()
    values = torch.where(values.isfinite(), values.clamp(0.0, bound), bound)
    return (values * (FULL_SCORE / bound)).round().to(torch.int64).clamp(0, FULL_SCORE)


def objectives(
    candidates: Candidates,
    criterion: Criterion,
    data: PrivateData,
    bound: float,
    chunk: int,
) -> IntArray:
    """The sum of the clipped losses of all rows at each candidate, in units of bound / `FULL_SCORE`; exact: shape (k,).

    `chunk` rows and one copy of the parameters are held at a time. Each row is predicted alone, so that its loss
    depends on no other row, down to the last bit. Model and loss are in evaluation mode and see no row themselves:
    copies of them do, a fresh one for each row if they remember anything.
    """
    model = candidates.model
    device = next(iter(private_parameters(model).values())).device
    totals = torch.zeros(len(candidates.step_sizes), dtype=torch.int64)
    with torch.no_grad(), evaluation_mode(model):
        apart = LossesApart(model, criterion, data)
        for start in range(0, data.rows, chunk):
            rows = np.arange(start, min(start + chunk, data.rows), dtype=np.int64)
            with unit_seeds() if data.runs_code else nullcontext(lambda: None) as seed:  # a row may seed torch
                inputs, targets = (part.to(device) for part in data.fetch(rows, each=seed))
            for place, step_size in enumerate(candidates.step_sizes):
                parameters = candidates.parameters(step_size)  # one at a time: there is memory for a chunk and a model
                losses = apart.of(parameters, inputs, targets)
                totals[place] += clipped_losses(losses, bound).sum().cpu()
    return totals.numpy()


class StepSizeSearch:
    """Chooses how far the model moves along a noisy gradient, paid for by receipts, and moves it.

    `asked`: model and loss that have seen no private row and share the model's parameters; copies of them see the rows.
    """

    def __init__(
        self,
        plan: AdaptivePlan,
        model: nn.Module,
        optimizer: AGD,
        data: PrivateData,
        engine: Engine,
        chunk: int,
        asked: PublicCopy,
    ) -> None:
        assert plan.line_search is not None
        self._policy: LineSearch = plan.line_search
        self._model, self._optimizer, self._data = model, optimizer, data
        self._asked, self._chunk = asked, chunk
        rows = plan.sampling.largest_batch(plan.population)
        self._slack = 0.0 if engine.error is None else 4 * engine.error * rows

    def choose(self, phases: Sequence[Phase], receipt: Receipt, stream: Stream) -> float:
        """The step size that `receipt` paid for: by the exponential mechanism, 0 for staying."""
        if receipt.release != self._policy.event:
            raise PrivacyViolation(f"the receipt pays for {receipt.release}, not for the choice of a step size")
        sizes = self._policy.step_sizes(phases)
        candidates, bound = self._candidates(sizes), self._policy.bound
        scores = objectives(candidates, self._asked.criterion, self._data, bound, self._chunk)
        scaled = scores * (-self._policy.epsilon / (FULL_SCORE * (1 + self._slack)))
        return sizes[noisy_argmax(scaled, "gumbel", stream.substream(Purpose.NOISE, receipt.position))]

    def move(self, step_size: float) -> None:
        """Move the model by `step_size`."""
        self._optimizer.move(step_size)

    def _candidates(self, sizes: Sequence[float]) -> Candidates:
        directions = self._optimizer.directions()
        named = private_parameters(self._model)
        return Candidates(self._asked.follow(), {name: directions[one] for name, one in named.items()}, sizes)


def step_size_search_of(
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: PrivateData,
    engine: Engine,
    chunk: int,
    asked: PublicCopy,
) -> StepSizeSearch | None:
    """The line search of a run of AGD; None for other plans."""
    if plan.line_search is None or not isinstance(optimizer, AGD):
        return None
    return StepSizeSearch(plan, model, optimizer, data, engine, chunk, asked)


def check_step_size_search(
    plan: Plan | AdaptivePlan,
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    engine: Engine,
) -> None:
    """Refuse an optimizer that does not fit the plan, and a model whose losses have too much rounding error."""
    search = plan.line_search
    if search is not None and not isinstance(optimizer, AGD):
        raise InputError(
            "the plan chooses its step sizes by a line search; train with discreet.methods.AGD(model.parameters())"
        )
    if search is None and isinstance(optimizer, AGD):
        raise InputError("AGD moves as a line search says, which the plan lacks; make the plan with agd_plan")
    if search is not None:
        examples = random_rows(model, data, classes, raw=True)
        admit_evaluated(model, examples.inputs)  # the losses are those of evaluation mode
        _check_losses(search, model, criterion, examples, engine)


def _check_losses(
    search: LineSearch, model: nn.Module, criterion: Criterion, examples: Examples, engine: Engine
) -> None:
    """Refuse a model if the engine's float slack does not cover the rounding of its losses on random rows."""
    names, worst = private_parameters(model), 0.0
    length = math.sqrt(sum(parameter.numel() for parameter in names.values()))
    try:
        with torch.no_grad(), evaluation_mode(model):
            for distance in (0.0, search.largest):
                place = {name: moved(one, torch.ones_like(one) / length, distance) for name, one in names.items()}
                together = losses_at(model, criterion, examples.inputs, examples.targets, place)
                rows = singly(examples.inputs, examples.targets)
                apart = torch.cat([losses_at(model, criterion, x, y, place) for x, y in rows])
                worst = max(worst, difference(together, apart, search.bound))
    except OTHER_ROWS:
        return  # the model does not take random data, and neither could the engine be checked
    if engine.error is not None and not _MARGIN * worst <= engine.error:
        raise InputError(
            f"rounding moves the losses of this model by {worst:.1e} of their bound, more than the float slack of the "
            f"engine {engine.name!r} covers; use double precision, a larger bound or engine='exact'"
        )


def difference(together: Tensor, apart: Tensor, bound: float) -> float:
    """Mean difference between two computations of the same rows' losses, in units of the bound.

    Losses are not clipped here: clipping both to the bound would hide a difference. Two losses that are not finite
    count as equal.
    """
    ones, others = together.detach().double(), apart.detach().double()
    apart_by = (ones - others).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    alike = ~ones.isfinite() & ~others.isfinite()
    return float(torch.where(alike, 0.0, apart_by).mean()) / bound
