"""`Training`: a plan, a model and data, put together and checked before anything is charged."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import Criterion, admit_model, admit_optimizer
from discreet.clipping.state import check_unchanged, combined_digest, hidden_digests, state_digests
from discreet.core import checks
from discreet.core.errors import InputError, Interrupted, LedgerError, PrivacyViolation
from discreet.data import as_private
from discreet.ledger import Entry, Ledger
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import NOISE_SAMPLERS, Stream, SystemStream
from discreet.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from discreet.training.control import Progress
from discreet.training.early import EarlyStopping
from discreet.training.engine_options import AUTO, EngineOptions, as_started
from discreet.training.feasible import check_plan, grouped
from discreet.training.guard import Guard
from discreet.training.progress import progress_bar
from discreet.training.rehearsal import rehearse
from discreet.training.run_folder import RunFolder
from discreet.training.session import Session
from discreet.training.stopping import stop_requests
from discreet.training.trained import Evaluation, Mechanism, Trained, randomness_of
from discreet.training.trial import check_public, try_every_row
from discreet.training.watch import Watch

T = TypeVar("T")


class Training:
    """Private training of `model` on `data` under `plan`.

    - `criterion(output, target)`: a loss as in torch.nn; it sees one example at a time.
    - `optimizer`: any of torch.optim but LBFGS, over exactly the parameters that require a gradient.
    - `data`: a pair of tensors or a map-style data set of (input, target) pairs. Private.
    - `units`: with a plan for unit="user", whose each row is: a tensor, an array or a list of whole numbers or text.
    - `public_test`, `public_validation`: pairs of tensors declared public; metrics on them are shown and published. The
      latter is what policies and early stopping look at.
    - `run_dir`: a new folder for the key of the noise, checkpoints and the ledger; nothing in it is for publishing.
    - `resume`: go on with the run in `run_dir`, in a new attempt with randomness of its own.
    - `ledger`, `dataset_id`: a ledger (path or postgresql://...) shared by all runs on a data set, and the data set's
      name in it; if it has a budget there, the run must fit. By default the run has a ledger of its own.
    - `engine`: "auto", the fastest of "bookkeeping", "ghost" and "vmap" that works; "exact", slower, whose sums need no
      assumption on rounding; "reference" for debugging. `rehearsal.line` says which, and how it was checked.
    - `noise`: "fast", or "exact", slower, which assumes nothing but random bits.
    - `physical_batch`: examples per chunk, for memory only; a user's rows in a step are not parted.
    - `scheduler`: stepped after every step.
    - `on_open`: called once the run folder of a new run is there, to put something beside the run.

    Everything is checked here, so a mistake costs no privacy: nothing is charged before the first step.
    """

    def __init__(
        self,
        plan: Plan | AdaptivePlan,
        model: nn.Module,
        criterion: Criterion,
        optimizer: torch.optim.Optimizer,
        data: object,
        *,
        units: object = None,
        public_test: tuple[Tensor, Tensor] | None = None,
        public_validation: tuple[Tensor, Tensor] | None = None,
        run_dir: str | Path | None = None,
        resume: bool = False,
        ledger: str | Path | None = None,
        dataset_id: str = "",
        engine: str | EngineOptions = AUTO,
        noise: str = "fast",
        physical_batch: int | None = None,
        scheduler: LRScheduler | None = None,
        stream: Stream | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> None:
        self.noise = _entry("noise", noise, NOISE_SAMPLERS)
        admit_model(model)
        admit_optimizer(optimizer, model)
        self.model, self.criterion, self.optimizer, self.scheduler = model, criterion, optimizer, scheduler
        self.data = grouped(as_private(data), units, plan)
        self.data.check_size(*plan.sampling.sizes(plan.population))
        if any(float(state.get("step", 1)) > 0 for state in optimizer.state.values()):
            raise InputError("the optimizer was used before and remembers gradients; make a new one for the run")
        self.initial, self._hidden = state_digests(model), hidden_digests(model)
        classes = try_every_row(model, criterion, self.data)
        self._refuse_changed_model("changed when it was called; initialise it on public input first")
        engine = as_started(engine, run_dir) if resume else engine
        self.rehearsal = rehearse(engine, model, criterion, self.data, classes, plan.rows_per_unit, physical_batch)
        self.engine = self.rehearsal.engine
        for name, public in (("public_test", public_test), ("public_validation", public_validation)):
            if public is not None:
                check_public(name, public, classes, data)
        check_plan(plan, model, self.data, public_validation is not None)
        self.plan = plan.with_initial_state(combined_digest(self.initial))
        self._stream = stream
        if resume and run_dir is None:
            raise InputError("resume=True needs the run_dir of the run to go on with")
        self.folder = RunFolder(Path(run_dir or f"discreet-runs/{secrets.token_hex(4)}"))
        self._resume, self._ledger, self._dataset_id = resume, ledger, dataset_id
        self._on_open = on_open
        if dataset_id and ledger is None and not resume:
            raise InputError("a data set's budget is kept in a ledger that its runs share; give ledger (--ledger)")
        self._watch = Watch(model, criterion, public_test, public_validation)
        self._progress = Progress([])

    @property
    def evaluations(self) -> list[Evaluation]:
        """Metrics on the public data so far."""
        return self._watch.evaluations

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open the run for a loop of your own; `Session.step` is the primitive.

            with training.session() as session:
                while not session.finished:
                    with session.step() as step:
                        for chunk in step.chunks:
                            step.add(criterion, chunk)
            trained = training.result(session)

        Over an `AdaptivePlan` the condition is `session.ready()`, which asks the policy and reserves the next block.
        Call `training.save(session)` when `session.between_blocks` if the run shall survive a crash.
        """
        self._refuse_changed_model("was changed since this Training was made; make a new one")
        key, run, ledger = self._resumed() if self._resume else self._opened()
        try:
            randomness = randomness_of(self._stream)
            mechanism = {
                "engine": self.engine.name,
                "float_bits": self.engine.float_bits,
                "noise": self.noise.name,
                "randomness": randomness,
            }
            attempt = ledger.start_attempt(run, self.plan.fingerprint(), mechanism)
            self.model.train()
            yield Session(
                self.plan,
                self.model,
                self.optimizer,
                self.data,
                engine=self.engine,
                noise=self.noise,
                ledger=ledger,
                run=run,
                attempt=attempt,
                stream=self._stream or SystemStream.start(key, attempt),
                physical_batch=self.rehearsal.chunk,
                guard=Guard(self.model, self.initial, self._hidden),
                progress=self._progress,
                metrics=self._watch.validated,
            )
        finally:
            ledger.close()

    def run(
        self,
        *,
        evaluate_every: int | None = None,
        progress: bool | None = None,
        early: EarlyStopping | None = None,
    ) -> Trained:
        """Take every step of the plan, or what an adaptive one comes to, and return what can be published.

        `evaluate_every`: steps between evaluations on the public data; by default about twenty in all.
        `progress`: show a bar; by default if standard error is a terminal.
        `early`: stop early, or keep the best model, by public metrics; the last evaluation is then that of the model
        that is kept.

        Ctrl-C and SIGTERM stop the run between two steps, with a checkpoint, as `Interrupted`.
        """
        steps = self.plan.steps
        every = max(1, steps // 20) if evaluate_every is None else checks.count("evaluate_every", evaluate_every)
        epsilon = self.plan.guarantee().epsilon
        with (
            self.session() as session,
            stop_requests() as stop,
            progress_bar(steps, epsilon, show=progress) as advance,
        ):
            enough = self._watch.enough(early)
            while not enough and session.ready():
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(self.criterion, chunk)
                if self.scheduler is not None:
                    self.scheduler.step()
                if self._watch.due(session.position, every) or session.finished:
                    enough = self._watch.look(session.position, early)
                advance(session.position, self.evaluations[-1] if self.evaluations else None)
                signal = stop()
                if session.between_blocks or signal is not None:
                    self.save(session)
                if signal is not None and not session.finished:
                    raise Interrupted(self._stopped(session), signal)
            self._watch.settle(session.position, early)
            return self.result(session)

    def save(self, session: Session) -> None:
        """Write a checkpoint of what was released so far."""
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        save_checkpoint(
            self.folder.checkpoint,
            Checkpoint(
                session.run,
                session.position,
                self.model.state_dict(),
                self.optimizer.state_dict(),
                scheduler,
                tuple(self.evaluations),
                None if session.control is None else session.control.progress.as_dict(),
                self._watch.best,
            ),
        )

    def result(self, session: Session) -> Trained:
        """What a session has trained, ready for `publish`; also before all steps are taken."""
        check_unchanged(self.model, self.initial, self._hidden)
        ledger = Ledger(session.ledger.where, create=False)
        try:
            entries = tuple(ledger.entries(session.run))
            if not ledger.charged_steps(session.run) >= session.position:
                raise LedgerError(f"the ledger {ledger.shown} has lost charges of this run; restore the newest copy")
        finally:
            ledger.close()
        assumptions = (self.noise.assumption, self.engine.assumption)
        return Trained(
            model=self.model.eval(),
            plan=self.plan,
            entries=entries,
            mechanism=Mechanism(
                self.engine.name, self.engine.float_bits, self.noise.name, randomness_of(self._stream), assumptions
            ),
            initial=self.initial,
            final=state_digests(self.model),
            secrets=(self.folder.key, self.folder.checkpoint),
            evaluations=tuple(self.evaluations),
        )

    def _refuse_changed_model(self, why: str) -> None:
        """The state a run starts from is declared public, so it must be the one that was looked at first."""
        if (state_digests(self.model), hidden_digests(self.model)) != (self.initial, self._hidden):
            raise PrivacyViolation(f"the model {why}")

    def _opened(self) -> tuple[bytes, str, Ledger]:
        """A new run: its folder, its key, its place in the ledger."""
        key = self.folder.create()
        try:
            if self._on_open is not None:
                self._on_open()
            ledger = Ledger(self._ledger or self.folder.ledger)
            try:
                run = ledger.open_run(
                    self.plan.fingerprint(), self.plan.guarantee(), self._dataset_id, self.plan.own_filter
                )
            except BaseException:
                ledger.close()
                raise
        except BaseException:
            shutil.rmtree(self.folder.path)  # nothing was charged, so nothing in it is worth keeping
            raise
        self.folder.remember(run, ledger.where)
        return key, run, ledger

    def _resumed(self) -> tuple[bytes, str, Ledger]:
        """The run in the folder, with the state of its last checkpoint."""
        key, run, where = self.folder.recall()
        ledger = Ledger(where, create=False)
        try:
            ledger.verify()
            self._as_started(ledger.entries(run))
            checkpoint = load_checkpoint(self.folder.checkpoint)
            if checkpoint is not None:
                self._restore(checkpoint, run, ledger)
        except BaseException:
            ledger.close()
            raise
        return key, run, ledger

    def _as_started(self, record: Sequence[Entry]) -> None:
        """Keep the float slack of the first attempt: measured again, it may come out a bit larger or smaller."""
        bits = next((entry.content.get("float_bits") for entry in record if entry.kind == "attempt"), None)
        if isinstance(bits, int) and self.engine.float_bits is not None and abs(bits - self.engine.float_bits) <= 1:
            self.engine = replace(self.engine, float_bits=bits)

    def _restore(self, checkpoint: Checkpoint, run: str, ledger: Ledger) -> None:
        charged = ledger.charged_steps(run)
        if checkpoint.run != run or checkpoint.position > charged:
            raise LedgerError(
                f"the checkpoint has {checkpoint.position} steps but the ledger {ledger.shown} charged {charged} for "
                "the run: the ledger is an older copy; restore the newest one, nothing was released"
            )
        checkpoint.restore(self.model, self.optimizer, self.scheduler)
        self._watch.evaluations, self._watch.best = list(checkpoint.evaluations), checkpoint.best
        if checkpoint.progress is not None:
            self._progress = Progress.from_dict(checkpoint.progress)

    def _stopped(self, session: Session) -> str:
        return (
            f"stopped after step {session.position} of {self.plan.steps}; go on with --resume {self.folder.path}, or "
            f"publish what there is with --resume {self.folder.path} --finish"
        )


def _entry(what: str, name: str, table: Mapping[str, T]) -> T:
    if name not in table:
        raise InputError(f"unknown {what} {name!r}; known: {', '.join(table)}")
    return table[name]
