"""What a run hands over: values, without a way back to the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from discreet.core.html import fact_table, rounded_up
from discreet.ledger import Entry
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Stream, SystemStream


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of the model on data declared public, after `step` charged steps."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Bought:
    """A metric on private rows that was bought: `step` charged steps were over then, its own included.

    `deviation` is the standard deviation of `value` around what it measures, a public figure of the plan.
    """

    step: int
    metric: str
    value: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What carried the plan out: names of the engine, the noise sampler and the kind of randomness."""

    engine: str
    float_bits: int | None
    noise: str
    randomness: str
    assumptions: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """What the ledger holds of it."""
        return {
            "engine": self.engine,
            "float_bits": self.float_bits,
            "noise": self.noise,
            "randomness": self.randomness,
        }


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model with all that its certificate will say. `publish` takes it from here.

    `model` is a copy, with the parameters of the model that was given: no private row was run through it.
    `entries` is what the ledger holds of the run, drawn or not. `initial` and `final` are the digests of
    the state the run started from and ended with. `ended` says why a run ended before its last step, if it did so by
    itself. `secrets` are files to destroy once the model is published. `winner` are the settings of the run, if a
    search chose them. `released`: tensors that queries before the first step released and that predictions need.
    `public`: what is declared of public rows whose gradient joined the steps.
    """

    model: nn.Module
    plan: Plan | AdaptivePlan
    entries: tuple[Entry, ...]
    mechanism: Mechanism
    initial: Mapping[str, str]
    final: Mapping[str, str]
    secrets: tuple[Path, ...]
    evaluations: tuple[Evaluation, ...] = ()
    bought: tuple[Bought, ...] = ()
    ended: str | None = None
    winner: Mapping[str, Any] | None = None
    released: Mapping[str, Tensor] = field(default_factory=dict)
    public: Mapping[str, Any] | None = None

    def _repr_html_(self) -> str:
        """For notebooks: what `publish` would say first. Nothing of it is of private rows but what was bought."""
        metrics = dict(self.evaluations[-1].metrics) if self.evaluations else {}
        facts: dict[str, object] = {
            "charged steps": f"{self.charged_steps} of {self.plan.charges}",
            "epsilon of the plan": rounded_up(self.plan.guarantee().epsilon),
            "delta": f"{self.plan.delta:g}",
            "randomness": "test: it cannot be published" if self.mechanism.randomness == "test" else None,
            "ended": self.ended,
        }
        facts |= {f"public {name}": f"{value:.4g}" for name, value in metrics.items()}
        facts |= {f"bought {one.metric}": f"{one.value:.4g} +/- {one.deviation:.2g}" for one in self.bought}
        return fact_table("Trained model", facts)

    @property
    def charged_steps(self) -> int:
        """Steps that the ledger holds, drawn or not."""
        return sum(entry.steps for entry in self.entries if entry.kind == "reservation")


def randomness_of(stream: Stream | None) -> str:
    """What a certificate may call the randomness: nothing but the library's own keyed stream is "system"."""
    return "system" if stream is None or type(stream) is SystemStream else "test"
