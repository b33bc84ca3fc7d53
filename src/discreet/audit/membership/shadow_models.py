"""Shadow models: trained as a model was, each on a random half of all rows. None is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from discreet.audit.row_losses import losses_of
from discreet.clipping import Criterion
from discreet.clipping.geometry import Geometry
from discreet.core.adjacency import Unit
from discreet.core.array_types import Array, BoolArray
from discreet.methods import Averaging
from discreet.plan import Plan
from discreet.training import EngineOptions, RunOptions, Training


@dataclass(frozen=True, slots=True, eq=False)
class Trainer:
    """How a model was trained: the plan of its steps, its loss, and what builds the rest."""

    plan: Plan
    model: Callable[[], nn.Module]
    criterion: Criterion
    optimizer: Callable[[nn.Module], Optimizer]
    engine: str | EngineOptions = "auto"
    geometry: Callable[[nn.Module], Geometry | None] = lambda _: None
    scheduler: Callable[[Optimizer], LRScheduler | None] = lambda _: None
    averaging: Averaging | None = None

    def trained(self, inputs: Tensor, targets: Tensor) -> nn.Module:
        """A model trained on these rows, with the plan's rates, steps and noise, and their number as its population.
        Its ledger and its key are temporary."""
        plan = self.plan.model_copy(update={"population": float(len(targets)), "initial_state": None})
        model = self.model()
        optimizer = self.optimizer(model)
        with tempfile.TemporaryDirectory() as folder:
            training = Training(
                plan,
                model,
                self.criterion,
                optimizer,
                (inputs, targets),
                units=np.arange(len(targets)) if plan.unit is Unit.USER else None,
                run=RunOptions(f"{folder}/run"),
                geometry=self.geometry(model),
                engine=self.engine,
                scheduler=self.scheduler(optimizer),
                averaging=self.averaging,
            )
            return training.run(progress=False, evaluate_every=plan.steps).model


def shadow_losses(
    trainer: Trainer, inputs: Tensor, targets: Tensor, trained: BoolArray, loss: Criterion, told: Callable[[int], None]
) -> Array:
    """The losses of all rows under shadow models, (models, rows). `trained`: the rows of each. `told` hears of each
    that is done."""
    found = []
    for number, chosen in enumerate(trained):
        places = torch.from_numpy(np.flatnonzero(chosen))
        found.append(losses_of(trainer.trained(inputs[places], targets[places]), inputs, targets, loss))
        told(number + 1)
    return np.stack(found)
