"""What a run hands over: values, without a way back to the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from discreet.plan import Plan


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of the model on data declared public, after `step` steps."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model with all that its certificate will say. `publish` takes it from here.

    `charged_steps` counts what the ledger holds, drawn or not. `initial` are the digests of the state the run
    started from. `stream` is the kind of randomness: only "system" can be certified.
    """

    model: nn.Module
    plan: Plan
    run: str
    charged_steps: int
    ledger: Path
    key: Path
    stream: str
    engine: str
    initial: Mapping[str, str]
    evaluations: tuple[Evaluation, ...] = ()
