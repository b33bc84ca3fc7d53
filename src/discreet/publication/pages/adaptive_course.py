"""The course of an adaptive run, for people: noise, batches and the spent part of the budget over charged steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.filter_decision import propose, start
from discreet.core.adjacency import Query
from discreet.core.events import BoundedRange, Event, Gaussian, Poisson, Repeat, flatten, steps_of
from discreet.core.events.event_json import from_json
from discreet.plan import Counts

POLICIES: Mapping[str, str] = {
    "constant": "Noise and batches stayed as they were; the filter ended the run.",
    "validation_decay": "The noise fell when a metric stopped improving (Yu et al. 2019, equations 8 to 10).",
    "noise_by_progress": "The noise rose while the model learned and fell when it did not (Lecuyer 2021, section 5.1).",
    "line_search": "Each step went along a noisy gradient as far as a private choice among step sizes said; where it "
    "said to stay, the gradient got more of the budget (Lee and Kifer 2018).",
    "batch_by_progress": "Batches shrank while the model learned and grew when it did not (Lecuyer 2021, section 5.1).",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring steps with the same noise and expected batch; bought counts are not among them."""

    steps: int
    noise: float
    batch: float


@dataclass(frozen=True, slots=True)
class Course:
    """`segments` in order (queries before them left out); `counts`, `metrics` and `choices` bought.

    `spent`: (charged, part of a limit) at each change.
    """

    segments: tuple[Segment, ...]
    counts: int
    metrics: int
    spent: tuple[tuple[int, float], ...]
    policy: str
    choices: int = 0

    @property
    def phases(self) -> list[tuple[float, int]]:
        """(multiplier, steps) in order."""
        return [(segment.noise, segment.steps) for segment in self.segments]

    @property
    def batches(self) -> list[float]:
        """Expected batches, in order."""
        return [segment.batch for segment in self.segments]


def course(facts: Mapping[str, Any]) -> Course:
    """The course, from the events and the filter of a certificate."""
    from discreet.ledger.meter import share  # loads SQLAlchemy, which pages of fixed plans do without

    plan = facts["plan"]
    budget = filters.from_dict(plan["filter"])
    bought = None if plan["counts"] is None else Counts.model_validate(plan["counts"])
    segments: list[Segment] = []
    counts, metrics, choices, spent, at, before = 0, 0, 0, start(budget), 0, len(plan.get("before", []))
    shares = [(0, 0.0)]
    for event, count in flatten(from_json(facts["events"])):
        steps = steps_of(event)
        at, spent = at + count * len(steps), propose(budget, spent, Repeat(event, count)).spent
        shares.append((at, share(budget, spent)))
        asked = min(before, count)
        before, count = before - asked, count - asked
        if count == 0:
            continue
        first = steps[0]
        if bought is not None and event == bought.event:
            counts += count
            continue
        if isinstance(first, BoundedRange):
            choices += count
            continue
        assert isinstance(first, Gaussian)
        if first.query is not Query.CLIPPED_SUM:
            metrics += count
            continue
        batch = _batch(event, plan)
        if segments and (segments[-1].noise, segments[-1].batch) == (first.noise_multiplier, batch):
            segments[-1] = Segment(segments[-1].steps + count * len(steps), first.noise_multiplier, batch)
        else:
            segments.append(Segment(count * len(steps), first.noise_multiplier, batch))
    named = plan["policy"]
    policy = POLICIES.get(named["kind"], f"A function called {named.get('name', '')!s:.100} decided.")
    return Course(tuple(segments), counts, metrics, tuple(shares), policy, choices)


def _batch(event: Event, plan: Mapping[str, Any]) -> float:
    if isinstance(event, Poisson):
        return event.rate * float(plan["population"])
    return float(plan["sampling"].get("batch", plan["population"]))
