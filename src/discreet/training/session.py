"""The step. One page, top to bottom: charge, draw, clip, add noise, divide, update."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Engine, Units, private_parameters
from discreet.core.array_types import IntArray
from discreet.core.errors import BudgetExhausted
from discreet.core.events import BoundedRange
from discreet.core.freed_memory import keep_freed_memory
from discreet.core.guarantee import ExPost
from discreet.core.release import Receipt
from discreet.data import PrivateData
from discreet.ledger import NextEvents
from discreet.mechanism import gaussian_release, noise_multiplier
from discreet.methods import tell_noise
from discreet.plan import AdaptivePlan, Metric, Plan
from discreet.randomness import Purpose, RoundedSampler, Stream
from discreet.sampling import places_within
from discreet.training.apply import apply
from discreet.training.clip_state import Clipping
from discreet.training.control.controller import Control, Metrics, Progress
from discreet.training.control.odometer_monitor import OdometerMonitor
from discreet.training.control.step_size_search import Search
from discreet.training.guard import Guard, model_randomness
from discreet.training.private_metrics.counts import noisy_count
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics
from discreet.training.public.extra_rows import PublicSource
from discreet.training.run.charges import Charges
from discreet.training.step import Context, Piece, Step
from discreet.training.unit_failures import FailureProbe


class Session:
    """A run in progress. Steps are charged in blocks, before any data is read for them.

    `position` counts the charged steps of the plan that are over, drawn or lost.
    """

    def __init__(
        self,
        plan: Plan | AdaptivePlan,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: PrivateData,
        *,
        engine: Engine,
        noise: RoundedSampler,
        ledger: Charges,
        run: str,
        attempt: int,
        stream: Stream,
        physical_batch: int,
        guard: Guard,
        clipping: Clipping,
        pristine: nn.Module,
        private_metrics: PrivateMetrics,
        progress: Progress | None = None,
        metrics: Metrics = dict,
        released: Callable[[int], None] = lambda position: None,
        search: Search | None = None,
        public: PublicSource | None = None,
        trial: FailureProbe,
    ) -> None:
        keep_freed_memory()
        self.plan, self.model, self.optimizer, self.data = plan, model, optimizer, data
        self.engine, self.noise, self.parameters = engine, noise, private_parameters(model)
        self.device = next(iter(self.parameters.values())).device
        self.run, self.stream, self.ledger, self.clipping = run, stream, ledger, clipping
        self.position = ledger.charged_steps(run)
        self._attempt, self._physical_batch, self._guard = attempt, physical_batch, guard
        self._pristine = pristine  # has seen no private row; its parameters are those of the model
        self._private_metrics, self._search, self._public = private_metrics, search, public
        self._released, self.trial = released, trial
        self._receipts: deque[Receipt] = deque()
        self._batches: deque[IntArray] = deque()
        self.ended: str | None = None
        self._odometer = None if plan.odometer is None else OdometerMonitor(plan.odometer, ledger.spent(run))
        self.control: Control | None = None
        if isinstance(plan, AdaptivePlan):
            self.control = Control(
                plan,
                progress or Progress([]),
                spent=lambda: ledger.amounts(run),
                metrics=metrics,
                buy=self._buy,
            )

    @property
    def finished(self) -> bool:
        """Whether every step of the plan is over, or the run has ended before (`ended` says why)."""
        return self.position >= self.plan.charges or self.ended is not None

    @property
    def reading(self) -> ExPost | None:
        """What the odometer of the plan reads of all that is charged, if it has one: ex post, and no guarantee."""
        return None if self._odometer is None else self._odometer.reading

    @property
    def between_blocks(self) -> bool:
        """Whether no charged step is left to draw: the time to write a checkpoint."""
        return not self._receipts

    def ready(self) -> bool:
        """Reserve the next block if none is open; False when the run is over.

        The condition of the loop over an adaptive plan, whose policy decides here what the next steps are, or that
        there are none. Counts are bought here as well.
        """
        if self.between_blocks and not self.finished:
            self._receipts.extend(self._reserved())
        return not self.between_blocks

    def check(self) -> None:
        """`PrivacyViolation` if anything but a release has changed the model since the last one."""
        self._guard.check()

    def note(self) -> None:
        """Take the model as it is now for what was released: an earlier release was put back."""
        self._guard.note()

    @contextmanager
    def step(self) -> Iterator[Step]:
        """Take one private step: everything inside adds to one clipped sum, which is released at the end.

        Raises `BudgetExhausted` before any data is read when the plan has no step left. An exception inside
        ends the step without a release; what was charged for it stays charged.
        """
        self._guard.check()
        receipt = self._next_receipt()
        try:
            yield from self._taken(receipt)
        finally:
            self._leave_what_followed()

    def _taken(self, receipt: Receipt) -> Iterator[Step]:
        chunks = list(self._pieces(self._next_batch(receipt), receipt.position))
        clip = self.clipping.at(self.plan.step_at(receipt.position), receipt.release)
        step = Step(self._context(), chunks, clip)
        with model_randomness(self.stream, receipt.position):
            yield step
        step.close()
        self._guard.check()

        draw = self.plan.draw_of(receipt.event)
        total = step.total(draw.largest_batch)
        release = gaussian_release(total, receipt, self.stream, self.noise)
        std = noise_multiplier(receipt.release) * total.sensitivity
        scales: dict[Tensor, Tensor] | None = None
        if clip.scales is not None:
            scales = {self.parameters[name]: part for name, part in clip.scales.items()}
        tell_noise(self.optimizer, std / draw.divisor, scales)
        beside = () if self._public is None else (self._public.at(receipt.position),)
        apply(self.clipping.unscaled(release, clip), self.parameters, self.optimizer, draw.divisor, *beside)
        self.clipping.learn(release, clip, std, draw.divisor)
        self._guard.note()
        self._choose_step_size()
        self._released(self.position)
        self._buy_what_is_due()
        if self.between_blocks:
            self.ledger.commit(replace(receipt, position=self.position - 1))

    def _context(self) -> Context:
        check = self._guard.check_values
        return Context(self.model, self.parameters, self.data, self.device, self.engine, self.trial, check)

    def _next_receipt(self) -> Receipt:
        if self.between_blocks:
            self._receipts.extend(self._reserved())
        if self.between_blocks:
            raise BudgetExhausted(f"the run is over: {self.ended}; nothing more may be released")
        receipt = self._receipts.popleft()
        self.position = receipt.position + 1
        return receipt

    def _leave_what_followed(self) -> None:
        """Pass over metrics and choices that were charged with a step that was broken off: they pay for no other."""
        while self._receipts and not self._pays_for_a_step(self._receipts[0]):
            self.position = self._receipts.popleft().position + 1

    def _pays_for_a_step(self, receipt: Receipt) -> bool:
        bought = isinstance(self.plan, Plan) and self.plan.metric_at(receipt.position) is not None
        return not bought and not isinstance(receipt.event, BoundedRange)

    def _choose_step_size(self) -> None:
        """How far to go along what was just released, if the plan has a line search; it was charged with the step."""
        if self._search is None:
            return
        assert self.control is not None
        receipt = self._receipts.popleft()
        self.position = receipt.position + 1
        with model_randomness(self.stream, receipt.position):
            chosen = self._search.choose(self.control.progress.phases, receipt, self.stream)
        self._guard.check()
        self._search.move(chosen)
        self._guard.note()
        self.control.progress.step_size = chosen

    def _reserved(self) -> tuple[Receipt, ...]:
        """The receipts of the next block; () when the run has ended, with the reason in `ended`."""
        if self.ended is not None:
            return ()
        self.trial.repeat()
        if self.control is not None:
            receipts = self.control.reserve(self._charge, self.position)
            self.ended = self.control.progress.ended
            return receipts
        assert isinstance(self.plan, Plan)
        try:
            return self._charge(self.plan.next_block)
        except BudgetExhausted as refusal:
            if self.position == 0:  # nothing was released, so there is no run to end
                raise
            self.ended = str(refusal)
            return ()

    def _charge(self, next_events: NextEvents) -> tuple[Receipt, ...]:
        """Reserve what `next_events` grants, as far as the odometer goes along."""
        odometer = self._odometer
        if odometer is None:
            return self.ledger.reserve(self.run, self._attempt, next_events)
        receipts = self.ledger.reserve(self.run, self._attempt, lambda charged: odometer.fitting(next_events(charged)))
        odometer.charge(receipt.event for receipt in receipts if receipt.index == 0)
        return receipts

    def _buy_what_is_due(self) -> None:
        """Take the metrics that a fixed plan buys before its next step; they are charged with the step before."""
        while isinstance(self.plan, Plan) and self._receipts:
            metric = self.plan.metric_at(self._receipts[0].position)
            if metric is None:
                return
            self._take(self._receipts.popleft(), metric)

    def _buy(self, receipt: Receipt, metric: Metric | None) -> float:
        """What an adaptive run bought with a receipt, and a note of it in the ledger."""
        value = self._take(receipt, metric)
        self.ledger.commit(receipt)
        return value

    def _take(self, receipt: Receipt, metric: Metric | None) -> float:
        """The metric, or the count of correct predictions, that `receipt` paid for."""
        self._guard.check()
        self.position = receipt.position + 1
        with model_randomness(self.stream, receipt.position):
            value = self._count(receipt) if metric is None else self._private_metrics.buy(metric, receipt, self.stream)
        self._guard.check()
        return value

    def _count(self, receipt: Receipt) -> float:
        assert isinstance(self.plan, AdaptivePlan)
        assert self.plan.counts is not None
        (rows,) = self.plan.counts.sampler.batches(receipt.position, len(self.data), self.stream)
        return noisy_count(self._pristine, self.data, rows, receipt, self.stream, self.noise)

    def _next_batch(self, receipt: Receipt) -> IntArray:
        """Who takes part in the step; the batches of an epoch are drawn together, at its first step."""
        if receipt.index == 0:
            sampler = self.plan.draw_of(receipt.event).sampler
            self._batches = deque(sampler.batches(receipt.position, len(self.data), self.stream))
        return self._batches.popleft()

    def _pieces(self, drawn: IntArray, position: int) -> Iterator[Piece]:
        """The batch in chunks of whole units; how many units a chunk has is public."""
        most, groups = self.plan.rows_per_unit, self.data.groups
        size = max(1, self._physical_batch // (most * self.data.views))
        if groups is None:
            yield from ((drawn[i : i + size], None) for i in range(0, len(drawn), size))
            return
        places = places_within(groups.counts(drawn), most, self.stream.substream(Purpose.ROWS, position))
        rows = [groups.rows(int(unit), chosen) for unit, chosen in zip(drawn, places, strict=True)]
        for i in range(0, len(rows), size):
            yield np.concatenate(rows[i : i + size]), Units(tuple(map(len, rows[i : i + size])))
