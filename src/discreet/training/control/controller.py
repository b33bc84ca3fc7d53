"""The control of a run decides its next block: a fixed plan has it written down, an adaptive plan asks its policy.

A policy is asked when a phase begins. Before that, the finished phase is closed: public validation metrics are
computed, and private metrics and a count are bought if the plan has them. The controls that the policy returns are
checked and reserved before any data is read for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from discreet.core.errors import BudgetExhausted
from discreet.core.events import BoundedRange, Event, steps_of
from discreet.core.release import Receipt
from discreet.ledger import NextEvents
from discreet.plan import AdaptivePlan, Controls, History, Metric, Phase, Plan
from discreet.plan.timeline import sizes_first
from discreet.training.preflight.plan_check import check_grid

Reserve = Callable[[NextEvents], tuple[Receipt, ...]]

Metrics = Callable[[], Mapping[str, float]]
"""Metrics of the model on data declared public."""


@dataclass
class Progress:
    """The progress of an adaptive run; public values only. Checkpoints keep it, except `ended`, which is found again.

    `left` steps of the phase with `controls` are still to be reserved. `step_size`: the choice of a line search for it.
    """

    phases: list[Phase]
    controls: Controls | None = None
    left: int = 0
    step_size: float | None = None
    ended: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` is the inverse."""
        controls = None if self.controls is None else [self.controls.noise_multiplier, self.controls.expected_batch]
        phases = [phase.as_dict() for phase in self.phases]
        return {"phases": phases, "knobs": controls, "left": self.left, "step_size": self.step_size}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """Decode what `as_dict` made."""
        controls = None if data["knobs"] is None else Controls(*data["knobs"])
        phases = [Phase.from_dict(phase) for phase in data["phases"]]
        return cls(phases, controls, data["left"], data.get("step_size"))


class FixedControl:
    """Control by a fixed plan: its blocks, with the private metrics between steps."""

    progress = None

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ended: str | None = None

    def reserve(self, reserve: Reserve, position: int) -> tuple[Receipt, ...]:
        """Receipts of the next block; () when the run is over (`ended`)."""
        try:
            return reserve(self.plan.next_block)
        except BudgetExhausted as refusal:
            if position == 0:  # nothing was released, so there is no run to end
                raise
            self.ended = str(refusal)
            return ()

    def metric_at(self, receipt: Receipt) -> Metric | None:
        """The private metric that a receipt pays for; None if it pays for a step."""
        return self.plan.metric_at(receipt.position)

    def pays_for_a_step(self, receipt: Receipt) -> bool:
        """Whether a receipt pays for a step, and not for a release between two steps."""
        return self.metric_at(receipt) is None


class AdaptiveControl:
    """Control by an adaptive plan, whose policy decides the blocks.

    `spent()`: the cost that the run's filter has counted. `metrics()`: public validation metrics. `buy(receipt,
    metric)` releases the private metric that the receipt paid for, or a count if `metric` is None.
    """

    def __init__(
        self,
        plan: AdaptivePlan,
        progress: Progress,
        *,
        spent: Callable[[], Sequence[float]],
        metrics: Metrics,
        buy: Callable[[Receipt, Metric | None], float],
    ) -> None:
        self.plan, self.progress = plan, progress
        self._spent, self._metrics, self._buy = spent, metrics, buy

    @property
    def ended(self) -> str | None:
        """Why the run is over; None while it goes on."""
        return self.progress.ended

    def metric_at(self, receipt: Receipt) -> None:
        """None: metrics are bought between blocks."""

    def pays_for_a_step(self, receipt: Receipt) -> bool:
        """Whether a receipt pays for a step, and not for the choice of its size."""
        return not isinstance(receipt.event, BoundedRange)

    def reserve(self, reserve: Reserve, position: int) -> tuple[Receipt, ...]:
        """Receipts of the next block, of which nothing was drawn yet; () when the run is over (`progress.ended`).

        Impossible controls from a policy are an `InputError`, before anything is reserved.
        """
        progress = self.progress
        try:
            if progress.left == 0:
                if progress.controls is not None:
                    position = self._close(progress.controls, reserve, position)
                if not self._decide(position):
                    return ()
            controls = progress.controls
            assert controls is not None
            left = min(progress.left, max(1, self._steps_left(controls)))  # the last block is what still fits
            receipts = reserve(lambda charged: self._block(controls, charged, left))
        except BudgetExhausted as refusal:
            progress.ended = str(refusal)
            return ()
        progress.left = max(0, progress.left - len(receipts))  # a choice of a step size is no step of its own
        return receipts

    def _close(self, controls: Controls, reserve: Reserve, position: int) -> int:
        """Record the finished phase: its public metrics, and those that are bought. Returns the new position."""
        if self.plan.line_search is not None:  # which looks at nothing but its own choices
            self.progress.phases.append(Phase(position, controls, step_size=self.progress.step_size))
            self.progress.controls = self.progress.step_size = None
            return position
        metrics, count, counts = dict(self._metrics()), None, self.plan.counts
        known = {name for phase in self.progress.phases for name in phase.metrics}
        for metric in sizes_first(self.plan.metrics):
            if metric.kind == "size" and metric.name in known:
                continue
            (receipt,) = reserve(partial(self._one, metric.event))
            metrics[metric.name], position = self._buy(receipt, metric), receipt.position + 1
        if counts is not None:
            (receipt,) = reserve(partial(self._one, counts.event))
            count, position = self._buy(receipt, None), receipt.position + 1
        self.progress.phases.append(Phase(position, controls, metrics, count))
        self.progress.controls = None
        return position

    def _decide(self, position: int) -> bool:
        """Ask the policy for the controls of the next phase; False if it ends the run."""
        plan, progress = self.plan, self.progress
        history = History(
            tuple(progress.phases),
            plan.start,
            lambda controls: self._epochs_left(controls, position),
            0.0 if plan.counts is None else plan.counts.noise,
        )
        decided = plan.policy(len(progress.phases), history)
        if decided is None:
            progress.ended = "the policy ended the run"
            return False
        controls = plan.checked(decided)
        draw = plan.draw_of(plan.event(controls))
        check_grid(steps_of(plan.event(controls))[0], draw.largest_batch)
        progress.controls, progress.left = controls, plan.phase_steps(controls)
        return True

    def _block(self, controls: Controls, charged: int, left: int) -> tuple[Event, ...]:
        period = self.plan.draw_of(self.plan.event(controls)).sampler.period
        block = self.plan.block_of(controls, charged, max(left, period))
        if not block:
            raise BudgetExhausted(f"the most steps of the plan ({self.plan.most_steps}) are charged")
        return block

    def _one(self, event: Event, charged: int) -> tuple[Event, ...]:
        if not charged < self.plan.most_steps:
            raise BudgetExhausted(f"the most steps of the plan ({self.plan.most_steps}) are charged")
        return (event,)

    def _steps_left(self, controls: Controls) -> int:
        """The number of steps with these controls that the filter has room for, in whole epochs of disjoint batches."""
        limits, cost = self.plan.filter.limits, self.plan.price(controls)
        room = min((most - used) / price for most, used, price in zip(limits, self._spent(), cost, strict=True))
        return math.floor(room) * self.plan.draw_of(self.plan.event(controls)).sampler.period

    def _epochs_left(self, controls: Controls, position: int) -> float:
        """The number of epochs with these controls that are left, by the filter and by the most steps of the plan."""
        steps = min(self._steps_left(self.plan.checked(controls)), self.plan.most_steps - position)
        return steps * controls.expected_batch / self.plan.population


Control = FixedControl | AdaptiveControl


def control_of(
    plan: Plan | AdaptivePlan,
    progress: Progress,
    *,
    spent: Callable[[], Sequence[float]],
    metrics: Metrics,
    buy: Callable[[Receipt, Metric | None], float],
) -> Control:
    """The control of a run of `plan`. `progress`: that of an adaptive run."""
    if isinstance(plan, Plan):
        return FixedControl(plan)
    return AdaptiveControl(plan, progress, spent=spent, metrics=metrics, buy=buy)
