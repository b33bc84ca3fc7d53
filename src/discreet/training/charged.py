"""Charged releases that are not taken yet: steps, and the metrics and choices between them."""

from __future__ import annotations

from collections import deque

from discreet.core.errors import BudgetExhausted
from discreet.core.guarantee import ExPost
from discreet.core.release import Receipt
from discreet.ledger import NextEvents
from discreet.plan import Metric
from discreet.training.control.controller import Control
from discreet.training.control.odometer_monitor import OdometerMonitor
from discreet.training.run.charges import Charges


class Charged:
    """The receipts of a run, block by block: its control decides, its odometer allows and its ledger grants them.

    `position` counts the charged releases that are over, taken or lost.
    """

    def __init__(
        self, ledger: Charges, run: str, attempt: int, control: Control, odometer: OdometerMonitor | None
    ) -> None:
        self._ledger, self._run_name, self._attempt = ledger, run, attempt
        self._control, self._odometer = control, odometer
        self.position = ledger.charged_steps(run)
        self._receipts: deque[Receipt] = deque()
        self._unsure = False

    @property
    def left(self) -> int:
        """Number of charged releases that were not begun. They are lost if the run stops."""
        return len(self._receipts)

    @property
    def reading(self) -> ExPost | None:
        """The odometer's reading of everything charged; None without an odometer. It is ex post, and no guarantee."""
        self._catch_up()
        return None if self._odometer is None else self._odometer.reading

    @property
    def ended(self) -> str | None:
        """Why the run was ended; None while it goes on."""
        return self._control.ended

    def reserve(self) -> None:
        """Charge the next block, if there is one."""
        if self.ended is None:
            self._catch_up()
            try:
                self._receipts.extend(self._control.reserve(self._charge, self.position))
            except BaseException:
                self._unsure = True
                raise

    def next(self) -> Receipt:
        """The receipt of the next step, or of the choice of its size; `BudgetExhausted` if there is none."""
        if not self.left:
            raise BudgetExhausted(
                f"the run is over: {self.ended}; nothing more may be released; in a loop of your own, `while "
                "session.ready():` ends with the run"
            )
        return self.take(self._receipts.popleft())

    def next_metric(self) -> tuple[Receipt, Metric] | None:
        """The private metric to buy before the next step, with its receipt; None if there is none."""
        metric = self._control.metric_at(self._receipts[0]) if self._receipts else None
        return None if metric is None else (self.take(self._receipts.popleft()), metric)

    def take(self, receipt: Receipt) -> Receipt:
        """Take `receipt`: its release begins now and counts as over, whatever happens."""
        self.position = receipt.position + 1
        return receipt

    def leave_what_followed(self) -> None:
        """Skip the metrics and choices charged with a step that was interrupted: they cannot pay for another one."""
        while self._receipts and not self._control.pays_for_a_step(self._receipts[0]):
            self.take(self._receipts.popleft())

    def _charge(self, next_events: NextEvents) -> tuple[Receipt, ...]:
        """Charge the events of `next_events` that the odometer allows."""
        odometer = self._odometer
        if odometer is None:
            return self._ledger.reserve(self._run_name, self._attempt, next_events)
        receipts = self._ledger.reserve(
            self._run_name, self._attempt, lambda charged: odometer.fitting(next_events(charged))
        )
        odometer.charge(receipt.event for receipt in receipts if receipt.index == 0)
        return receipts

    def _catch_up(self) -> None:
        """After a charge that failed, ask the ledger: it stands if only the answer of the database was lost. Nobody has
        its receipts, so that its block is lost."""
        if self._unsure:
            self.position = self._ledger.charged_steps(self._run_name)
            if self._odometer is not None:
                self._odometer.count_anew(self._ledger.spent(self._run_name))
            self._unsure = False
