"""A callback that writes what a run tells into the state of `transformers.Trainer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.training import Trained
from discreet.training.callbacks.base import Told, ToldAlone


class History(ToldAlone):
    """A callback that appends public evaluations to `log_history` of a trainer's `state`, as `Trainer` does; no time is
    in it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def tell(self, told: Told) -> None:
        """Note the step, and its evaluation if there is one."""
        found = {name.removeprefix("public/"): one for name, one in told.metrics.items() if name.startswith("public/")}
        self._note(told.step, found)

    def catch_up(self, trained: Trained) -> None:
        """Note what was not told: of several processes the first alone is told of steps."""
        if self._state.global_step == 0:
            for one in trained.evaluations:
                self._note(one.step, one.metrics)
            self._state.global_step = trained.charged_steps

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        self._state.global_step = step
        if metrics:
            self._state.log_history.append({f"eval_{name}": one for name, one in metrics.items()} | {"step": step})
