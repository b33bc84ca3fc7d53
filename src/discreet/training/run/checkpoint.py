"""Checkpoints: what a run has released so far, so that an interrupted run can go on.

Everything in a checkpoint is post-processing of releases. The spent budget is in the ledger instead, so restoring an
old checkpoint never lowers it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.core.disk import write_durably
from discreet.core.errors import InputError
from discreet.training.run.trained import Bought, Evaluation

_FORMAT = "discreet-checkpoint/1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `position` charged steps.

    `bought`: private metrics so far. `progress`: that of an adaptive run. `best`: the best released model by public or
    private metrics, if the run keeps it. `clipping`: the state of the clip rule. `average`: the average of the released
    models, if the run takes one.
    """

    run: str
    position: int
    model: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    evaluations: tuple[Evaluation, ...]
    progress: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    clipping: dict[str, Any] | None = None
    bought: tuple[Bought, ...] = ()
    average: dict[str, Any] | None = None

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: LRScheduler | None) -> None:
        """Put the state back. The optimizer's settings come from the checkpoint too."""
        try:
            model.load_state_dict(self.model)
            optimizer.load_state_dict(self.optimizer)
            if scheduler is not None and self.scheduler is not None:
                scheduler.load_state_dict(self.scheduler)
        except (RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"the checkpoint does not fit this model or optimizer: {reason:.200}") from None


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file at `path` atomically and durably: a crash leaves the old one or the new one, never a half."""
    content = {
        "format": _FORMAT,
        "run": checkpoint.run,
        "position": checkpoint.position,
        "model": checkpoint.model,
        "optimizer": checkpoint.optimizer,
        "scheduler": checkpoint.scheduler,
        "evaluations": [(evaluation.step, dict(evaluation.metrics)) for evaluation in checkpoint.evaluations],
        "progress": checkpoint.progress,
        "best": checkpoint.best,
        "clipping": checkpoint.clipping,
        "bought": [asdict(bought) for bought in checkpoint.bought],
        "average": checkpoint.average,
    }
    write_durably(path, partial(_save, content))


class _Kept:
    """A file that keeps the error of a write: torch raises another in its place, which does not name the disk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.flush = file, file.flush
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise


def _save(content: Mapping[str, Any], file: IO[bytes]) -> None:
    kept = _Kept(file)
    try:
        torch.save(content, kept)  # type: ignore[arg-type]  # it needs nothing but write and flush
    except RuntimeError:
        if kept.error is None:
            raise
        raise kept.error from None


def load_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint at `path`, or None if none was written yet."""
    try:
        return read_checkpoint(path.read_bytes(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"cannot read the checkpoint {path}: {error.strerror}; delete it to start from scratch"
        ) from None


def read_checkpoint(written: bytes, path: Path) -> Checkpoint:
    """The checkpoint that was written to `path`. Tensors and plain values only, never code."""
    try:
        content = torch.load(io.BytesIO(written), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cannot read the checkpoint {path}: {reason:.200}; delete it to start from scratch") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{path} is not a checkpoint of this version; delete it to start from scratch")
    return Checkpoint(
        content["run"],
        content["position"],
        content["model"],
        content["optimizer"],
        content["scheduler"],
        tuple(Evaluation(step, metrics) for step, metrics in content["evaluations"]),
        content.get("progress"),
        content.get("best"),
        content.get("clipping"),
        tuple(Bought(**bought) for bought in content.get("bought", ())),
        content.get("average"),
    )
