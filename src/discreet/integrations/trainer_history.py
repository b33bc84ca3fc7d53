"""A callback that writes what a run tells into the state of `transformers.Trainer`."""

from __future__ import annotations

from typing import Any

from discreet.training.callbacks.base import Told, ToldAlone


class History(ToldAlone):
    """A callback that appends public evaluations to `log_history` of a trainer's `state`, as `Trainer` does; no time is
    in it."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def tell(self, told: Told) -> None:
        """Note the step, and its evaluation if there is one."""
        self._state.global_step = told.step
        found = {name.removeprefix("public/"): one for name, one in told.metrics.items() if name.startswith("public/")}
        if found:
            self._state.log_history.append({f"eval_{name}": one for name, one in found.items()} | {"step": told.step})
