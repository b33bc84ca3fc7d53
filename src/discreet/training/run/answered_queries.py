"""The queries that a run answers before its first step, charged to the run itself and covered by its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from discreet.clipping.digests import combined_digest, state_digests
from discreet.core.errors import InputError, LedgerError, PrivacyViolation
from discreet.core.events import Event, flatten
from discreet.core.processes import refuse_several_processes
from discreet.ledger import QUERIES, Entry
from discreet.plan import AdaptivePlan, Plan
from discreet.plan.timeline import UNANSWERED
from discreet.queries.charging import Account, Payment
from discreet.randomness import SystemStream
from discreet.training.former import with_former
from discreet.training.run.opening import remove_unbegun, started
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.run_options import RunOptions
from discreet.training.run.trained import randomness_of


@dataclass(frozen=True, slots=True, eq=False)
class RunAccount(Account):
    """The account of queries that are part of a run: the run pays. Only the plan's next queries are charged."""

    run: str = ""
    attempt: int = 0
    planned: tuple[Event, ...] = ()

    def pay(self, event: Event) -> Payment:
        """Charge the queries of `event`, durably, if they are the next of the plan; refused otherwise, uncharged."""
        parts = tuple(part for part, count in flatten(event) for _ in range(count))
        price = self.cost(event)
        receipts = self._ledger.reserve(self.run, self.attempt, lambda charged: self._due(parts, charged))
        return Payment(receipts[-1], self.start(self.attempt), price)

    def _due(self, parts: tuple[Event, ...], charged: int) -> tuple[Event, ...]:
        due = self.planned[charged : charged + len(parts)]
        if parts != due:
            said = f"{', '.join(map(str, due)) or 'no query'} comes next"
            raise PrivacyViolation(
                f"the plan says that {said}, not {', '.join(map(str, parts))}; nothing was charged: put every query "
                "into before, in order, when the plan is made"
            )
        return parts


@contextmanager
def answered_first(
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    run: RunOptions | str | Path | None = None,
    *,
    noise: str = "fast",
    **former: Any,
) -> Iterator[Account]:
    """Open the run of `plan` and yield the account that pays for the queries in `plan.before`, in order.

        with answered_first(plan, model, "run") as account:
            pca = PrivatePCA(60, account=account, noise_multiplier=16).fit(rows)
        rest = RunOptions("run", resume=True)
        trained = Training(plan, model, ..., (pca.transform(rows), targets), run=rest).run()

    The plan is in the ledger before the first query is answered, so nothing of it can depend on an answer. `model`,
    `run` (which names a folder) and `noise` are those of the training. An answer that is lost in a crash stays charged,
    and is not given again. Queries must be about the rows that the run trains on (and holds out), which `Training`
    cannot check.
    """
    if not plan.before:
        raise InputError("the plan has no queries before its first step; give their events with before when making it")
    refuse_several_processes(shared=False)
    (options,) = with_former("answered_first", former, run=RunOptions.of(run))
    whole = plan.with_initial_state(combined_digest(state_digests(model)))
    folder = RunFolder(options.path)
    with started(folder, whole, options) as opened:
        mechanism = {"engine": QUERIES, "noise": noise, "randomness": randomness_of(None)}
        try:
            yield RunAccount(
                opened.ledger,
                plan.delta,
                options.dataset_id,
                plan.adjacency,
                noise,
                start=lambda attempt: SystemStream.start(opened.key, attempt),
                run=opened.run,
                attempt=opened.ledger.start_attempt(opened.run, whole.fingerprint(), mechanism),
                planned=plan.before,
            )
        except BaseException:
            with suppress(LedgerError):  # else it stays
                if opened.ledger.charged_steps(opened.run) == 0:
                    remove_unbegun(folder, options)
            raise


def check_answered(plan: Plan | AdaptivePlan, record: Sequence[Entry], noise: str) -> None:
    """Refuse to train before all queries of the plan are answered, or with other noise than theirs."""
    if not plan.before:
        return
    attempts = [entry.content for entry in record if entry.kind == "attempt"]
    charged = sum(entry.steps for entry in record if entry.kind == "reservation")
    if charged < len(plan.before) or not attempts or attempts[0].get("engine") != QUERIES:
        raise PrivacyViolation(UNANSWERED)
    if attempts[0].get("noise") != noise:
        raise InputError(f"the queries before were answered with noise {attempts[0].get('noise')!r}, not {noise!r}")
