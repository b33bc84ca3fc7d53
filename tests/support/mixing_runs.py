"""How far a sum of a run moves when one long row leaves its chunk, and all else, random numbers too, stays the same."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mixing_modules import CLASSES, FEATURES
from problems import in_records
from torch import nn

from discreet import Plan, Training
from discreet.clipping import Accumulator, Chunk, Clip, Engine, private_parameters, training_mode

ROWS, TIMES = 60, 50
CLIP = Clip(1.0, 2.0**-30)


def training(kind: Callable[[], nn.Module], engine: str, folder: Path | str, **changes: Any) -> Training:
    """A run that would train a model of this kind. Errors are those of `Training`."""
    generator = torch.Generator().manual_seed(1)
    model = kind()
    data = torch.rand(200, FEATURES, generator=generator), torch.arange(200) % CLASSES
    plan = Plan.poisson(population=210, batch=60, steps=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options: dict[str, Any] = {"data": data, "engine": engine, "run_dir": Path(folder) / "run"} | changes
    return Training(plan, model, options.pop("criterion", nn.CrossEntropyLoss()), optimizer, **in_records(options))


def moves(
    kind: Callable[[], nn.Module],
    engine: str,
    steps: int,
    look: Callable[[Training], Engine] | None = None,
    loss: Callable[[], Any] = nn.CrossEntropyLoss,
    long: int = ROWS - 1,
    prepare: Callable[[nn.Module], object] = lambda model: None,
    rows: int = ROWS,
) -> float:
    """The farthest that the long row moved a sum, in clip norms, over so many chunks in turn.

    `look`: which engine of the run is used, if not the one that it trains with. `long`: the place of that row.
    `prepare`: what public training may have made of the model since the run was made. `rows`: of a chunk.
    """
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:  # each with a memory of its own
        made = [training(kind, engine, folder, criterion=loss()) for folder in (one, other)]
    generator, worst = torch.Generator().manual_seed(2), 0.0
    for run in made:
        training_mode(run.model)
        with torch.no_grad():
            prepare(run.model)
    for step in range(steps):
        inputs = torch.randn(rows, FEATURES, generator=generator)
        inputs[long] *= TIMES
        targets = torch.randint(CLASSES, (rows,), generator=generator)
        sums = []
        for run, taken in zip(made, (list(range(rows)), [i for i in range(rows) if i != long]), strict=True):
            torch.manual_seed(step)
            total, chunk = Accumulator(private_parameters(run.model)), Chunk(inputs[taken], targets[taken])
            used = run.engine if look is None else look(run)
            total.add(used.clipped_sum(run.model, run.criterion, chunk, CLIP))
            sums.append(total.total(used, CLIP, rows).tensors)
        squares = (float(np.square(sums[0][name] - sums[1][name]).sum()) for name in sums[0])
        worst = max(worst, math.sqrt(sum(squares)))
    return worst
