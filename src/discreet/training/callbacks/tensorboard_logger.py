"""Metrics of a run for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from discreet.core.imports.extras import extra
from discreet.training.callbacks.base import Opening, Told


class TensorBoardLogger:
    """Writes scalars to event files in `folder`, for `tensorboard --logdir folder`; needs `discreet[tensorboard]`.

    The time of a scalar is its step, because the true time would reveal how long steps took.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        extra("tensorboard", "tensorboard", "TensorBoardLogger")
        self._writer: Any = None

    def __enter__(self) -> Self:
        self._writer = extra("torch.utils.tensorboard", "tensorboard", "TensorBoardLogger").SummaryWriter(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def begin(self, opening: Opening) -> None:
        """The settings of the plan as a text."""
        lines = "\n".join(f"    {name}: {value}" for name, value in opening.settings.items())
        self._writer.add_text("plan", lines, 0, walltime=0.0)

    def tell(self, told: Told) -> None:
        """Write what is new."""
        for name, value in told.metrics.items():
            self._writer.add_scalar(name, value, told.step, walltime=float(told.step))
