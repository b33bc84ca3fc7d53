"""A run in progress: it charges blocks, takes steps, and tells the followers of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock

from torch import nn

from discreet.core.errors import InputError, LedgerError
from discreet.core.guarantee import ExPost
from discreet.core.processes import keep_freed_memory
from discreet.core.release import Receipt
from discreet.core.silence import unwarned
from discreet.plan import Metric
from discreet.training.batch import Batch
from discreet.training.charged import Charged
from discreet.training.control.controller import Metrics, Progress, control_of
from discreet.training.control.odometer_monitor import OdometerMonitor
from discreet.training.control.step_size_search import StepSizeSearch
from discreet.training.guard import has_finite_weights, model_randomness
from discreet.training.private_metrics.counts import planned_count
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics
from discreet.training.run.charges import Charges
from discreet.training.step import Run, private_step


class Session:
    """A run in progress. Steps are charged in blocks, before any data is read for them.

    `pristine` has seen no private row and shares the model's parameters. `released` is called with the position after
    every step. `search` chooses the step size along a released gradient.
    """

    def __init__(
        self,
        run: Run,
        ledger: Charges,
        name: str,
        attempt: int,
        *,
        private_metrics: PrivateMetrics,
        pristine: nn.Module,
        progress: Progress,
        metrics: Metrics,
        released: Callable[[int], None],
        search: StepSizeSearch | None,
    ) -> None:
        keep_freed_memory()
        self._parts, self.ledger, self.run, self.attempt = run, ledger, name, attempt
        self._private_metrics, self._pristine = private_metrics, pristine
        self._released, self._search = released, search
        spent = partial(ledger.amounts, name)
        self.control = control_of(run.plan, progress, spent=spent, metrics=metrics, buy=self._buy)
        rule = run.plan.odometer
        odometer = None if rule is None else OdometerMonitor(rule, ledger.spent(name))
        self._free = Lock()
        self._unnoted: Receipt | None = None
        self._charged = Charged(ledger, name, attempt, self.control, odometer)

    def __repr__(self) -> str:
        plan, ended = self._parts.plan, "" if self.ended is None else f"; ended: {self.ended}"
        return f"<Session: {self.position} of {plan.charges} charged releases are over{ended}; {plan.guarantee()}>"

    @property
    def position(self) -> int:
        """Number of charged releases that are over, taken or lost."""
        return self._charged.position

    @property
    def ended(self) -> str | None:
        """Why the run has ended before its plan; None if it has not."""
        return self.control.ended

    @property
    def finished(self) -> bool:
        """Whether every step of the plan is over, or the run ended early (`ended` says why)."""
        return self.position >= self._parts.plan.charges or self.ended is not None

    @property
    def reading(self) -> ExPost | None:
        """The odometer's reading of everything charged; None without an odometer. It is ex post, and no guarantee.

        After a charge that failed the ledger is asked: of several processes, all must read then, or none.
        """
        return self._charged.reading

    @property
    def between_blocks(self) -> bool:
        """Whether no charged step is left to draw, which is the time to write a checkpoint."""
        return not self.left

    @property
    def left(self) -> int:
        """Number of charged releases that were not begun. They are lost if the run stops."""
        return self._charged.left

    def ready(self) -> bool:
        """Reserve the next block if none is open; False when the run is over.

        Use it as the loop's condition with an adaptive plan: its policy decides here on the next steps, or ends the
        run. Counts are bought here as well. A model whose weights are NaN or infinite is charged for nothing more: no
        step can mend it, and the weights were released, so that stopping tells nothing new.
        """
        if self.between_blocks and not self.finished and not self._diverged():
            self._reserve()
        return not self.between_blocks

    def check(self) -> None:
        """`PrivacyViolation` if anything but a release has changed the model since the last one."""
        self._parts.guard.check()

    def check_result(self, average: nn.Module | None = None) -> None:
        """The same before the result is taken, and `InputError` if the model has diverged, or the average that is
        published in its place. `LedgerError` if the last release cannot be noted."""
        self._note_what_is_left()
        self.check()
        if not (self._parts.guard.finite if average is None else has_finite_weights(average)):
            raise InputError(
                f"the weights are NaN or infinite after {self.position} of {self._parts.plan.charges} charged steps, "
                "so there is no model to publish, and nothing to go on from; in a new run, lower the learning rate, or "
                "begin from smaller weights. What was charged stays charged; no further step was charged"
            )

    def note(self) -> None:
        """Accept the model's present state as released, after an earlier release was restored."""
        self._parts.guard.note()

    @contextmanager
    def step(self) -> Iterator[Batch]:
        """Take one private step: everything inside adds to one clipped sum, which is released at the end.

        Raises `BudgetExhausted` before any data is read when the plan has no step left. An exception inside ends the
        step without a release; its charge stays.
        """
        if not self._free.acquire(blocking=False):
            raise InputError("a step is open; leave it before the next one begins, as steps are released in order")
        try:
            if self.between_blocks:
                self._reserve()
            with self._parts.team.step():
                yield from self._step()
        finally:
            self._free.release()

    def _step(self) -> Iterator[Batch]:
        self.check()
        receipt = self._charged.next()
        try:
            with self._parts.chain.unbroken(), private_step(self._parts, receipt) as batch:
                yield batch
            self._follow(receipt)
        finally:
            self._charged.leave_what_followed()
            self._parts.guard.step_is_over()

    def _follow(self, receipt: Receipt) -> None:
        """Tell the followers of the step, and make the releases that were charged with it."""
        self._choose_step_size()
        self._released(self.position)
        while (due := self._charged.next_metric()) is not None:
            self._take(*due)
        if self.between_blocks:
            self._note_release(replace(receipt, position=self.position - 1))

    def _note_release(self, receipt: Receipt) -> None:
        """Note in the ledger that all up to `receipt` was released. What fails is tried again before the next charge
        and before the result, so that the block can be saved first: its charge stands without the note."""
        self._unnoted = receipt
        with suppress(LedgerError):
            self._note_what_is_left()

    def _note_what_is_left(self) -> None:
        if self._unnoted is not None:
            self.ledger.commit(self._unnoted)
            self._unnoted = None

    def _reserve(self) -> None:
        if self.ended is None:
            team = self._parts.team
            team.together("the check before a charge", self.check_result)
            team.compare(team.tried(self._parts.probe.repeat), self._parts.engine.error)
        self._charged.reserve()

    def _diverged(self) -> bool:
        return not all(self._parts.team.ranks.all_facts("whether weights are finite", self._parts.guard.finite))

    def _choose_step_size(self) -> None:
        """With a line search: choose the step size along the released gradient; it was charged with the step."""
        if self._search is None:
            return
        progress, receipt = self.control.progress, self._charged.next()
        assert progress is not None
        with unwarned(), model_randomness(self._parts.stream, receipt.position):
            chosen = self._search.choose(progress.phases, receipt, self._parts.stream)
        self.check()
        self._search.move(chosen)
        self.note()
        progress.step_size = chosen

    def _buy(self, receipt: Receipt, metric: Metric | None) -> float:
        """The value that an adaptive run bought with a receipt; the purchase is noted in the ledger."""
        value = self._take(self._charged.take(receipt), metric)
        self._note_release(receipt)
        return value

    def _take(self, receipt: Receipt, metric: Metric | None) -> float:
        """The metric, or the count of correct predictions, that `receipt` paid for."""
        self.check()
        with unwarned(), model_randomness(self._parts.stream, receipt.position):
            value = (
                self._count(receipt)
                if metric is None
                else self._private_metrics.buy(metric, receipt, self._parts.stream)
            )
        self.check()
        return value

    def _count(self, receipt: Receipt) -> float:
        run, counts = self._parts, self._parts.plan.counts
        assert counts is not None
        return planned_count(counts, self._pristine, run.data, receipt, run.stream, run.noise)
