"""`Training`: a plan, a model and data, put together and checked before anything is charged."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import Criterion, private_parameters, training_mode
from discreet.clipping.digests import check_unchanged, combined_digest, hidden_digests, state_digests
from discreet.clipping.geometry import Geometry
from discreet.core.errors import InputError, Interrupted, PrivacyViolation
from discreet.data import as_private, as_public
from discreet.ledger import Entry
from discreet.methods import Averaging
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Stream, SystemStream
from discreet.training.callbacks.base import Callback, telling
from discreet.training.callbacks.progress_bar import progress_bar
from discreet.training.clip_state import Clipping
from discreet.training.control.controller import Progress
from discreet.training.control.step_size_search import check_search, search_of
from discreet.training.drawing import Draws
from discreet.training.guard import Guard
from discreet.training.preflight.data_check import check_public, try_every_row
from discreet.training.preflight.engine_check import try_engines
from discreet.training.preflight.engine_options import AUTO, EngineOptions, as_started
from discreet.training.preflight.model_check import admit
from discreet.training.preflight.noise_check import noise_named, with_noise
from discreet.training.preflight.plan_check import check_optimizer, check_plan, parted
from discreet.training.preflight.watching import with_rows_apart
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics
from discreet.training.public.early_stopping import EarlyStopping
from discreet.training.public.extra_rows import PublicBatches, PublicSource, check_beside, check_declared, keep_declared
from discreet.training.public.monitor import Watch, every_so_often
from discreet.training.public.public_copy import PublicCopy, copied
from discreet.training.run.answered_queries import check_answered
from discreet.training.run.charges import Charges
from discreet.training.run.checkpoint import Checkpoint, save_checkpoint
from discreet.training.run.opening import Opened, check_place, record_of, resumed, started, with_slack_of
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.signals import stop_requests, stopped
from discreet.training.run.trained import Evaluation, Mechanism, Trained, randomness_of
from discreet.training.session import Session
from discreet.training.step import Run
from discreet.training.unit_failures import FailureProbe, random_unit


class Training:
    """Private training of `model` on `data` under `plan`.

    - `criterion(output, target)`: a loss as in torch.nn; it sees one example at a time.
    - `optimizer`: any of torch.optim but LBFGS, over exactly the parameters that require a gradient.
    - `data`: a pair of tensors or arrays, a map-style data set of (input, target) pairs, `Columns` of a frame or a data
      set, or `Augmented` data. Private.
    - `units`: with a plan for unit="user", whose each row is: a tensor, an array or a list of whole numbers or text.
    - `ids`: with a plan that holds rows out, the name of each row: the same whatever other rows there are.
    - `public_test`, `public_validation`: pairs of tensors or arrays declared public; metrics on them are shown and
      published. The latter is what policies and early stopping look at.
    - `run_dir`: a new folder for the key of the noise, checkpoints and the ledger; nothing in it is for publishing.
    - `resume`: go on with the run in `run_dir`, in a new attempt with randomness of its own; also with one that has
      answered the queries before its first step (`answered_first`).
    - `ledger`, `dataset_id`: a ledger (path or postgresql://...) shared by all runs on a data set, and the data set's
      name in it; if it has a budget there, the run must fit. By default the run has a ledger of its own.
    - `geometry`: what gives the scales of a plan that clips in an ellipsoid or a box (`clipping.geometry`). Public.
    - `engine`: "auto", the fastest of "bookkeeping", "ghost" and "vmap" that works; "exact", slower, whose sums need no
      assumption on rounding; "reference" for debugging. `preflight.line` says which, and how it and the noise were
      checked; it is logged (logger "discreet", INFO) when a session is opened.
    - `noise`: "fast", or "exact", slower, which assumes nothing but random bits.
    - `physical_batch`: examples per chunk, for memory only; a user's rows in a step are not parted.
    - `scheduler`: stepped after every step. `averaging`: evaluate and publish the average of iterates, not the last.
    - `public`: rows declared public whose exact mean gradient joins every step, with a weight (`PublicBatches`).
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
        ids: object = None,
        public_test: tuple[Tensor, Tensor] | None = None,
        public_validation: tuple[Tensor, Tensor] | None = None,
        run_dir: str | Path | None = None,
        resume: bool = False,
        ledger: str | Path | None = None,
        dataset_id: str = "",
        geometry: Geometry | None = None,
        engine: str | EngineOptions = AUTO,
        noise: str = "fast",
        physical_batch: int | None = None,
        scheduler: LRScheduler | None = None,
        averaging: Averaging | None = None,
        stream: Stream | None = None,
        on_open: Callable[[], None] | None = None,
        public: PublicBatches | None = None,
    ) -> None:
        if isinstance(plan, Plan) and plan.search is not None:
            raise InputError("the plan searches for settings, in several runs; give it to Tuning (discreet tune)")
        check_place(ledger, dataset_id, run_dir, resume=resume)
        self.model, self.criterion, self.optimizer, self.scheduler = model, criterion, optimizer, scheduler
        self.noise, self._parts = noise_named(noise), parted(as_private(data), units, ids, plan)
        self.data, self.given = self._parts.training, data
        self.data.check_size(*plan.sampling.sizes(plan.population))
        admit(model, optimizer, self.data)
        self.data = with_rows_apart(self.data, model)
        self.clipping = Clipping(plan.clipping, private_parameters(model), geometry)
        self.initial, self._hidden = state_digests(model), hidden_digests(model)
        self.copy = PublicCopy.made(model, criterion, (self.initial, self._hidden))  # before a private row is seen
        self._beside = PublicSource.made(public, self.copy)
        seen, loss = copied(model, criterion)  # what a model makes of its first rows does not stay
        classes = try_every_row(seen, loss, self.data)
        self._refuse_changed_model(seen, "changed when it was called; initialise it on public input first")
        engine = as_started(engine, run_dir) if resume else engine
        given = classes, plan.rows_per_unit, self.clipping.rehearsed(), physical_batch
        self.preflight = try_engines(engine, self.copy.model, self.copy.criterion, self.data, *given)
        self.engine = self.preflight.engine
        check_public({"public_test": public_test, "public_validation": public_validation}, classes, data, self.copy)
        check_beside(self._beside, plan, optimizer, classes, data)
        check_plan(plan, model, criterion, self._parts, public_validation is not None)
        check_search(plan, optimizer, model, criterion, self.data, classes, self.engine)
        check_optimizer(optimizer, plan, scheduler)
        self.preflight = with_noise(self.preflight, plan, model, self.clipping, self.noise)
        self.plan = plan.with_initial_state(combined_digest(self.initial))
        self._stream, self._unit = stream, random_unit(self.copy.model, self.data, classes, plan.rows_per_unit)
        self.folder = RunFolder(Path(run_dir or f"discreet-runs/{secrets.token_hex(4)}"))
        self._resume, self._ledger, self._dataset_id, self._on_open = resume, ledger, dataset_id, on_open
        self.watch = Watch(self.copy, as_public(public_test), as_public(public_validation), averaging)
        self._progress = Progress([])

    @property
    def evaluations(self) -> list[Evaluation]:
        """Metrics on the public data so far."""
        return self.watch.evaluations

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
        self._refuse_changed_model(self.model, "was changed since this Training was made; make a new one")
        with self._opened() as opened:
            run, ledger = opened.run, opened.ledger
            attempt = ledger.start_attempt(run, self.plan.fingerprint(), self.mechanism.as_dict())
            self.preflight.report()
            yield self.over(ledger, run, attempt, self._stream or SystemStream.start(opened.key, attempt))

    def over(self, ledger: Charges, run: str, attempt: int, stream: Stream) -> Session:
        """A session whose charges are in `ledger`; `session` opens one for a run of its own."""
        watch, asked, parameters = self.watch, (self.watch.asked, self.copy.criterion), private_parameters(self.model)
        chunk, noise = self.preflight.chunk, self.noise
        training_mode(self.model)
        working = Run(
            plan=self.plan,
            model=self.model,
            parameters=parameters,
            optimizer=self.optimizer,
            data=self.data,
            draws=Draws(self.data, stream, self.plan.rows_per_unit, chunk),
            engine=self.engine,
            clipping=self.clipping,
            noise=noise,
            stream=stream,
            guard=Guard(self.model, self.initial, self._hidden),
            probe=FailureProbe(self.engine, self.model, self.criterion, self._unit),
            public=self._beside,
        )
        return Session(
            working,
            ledger,
            run,
            attempt,
            private_metrics=PrivateMetrics(self.plan, *asked, self._parts, noise, watch.note, watch.bought),
            pristine=self.copy.model,
            progress=self._progress,
            metrics=watch.validated,
            released=watch.released,
            search=search_of(
                *(self.plan, self.model, self.criterion, self.optimizer, self.data),
                *(self.engine, chunk, self.copy),
            ),
        )

    def run(
        self,
        *,
        evaluate_every: int | None = None,
        progress: bool | None = None,
        early: EarlyStopping | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Trained:
        """Take every step of the plan, or what an adaptive one comes to, and return what can be published.

        `evaluate_every`: steps between evaluations on the public data; by default about twenty in all.
        `progress`: show a bar; by default if standard error is a terminal.
        `early`: stop early, or keep the best model, by public or bought metrics; the last evaluation is then that of
        the model that is kept.
        `callbacks`: told after every step what is public or was released (`training.callbacks`).

        Ctrl-C and SIGTERM stop the run between two steps, with a checkpoint, as `Interrupted`.
        """
        epsilon, every = self.plan.guarantee().epsilon, every_so_often(self.plan.charges, evaluate_every)
        with (
            self.session() as session,
            stop_requests() as stop,
            progress_bar(self.plan.charges, epsilon, show=progress) as advance,
            telling(callbacks, self.plan, self.watch) as tell,
        ):

            def after_step() -> None:
                advance(session.position, self.evaluations[-1] if self.evaluations else None, self.clipping.shown())
                tell(session.position)
                signal = stop()
                if session.between_blocks or signal is not None:
                    self.save(session)
                if signal is not None and not session.finished:
                    raise Interrupted(stopped(session.position, self.plan.charges, self.folder.path), signal)

            self.take_steps(session, after_step, every, early)
            tell(session.position)
            return self.result(session)

    def take_steps(
        self, session: Session, after_step: Callable[[], None], every: int, early: EarlyStopping | None
    ) -> None:
        """The loop of `run` over an open session, with an evaluation `every` so many steps."""
        self.watch.follow(early, {metric.name for metric in self.plan.metrics})
        while not self.watch.enough and session.ready():
            with session.step() as step:
                step.add_all(self.criterion)
            if self.scheduler is not None:
                self.scheduler.step()
            if self.watch.due(session.position, every) or session.finished:
                self.watch.look(session.position)
            after_step()
        session.check()
        self.watch.settle(session.position)
        session.note()

    def save(self, session: Session) -> None:
        """Write a checkpoint of what was released so far; as `result` it refuses a model that was changed otherwise."""
        session.check()
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        progress = None if session.control.progress is None else session.control.progress.as_dict()
        states = self.model.state_dict(), self.optimizer.state_dict(), scheduler
        kept = {"progress": progress, "clipping": self.clipping.state_dict(), **self.watch.kept()}
        save_checkpoint(self.folder.checkpoint, Checkpoint(session.run, session.position, *states, **kept))

    def result(self, session: Session) -> Trained:
        """What a session has trained, for `publish`, also before its last step; refused if changed by anything else."""
        session.check()
        check_unchanged(self.model, self.initial, self._hidden)
        entries = record_of(session.ledger.where, session.run, session.position)
        return self.trained(entries, ended=session.ended)

    def trained(self, entries: tuple[Entry, ...], ended: str | None = None) -> Trained:
        """What was trained, for which the ledger holds `entries`."""
        self.model.eval()
        return Trained(
            model=self.watch.published.eval(),
            plan=self.plan,
            entries=entries,
            mechanism=self.mechanism,
            initial=self.initial,
            final=state_digests(self.watch.published),
            secrets=(self.folder.key, self.folder.checkpoint),
            evaluations=tuple(self.evaluations),
            bought=tuple(self.watch.bought),
            ended=ended,
            released=self.folder.released(),
            public=None if self._beside is None else self._beside.unchanged(),
        )

    @property
    def mechanism(self) -> Mechanism:
        """What carries the plan out."""
        engine, noise = self.engine, self.noise
        assumptions = (noise.assumption, engine.assumption)
        return Mechanism(engine.name, engine.float_bits, noise.name, randomness_of(self._stream), assumptions)

    def _refuse_changed_model(self, model: nn.Module, why: str) -> None:
        """The state a run starts from is declared public, so it must be the one that was looked at first."""
        if (state_digests(model), hidden_digests(model)) != (self.initial, self._hidden):
            raise PrivacyViolation(f"the model {why}")

    @contextmanager
    def _opened(self) -> Iterator[Opened]:
        """The run, new or resumed, with everything as its last checkpoint has it."""
        if not self._resume:
            check_answered(self.plan, (), self.noise.name)
            with started(self.folder, self.plan, self._ledger, self._dataset_id, self._on_open) as opened:
                keep_declared(self.folder.path, self._beside)
                yield opened
            return
        with resumed(self.folder) as (opened, checkpoint):
            record = opened.ledger.entries(opened.run)
            check_answered(self.plan, record, self.noise.name)
            check_declared(self.folder.path, self._beside, record)
            self.engine = with_slack_of(self.engine, record)
            if checkpoint is not None:
                self._restore(checkpoint)
            yield opened

    def _restore(self, checkpoint: Checkpoint) -> None:
        checkpoint.restore(self.model, self.optimizer, self.scheduler)
        self.watch.restore(checkpoint)
        self.clipping.load_state_dict(checkpoint.clipping or {})
        if checkpoint.progress is not None:
            self._progress = Progress.from_dict(checkpoint.progress)
