"""The result of a run: values without any reference to the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from discreet.certificate.earlier_runs import EarlierRun
from discreet.clipping.engines.engine import Engine
from discreet.core.html import fact_lines, fact_table
from discreet.core.rounding import delta_up, places_up
from discreet.ledger import Entry
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import RoundedSampler, Stream, SystemStream
from discreet.training.run.opening import record_of


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of the model on data declared public, after `step` charged steps."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Bought:
    """A private metric that was bought after `step` charged steps, its own included.

    `deviation`: the standard deviation of `value` around the true metric, a public figure of the plan.
    """

    step: int
    metric: str
    value: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How the plan was carried out: names of the engine, the noise sampler and the kind of randomness. `lanes`: the
    parts of a batch whose sums were added in whole numbers, if several processes may have shared them out. `sites`: at
    how many sites the data lay, if each lane was that of a site."""

    engine: str
    float_bits: int | None
    noise: str
    randomness: str
    assumptions: tuple[str, ...]
    lanes: int | None = None
    sites: int | None = None

    @classmethod
    def of(
        cls, engine: Engine, noise: RoundedSampler, stream: Stream | None, lanes: int | None, sites: int | None
    ) -> Mechanism:
        """How an engine and a source of noise carry a plan out."""
        named = engine.name, engine.float_bits, noise.name, randomness_of(stream)
        return cls(*named, (noise.assumption, engine.assumption), lanes, sites)

    def as_dict(self) -> dict[str, object]:
        """The entry in the ledger."""
        facts: dict[str, object] = {
            "engine": self.engine,
            "float_bits": self.float_bits,
            "noise": self.noise,
            "randomness": self.randomness,
        }
        shared = {"lanes": self.lanes, "sites": self.sites}
        return facts | {name: count for name, count in shared.items() if count is not None}


@dataclass(frozen=True, slots=True, repr=False)
class Trained:
    """A trained model with everything that its certificate will state; `publish` takes this record.

    `model` is a copy of the given model with the trained parameters; no private row was run through it. `entries`: the
    ledger's entries of the run, drawn or not. `initial` and `final`: digests of the state at the start and the end.
    `ended`: why the run ended before its last step, if it did so by itself. `secrets`: files to destroy after
    publishing. `winner`: the settings of the run, if a search chose them. `released`: tensors that queries before the
    first step released and that predictions need. `public`: the declaration of public rows whose gradient joined the
    steps. `canaries`: the declaration of made-up texts among the training rows. `warm_start`: the private runs that
    released weights at the start. `publishes`: False in all but the first of several processes, where `publish` writes
    nothing. `ledger`: where it is, perhaps with the password of a database; "" if the run has no key to be destroyed.
    """

    model: nn.Module
    plan: Plan | AdaptivePlan
    entries: tuple[Entry, ...]
    mechanism: Mechanism
    initial: Mapping[str, str]
    final: Mapping[str, str]
    secrets: Sequence[Path]
    evaluations: tuple[Evaluation, ...] = ()
    bought: tuple[Bought, ...] = ()
    ended: str | None = None
    winner: Mapping[str, Any] | None = None
    released: Mapping[str, Tensor] = field(default_factory=dict)
    public: Mapping[str, Any] | None = None
    canaries: Mapping[str, Any] | None = None
    warm_start: Sequence[EarlierRun] = ()
    publishes: bool = True
    ledger: str = ""

    def __repr__(self) -> str:
        return fact_lines("Trained model", self._facts())

    def _repr_html_(self) -> str:
        """A summary for notebooks; it holds public figures and bought metrics only."""
        return fact_table("Trained model", self._facts())

    def _facts(self) -> dict[str, object]:
        last = self.last_metrics.items()
        metrics = {name: value for name, value in last if ": " not in name}  # not those of single classes
        charged: dict[str, object] = {"charged steps": f"{self.charged_steps} of {self.plan.charges}"}
        if self.winner is not None:  # one charge, whatever the number of runs was
            winner = ", ".join(f"{name}={value}" for name, value in self.winner.items())
            charged = {"charged": "the search as a whole", "winner": winner}
        facts: dict[str, object] = charged | {
            "epsilon of the plan": places_up(self.plan.guarantee().epsilon),
            "delta": delta_up(self.plan.delta),
            "randomness": "test: it cannot be published" if self.mechanism.randomness == "test" else None,
            "ended": self.ended,
        }
        facts |= {"on public rows": ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()) or None}
        last_bought = {one.metric: f"{one.value:.4g} +/- {one.deviation:.2g}" for one in self.bought}
        return facts | {f"bought {name}": value for name, value in last_bought.items()}

    @property
    def last_metrics(self) -> Mapping[str, float]:
        """The metrics of the last evaluation on public data; empty if there was none."""
        return self.evaluations[-1].metrics if self.evaluations else {}

    @property
    def charged_steps(self) -> int:
        """Steps that the ledger holds, drawn or not."""
        return sum(entry.steps for entry in self.entries if entry.kind == "reservation")

    def check_newest(self) -> None:
        """`LedgerError` if the run was started again since it gave this result, and the key is still there."""
        if self.ledger and any(one.exists() for one in self.secrets):
            starts = sum(entry.kind == "attempt" for entry in self.entries)
            record_of(self.ledger, self.entries[0].run, self.charged_steps, starts - 1)


def randomness_of(stream: Stream | None) -> str:
    """The certificate's name for the randomness: only the library's own keyed stream is "system"."""
    return "system" if stream is None or type(stream) is SystemStream else "test"
