"""Metrics of a run for Weights & Biases."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

from discreet.core.imports.extras import extra
from discreet.training.callbacks.base import Opening, Told

_log = logging.getLogger("discreet")


class WandbLogger:
    """Logs the settings of the plan and all metrics to one run of Weights & Biases; needs `discreet[wandb]`.

    `project` and further options are those of `wandb.init`, for instance `mode="offline"`.

    W&B notes the time of every figure that it gets, and how busy the machine is. Both would reveal how long steps took,
    and so how large their batches were. So figures are sent when the run ends, each with its step; the machine, the
    code and the terminal are not recorded. If it cannot take them then, that is a warning: the run keeps its result.
    """

    def __init__(self, project: str = "discreet", **options: Any) -> None:
        self._wandb = extra("wandb", "wandb", "WandbLogger")
        self._options = {"project": project} | options
        self._plan: dict[str, str | float | int] = {}
        self._told: list[Told] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._send(0 if kind is None else 1)
        except Exception as failure:  # whatever it is, the run is over and its result is worth more
            _log.warning("Weights & Biases did not take the figures of the run: %s", failure)

    def _send(self, exit_code: int) -> None:
        """Log what was told as one run that ended with this code."""
        quiet = self._wandb.Settings(
            x_disable_stats=True, x_disable_machine_info=True, disable_git=True, disable_code=True, console="off"
        )
        run = self._wandb.init(settings=quiet, config=self._plan, **self._options)
        for told in self._told:
            run.log(dict(told.metrics), step=told.step)
        run.finish(exit_code=exit_code)

    def begin(self, opening: Opening) -> None:
        """Keep the settings of the plan."""
        self._plan = opening.settings

    def tell(self, told: Told) -> None:
        """Keep what is new."""
        if told.metrics:
            self._told.append(told)
