"""The tiny runs that die at a chosen place (crash_server.py), and what must hold afterwards: `findings` compares the
journal of releases with the ledger."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.core.adjacency import Adjacency
from discreet.core.events import Event, steps_of
from discreet.core.events.event_json import from_json
from discreet.ledger import Ledger
from discreet.plan import (
    AdaptivePlan,
    AllocationSampling,
    Controls,
    Counts,
    CyclicPoissonSampling,
    FixedSizeSampling,
    History,
    IndividualSampling,
    NoSampling,
    Plan,
    PoissonSampling,
    Sampling,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

CRASH = 77
"""The exit code of an injected crash."""

PHASES = ((2.0, 3), (1.0, 4), (3.0, 3))
BLOCK = 3
STEPS = sum(count for _, count in PHASES)


SAMPLINGS: dict[str, tuple[Sampling, Adjacency]] = {
    "poisson": (PoissonSampling(rate=0.5), Adjacency.ADD_REMOVE),
    "truncated": (TruncatedPoissonSampling(rate=0.5, capacity=30), Adjacency.ADD_REMOVE),
    "fixed size": (FixedSizeSampling(batch=12), Adjacency.REPLACE_ONE),
    "shuffle": (ShuffleSampling(batch=5), Adjacency.ZERO_OUT),
    "allocation": (AllocationSampling(period=5), Adjacency.ADD_REMOVE),
    "cyclic": (CyclicPoissonSampling(rate=0.9, coefficients=(64, 40, 33, 27, 20)), Adjacency.ADD_REMOVE),
    "individual": (IndividualSampling(period=5, full=2), Adjacency.ADD_REMOVE),
    "none": (NoSampling(), Adjacency.REPLACE_ONE),
}
"""By name; epochs and periods have five steps."""


def plan(phases: Any = PHASES, block: int = BLOCK, delta: float = 1e-5, sampling: str = "poisson") -> Plan:
    """Unequal multipliers, so that a step charged in the wrong order shows."""
    drawn, adjacency = SAMPLINGS[sampling]
    made = Plan.make(
        drawn,
        adjacency=adjacency,
        population=24,
        steps=sum(count for _, count in phases),
        clip_norm=1.0,
        delta=delta,
        noise_multiplier=[tuple(phase) for phase in phases],
    )
    return made.model_copy(update={"block": block})


def adaptive_plan() -> AdaptivePlan:
    """The same problem, decided on the way: other noise and batches in every phase, and counts bought in between."""

    def policy(phase: int, history: History) -> Controls | None:
        return Controls(2.0 + phase, 12.0 - phase) if phase < 3 else None

    return AdaptivePlan.make(
        PoissonSampling(rate=0.5),
        epsilon=50.0,
        delta=1e-5,
        population=24,
        clip_norm=1.0,
        policy=policy,
        noise_multiplier=2.0,
        most_steps=40,
        counts=Counts(noise=10.0),
        every=2.0,
        block=BLOCK,
    )


# What must hold -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Findings:
    """What the journal of releases says about the ledger. `faults` is empty if all is well."""

    charged: int
    released: int
    under_charge: int
    """Releases without a charge of their own: each charged step pays for one release."""
    reused: int
    """Releases whose noise was seen before."""
    out_of_order: int
    """Charges or releases with another event than the plan's at their position."""

    @property
    def faults(self) -> dict[str, int]:
        """The counts that should be 0 and are not."""
        counts = {"under_charge": self.under_charge, "reused": self.reused, "out_of_order": self.out_of_order}
        return {name: count for name, count in counts.items() if count}


def begun(folder: Path, address: str = "") -> bool:
    """Whether there is a run to go on with: a name, and an entry in the ledger."""
    if not (folder / "run" / "run.json").exists():
        return False
    ledger = Ledger(address or folder / "run" / "ledger.sqlite", create=False)
    try:
        return any(entry.kind == "run" for entry in ledger.entries())
    finally:
        ledger.close()


def journal(folder: Path) -> list[dict[str, Any]]:
    """The releases in order."""
    path = folder / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def findings(folder: Path, planned: Plan | None = None, address: str = "") -> Findings:
    """Walk the chain of the run's own ledger, or of the one at `address`, and compare."""
    where = address or folder / "run" / "ledger.sqlite"
    events = planned_steps((planned or plan()).event())
    charged: list[Event] = []
    if address or Path(where).exists():
        ledger = Ledger(where)
        ledger.verify()
        for entry in ledger.entries():
            if entry.kind == "reservation":
                block = planned_steps(from_json(entry.content))
                assert entry.steps == len(block)
                charged += block if entry.position == len(charged) else [None] * len(block)  # type: ignore[list-item]
        ledger.close()
    wrong = sum(ours != theirs for ours, theirs in zip(charged, events, strict=False)) + max(
        0, len(charged) - len(events)
    )
    return _compared(charged, events, journal(folder), wrong)


def adaptive_findings(folder: Path) -> Findings:
    """The same of an adaptive run: no plan says what comes next, but each release must be what was charged for it."""
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    ledger.verify()
    charged: list[Event] = []
    wrong = 0
    for entry in ledger.entries():
        if entry.kind == "reservation":
            wrong += entry.position != len(charged)
            charged += planned_steps(from_json(entry.content))
    ledger.close()
    return _compared(charged, charged, journal(folder), wrong)


def _compared(charged: list[Event], events: list[Event], releases: list[dict[str, Any]], wrong: int) -> Findings:
    """`events`: what each release must be, by position; `wrong`: charges that are already known to be."""
    positions = Counter(release["position"] for release in releases)
    words = Counter(release["words"] for release in releases)
    wrong += sum(from_json(release["event"]) != events[release["position"]] for release in releases)
    return Findings(
        charged=len(charged),
        released=len(releases),
        under_charge=sum(count - (position < len(charged)) for position, count in positions.items()),
        reused=sum(count - 1 for count in words.values()),
        out_of_order=wrong,
    )


def planned_steps(event: Any) -> list[Event]:
    """The draw of each step, over a composition of repeats; that of an epoch is there once for each of its steps."""
    return [part.event for part in event.events for _ in range(part.count) for _ in steps_of(part.event)]
