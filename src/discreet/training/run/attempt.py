"""An attempt: a start of a run, new or resumed, in one process or in several."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.certificate.earlier_runs import EarlierRun
from discreet.distributed.shared_ledger import SharedLedger
from discreet.distributed.team import Team
from discreet.ledger import Entry
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Stream, SystemStream, attempt_key
from discreet.training.public import warm_starts
from discreet.training.public.extra_rows import PublicSource, declare
from discreet.training.public.inserted_canaries import declare_canaries
from discreet.training.run.answered_queries import check_answered
from discreet.training.run.charges import Charges
from discreet.training.run.opening import Opened, record_of, resumed, started
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.run_options import RunOptions

_log = logging.getLogger("discreet")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A start of a run, in every process: its `number`, the `ledger` that it is charged to, and its randomness."""

    ledger: Charges
    run: str
    number: int
    stream: Stream


@contextmanager
def opened(
    folder: RunFolder,
    plan: Plan | AdaptivePlan,
    options: RunOptions,
    noise: str,
    beside: PublicSource | None,
    canaries: DeclaredCanaries | None,
    earlier: Sequence[EarlierRun],
) -> Iterator[Opened]:
    """The run in the folder, new or resumed. `beside`: public rows that join every step; `canaries`: those among
    the training rows. They must be those that the run began with. `earlier`: runs that it starts from."""
    if not options.resume:
        check_answered(plan, (), noise)  # before anything is made for the run
    with resumed(folder) if options.resume else started(folder, plan, options) as run:
        record = run.ledger.entries(run.run) if options.resume else ()
        check_answered(plan, record, noise)
        declare(folder.path, beside, record)
        declare_canaries(folder.path, canaries, record)
        warm_starts.keep(folder.path, earlier)
        lost = run.ledger.charged_steps(run.run) - len(plan.before)  # queries are answered, and their answers kept
        if run.checkpoint is None and lost > 0:
            some = "the run goes on from its first model, with the steps that are left"
            none = "no step is left either, so the model stays as it was at the start; begin another run"
            _log.warning(
                "%s has no checkpoint: %s; %d charged steps are lost, and stay charged",
                *(folder.path, some if lost < plan.charges - len(plan.before) else none, lost),
            )
        yield run


def record_for_all(team: Team, where: str, run: str, position: int, attempt: int) -> tuple[Entry, ...]:
    """All entries of a run, as `record_of` gives them, in every process."""
    asked = where, run, position, attempt
    told = team.told("the record of the run", lambda: [asdict(entry) for entry in record_of(*asked)])
    return tuple(Entry(**entry) for entry in told)


@contextmanager
def begun(
    team: Team,
    opened: Callable[[], AbstractContextManager[Opened]],
    follow: Callable[[Opened | None], None],
    start: Callable[[Opened], int],
) -> Iterator[Attempt]:
    """A new attempt of the run that `opened` opens in the first process.

    There `start` notes it in the ledger, when all processes go on from the state of the run: `follow` takes it from the
    first to the others, which have not opened the run. They get the key of the attempt, and never that of the run.
    """
    with ExitStack() as stack:
        stack.enter_context(team.open())
        kept: list[Opened] = []

        def begin() -> str:
            kept.append(stack.enter_context(opened()))
            return kept[0].run

        run = team.told("the start of the run", begin)
        follow(kept[0] if team.first else None)
        number = team.told("the attempt", lambda: start(kept[0]))
        if team.lanes is None:
            yield Attempt(kept[0].ledger, run, number, SystemStream.start(kept[0].key, number))
            return
        secret = attempt_key(kept[0].key, number) if team.first else None
        stream = SystemStream.shared(team.ranks.bytes_from_first(secret))
        ledger = kept[0].ledger if team.first else None
        where = "" if ledger is None else ledger.where  # which may hold a password of a database
        yield Attempt(SharedLedger(team.ranks, ledger, where), run, number, stream)
