"""An estimate of a run's wall time: a few real private steps on random data, in a temporary folder."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.plan import AdaptivePlan, Plan
from discreet.training.public.evaluation import evaluate
from discreet.training.training import Training

_STEPS = 3
_PATIENCE_SECONDS = 5.0
_ALONE = 32
_AT_ONCE = 512

Parts = Callable[[], tuple[nn.Module, Criterion, torch.optim.Optimizer]]
"""Makes a new model, its criterion and its optimizer."""


def seconds(plan: Plan | AdaptivePlan, make: Parts, example: tuple[Tensor, Tensor], **options: Any) -> float:
    """Estimated seconds of all steps of the plan on this machine, with the private metrics that it buys.

    `example`: one random input and target, with a batch axis; nothing else of the data is needed. `options`: those of
    `Training` (engine, noise, public). Steps are timed at the smallest and the largest expected batch and interpolated
    linearly. All steps of an adaptive plan count like the first.
    """
    sizes = sorted({batch for batch, _ in plan.batches})
    timed = {size: _step(plan, size, make, example, options) for size in {sizes[0], sizes[-1]}}
    slope = (timed[sizes[-1]] - timed[sizes[0]]) / (sizes[-1] - sizes[0]) if len(timed) > 1 else 0.0
    steps = sum(count * (timed[sizes[0]] + slope * (size - sizes[0])) for size, count in plan.batches)
    return steps + _rows_alone(plan) * _row(make()[0], example[0])


def evaluation_seconds(make: Parts, example: tuple[Tensor, Tensor], rows: int) -> float:
    """Estimated seconds to evaluate a model on `rows` public rows."""
    model, criterion, _ = make()
    some = tuple(tensor.expand(_AT_ONCE, *tensor.shape[1:]).contiguous() for tensor in example)
    evaluate(model, criterion, *some)
    begin = time.perf_counter()
    evaluate(model, criterion, *some)
    return (time.perf_counter() - begin) / _AT_ONCE * rows


def _clipping(plan: Plan | AdaptivePlan) -> dict[str, Any]:
    """The plan's clip rule if it needs nothing beside the plan; else flat clipping, which takes about as long."""
    if plan.clipping.UNCHANGING:
        return {"clipping": plan.clipping}
    return {"clip_norm": plan.clipping.first_norm or 1.0}


def _step(
    plan: Plan | AdaptivePlan, batch: float, make: Parts, example: tuple[Tensor, Tensor], options: dict[str, Any]
) -> float:
    """The median of a few steps; the first, which compiles, does not count."""
    rows = max(1, round(batch * plan.rows_per_unit))
    small = Plan.poisson(
        population=2 * rows,
        batch=rows,
        steps=_STEPS + 1,
        **_clipping(plan),
        delta=1e-5,
        noise_multiplier=max(1.0, plan.multipliers[0][0]),  # its guarantee is not used, so the fastest method will do
    )
    model, criterion, optimizer = make()
    data = tuple(tensor.expand(2 * rows, *tensor.shape[1:]) for tensor in example)
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        training = Training(small, model, criterion, optimizer, data, run=Path(folder) / "run", **options)
        with training.session() as session:
            begin = time.perf_counter()
            while session.ready() and (len(found) < 2 or time.perf_counter() - begin < _PATIENCE_SECONDS):
                start = time.perf_counter()
                with session.step() as step:
                    step.add_all(criterion)  # as runs do: chunks that are handed out are copied, and looked at
                found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def _rows_alone(plan: Plan | AdaptivePlan) -> float:
    """The average number of private rows that are predicted for metrics, each alone."""
    total = 0.0
    for metric in plan.metrics:
        if metric.kind != "size":
            total += plan.purchases(metric) * plan.units_of(metric)[0] * (1.0 if metric.rate is None else metric.rate)
    if plan.counts is not None:
        total += plan.purchases(plan.counts) * plan.population * (plan.counts.rate or 1.0)
    return total * plan.rows_per_unit


def _row(model: nn.Module, inputs: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        model(inputs)
        begin = time.perf_counter()
        for _ in range(_ALONE):
            model(inputs.clone())
    return (time.perf_counter() - begin) / _ALONE
