"""Private metrics: the centred sum over units, on a grid, with Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from discreet.clipping import Criterion
from discreet.clipping.separation.copies import copied
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.core.release import ClippedSum, Receipt
from discreet.data import Parts, PrivateData
from discreet.distributed.site_draws import SiteDraws
from discreet.distributed.team import Team
from discreet.mechanism import gaussian_release, grid_for
from discreet.plan import AdaptivePlan, Metric, Plan
from discreet.plan.metrics import size_for
from discreet.randomness import Purpose, RoundedSampler, Stream
from discreet.training.guard import seeded
from discreet.training.private_metrics.single_rows import predicted
from discreet.training.private_metrics.unit_values import unit_values
from discreet.training.run.trained import Bought

_NAME = "metric"


class PrivateMetrics:
    """Releases the private metrics of a plan, each paid for by a receipt, and passes each to `note`.

    `model` and `criterion` have seen no private row, and see none here: their copies do. `team`: the processes of the
    run, which go on with one value; where the data lies at sites, each adds the units of its own.
    """

    def __init__(
        self,
        plan: Plan | AdaptivePlan,
        model: nn.Module,
        criterion: Criterion,
        parts: Parts,
        noise: RoundedSampler,
        note: Callable[[Bought], None],
        earlier: Sequence[Bought] = (),
        team: Team | None = None,
    ) -> None:
        self._plan, self._model, self._criterion = plan, model, criterion
        self._parts, self._noise, self._note, self._team = parts, noise, note, team or Team()
        self._sizes = {one.metric: one.value for one in earlier if one.metric.endswith("_size")}

    def buy(self, metric: Metric, receipt: Receipt, stream: Stream) -> float:
        """The metric of the present model on the units that the receipt's sampler draws.

        Each unit's value is rounded towards zero to a multiple of the grid before it is added, in whole numbers: the
        sum is exact, and no unit moves it by more than `metric.contribution`.
        """
        data = self._parts.training if metric.rows == "training" else self._parts.held_out
        assert data is not None
        grid = grid_for(receipt.release, metric.contribution)
        units = sum(
            math.trunc((value - metric.centre) / grid) for value in self._drawn(metric, data, receipt.position, stream)
        )
        units = self._team.added("a private metric", units)
        total = ClippedSum({_NAME: np.array([units * grid])}, metric.contribution, grid)
        noisy = float(gaussian_release(total, receipt, stream, self._noise).tensors[_NAME][0])
        declared, share = self._plan.units_of(metric)
        size = size_for(metric, self._plan.metrics)
        if size is None or size.name not in self._sizes:  # not bought, or lost in a crash
            value, deviation = metric.value(noisy, declared), metric.deviation(declared, share)
        else:
            value = metric.value(noisy, self._sizes[size.name])
            deviation = metric.deviation(declared, share, size)
        value = float(self._team.told("a bought metric", lambda: value))
        if metric.kind == "size":
            self._sizes[metric.name] = value
        bought = Bought(receipt.position + 1, metric.name, value, deviation)
        self._note(bought)
        return bought.value

    def _drawn(self, metric: Metric, data: PrivateData, position: int, stream: Stream) -> list[float]:
        """The values of the units that take part. Each site draws for its own units, and seeds torch's generator with
        words of its own: one more unit at a site would move what other sites add if they shared random numbers."""
        if data.sites is None:
            (drawn,) = metric.sampler.batches(position, len(data), stream)
            return self._values(metric, data, drawn)
        at, found = SiteDraws(data.sites, stream), list[float]()
        (drawn,) = at.batches(metric.sampler, position)
        for number, places in at.by_site(drawn):
            with seeded(at.words(number, Purpose.LANES, position)):
                found += self._values(metric, data, drawn[places.start : places.stop])
        return found

    def _values(self, metric: Metric, data: PrivateData, drawn: IntArray) -> list[float]:
        """Each unit's value in [0, metric.range]: the mean over its rows."""
        if metric.kind == "size":
            return [1.0 for _ in drawn]
        return unit_values(metric.kind, metric.range, self._model, self._criterion, data, drawn)


def check_losses(model: nn.Module, criterion: Criterion, data: PrivateData) -> None:
    """Refuse a criterion that gives no number for a single row, before anything is charged."""
    _, criterion = copied(model, criterion)  # what it remembers of the row does not stay
    output, target = next(predicted(model, data, np.zeros(1, np.int64)))
    if criterion(output, target).numel() != 1:
        raise InputError("a loss that is bought must be one number per row; use a criterion with a reduction")
