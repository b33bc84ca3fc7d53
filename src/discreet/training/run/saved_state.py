"""The state of a run that checkpoints keep: everything that was released so far, and what follows from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.core.errors import InputError
from discreet.training.clip_state import Clipping
from discreet.training.control.controller import Progress
from discreet.training.public.monitor import Watch
from discreet.training.run.checkpoint import Checkpoint
from discreet.training.run.state_json import encoded

_log = logging.getLogger("discreet")

_HOW = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Switches of how an optimizer computes, not of what."""


def rule_of(optimizer: torch.optim.Optimizer) -> list[Any]:
    """The facts that tell an optimizer from one that makes another step of the same state: the name of its class, the
    names of its settings, and its switches (such as "amsgrad") in each group. Plain values."""
    switches = [
        {key: group[key] for key in sorted(optimizer.defaults) if key not in _HOW and isinstance(group.get(key), bool)}
        for group in optimizer.param_groups
    ]
    return [type(optimizer).__qualname__, sorted(set(optimizer.defaults) - _HOW), switches]


def _words(rule: list[Any]) -> str:
    on = sorted({key for group in rule[2] for key, value in group.items() if value})
    return f"{rule[0]} with {', '.join(on)}" if on else str(rule[0])


def _settings(optimizer: torch.optim.Optimizer, scheduler: LRScheduler | None) -> list[dict[str, Any]]:
    """The settings that each group began with, as far as one can tell: a scheduler keeps its first learning rate, and
    no first momentum."""
    parts = [scheduler, *getattr(scheduler, "_schedulers", ())]
    moved = {"momentum", "betas"} if any(getattr(part, "cycle_momentum", False) for part in parts) else set()
    return [
        {name: group[name] for name in sorted(optimizer.defaults) if name not in _HOW | moved}
        | ({"lr": group["initial_lr"]} if "initial_lr" in group else {})
        for group in optimizer.param_groups
    ]


def _changes(given: list[dict[str, Any]], kept: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by name: (given, kept) in the first group where they do."""
    pairs = [(name, now[name], was[name]) for now, was in zip(given, kept, strict=True) for name in now]
    return {name: (now, was) for name, now, was in reversed(pairs) if now != was}


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
            rule=rule_of(self._optimizer),
            **self._watch.kept(),
        )

    def check(self) -> None:
        """`InputError` if a checkpoint could not keep the state, before anything is charged."""
        encoded(self.checkpoint("", 0, None).as_dict())

    def restore(self, checkpoint: Checkpoint, load_optimizer: Callable[[dict[str, Any]], None]) -> None:
        """Go on from a checkpoint. `load_optimizer`: what takes the state of the optimizer. `InputError`, before any
        state is put back, if another kind of optimizer wrote it."""
        found = rule_of(self._optimizer)
        if checkpoint.rule is not None and checkpoint.rule != found:
            was, now = _words(checkpoint.rule), _words(found)
            raise InputError(
                f"the checkpoint does not fit this optimizer: it is of {was}, not of {now}"
                f"{' with other settings or groups' if was == now else ''}; resume the run with the optimizer that it "
                "began with"
            )
        given = _settings(self._optimizer, self._scheduler)
        checkpoint.restore(self._model, load_optimizer, self._scheduler)
        for name, (now, was) in _changes(given, _settings(self._optimizer, self._scheduler)).items():
            _log.warning(
                "the run goes on with %s=%s, as its checkpoint has it, and not with the %s of this start; for another "
                "begin a new run",
                *(name, was, now),
            )
        self._watch.restore(checkpoint)
        self._clipping.load_state_dict(checkpoint.clipping or {})
        if checkpoint.progress is not None:
            self.progress = Progress.from_dict(checkpoint.progress)
