"""The state of a run that checkpoints keep: everything that was released so far, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.training.clip_state import Clipping
from discreet.training.control.controller import Progress
from discreet.training.public.monitor import Watch
from discreet.training.run.checkpoint import Checkpoint
from discreet.training.run.state_json import encoded


class SavedState:
    """The parts of a run whose state is saved. `progress`: that of an adaptive run."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: LRScheduler | None,
        clipping: Clipping,
        watch: Watch,
    ) -> None:
        self._model, self._optimizer, self._scheduler = model, optimizer, scheduler
        self._clipping, self._watch = clipping, watch
        self.progress = Progress([])

    def checkpoint(
        self,
        run: str,
        position: int,
        progress: Progress | None,
        whole: tuple[dict[str, Any], dict[str, Any]] | None = None,
    ) -> Checkpoint:
        """The state after `position` charged steps; `progress` of an adaptive run. `whole`: the states of model and
        optimizer, if they are shared out."""
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        states = *(whole or (self._model.state_dict(), self._optimizer.state_dict())), scheduler
        return Checkpoint(
            run,
            position,
            *states,
            progress=None if progress is None else progress.as_dict(),
            clipping=self._clipping.state_dict(),
            **self._watch.kept(),
        )

    def check(self) -> None:
        """`InputError` if a checkpoint could not keep the state, before anything is charged."""
        encoded(self.checkpoint("", 0, None).as_dict())

    def restore(self, checkpoint: Checkpoint, load_optimizer: Callable[[dict[str, Any]], None]) -> None:
        """Go on from a checkpoint. `load_optimizer`: what takes the state of the optimizer."""
        checkpoint.restore(self._model, load_optimizer, self._scheduler)
        self._watch.restore(checkpoint)
        self._clipping.load_state_dict(checkpoint.clipping or {})
        if checkpoint.progress is not None:
            self.progress = Progress.from_dict(checkpoint.progress)
