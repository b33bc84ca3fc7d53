"""`Training`: a plan, a model and data, put together and checked before anything is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import Criterion, private_parameters, refuse_used_optimizer, training_mode
from discreet.clipping.digests import check_unchanged, state_digests
from discreet.clipping.geometry import Geometry
from discreet.distributed.team import Team
from discreet.ledger import Entry
from discreet.mechanism import Chain
from discreet.methods import Averaging
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Stream
from discreet.training.callbacks.base import Callbacks, as_callbacks, telling
from discreet.training.callbacks.progress_bar import progress_bar
from discreet.training.checklist import checked, refuse_changed, refuse_frozen
from discreet.training.control.step_size_search import step_size_search_of
from discreet.training.drawing import Draws
from discreet.training.former import former_name, with_former
from discreet.training.guard import Guard
from discreet.training.individual_filter import filter_of
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.preflight.ingredients import Ingredients
from discreet.training.preflight.plan_check import warn_of_a_still_scheduler
from discreet.training.private_metrics.noisy_metrics import PrivateMetrics
from discreet.training.public.early_stopping import EarlyStopping
from discreet.training.public.extra_rows import PublicBatches
from discreet.training.public.monitor import Watch, every_so_often
from discreet.training.public.public_data import PublicData
from discreet.training.public.warm_starts import others, remember, remember_left
from discreet.training.run.agreement import agreed
from discreet.training.run.attempt import begun, opened, record_for_all
from discreet.training.run.charges import Charges
from discreet.training.run.checkpoint import read_checkpoint, save_checkpoint
from discreet.training.run.opening import Opened, as_begun, with_slack_of
from discreet.training.run.run_folder import RunFolder, new_name
from discreet.training.run.run_options import RunOptions
from discreet.training.run.saved_state import SavedState
from discreet.training.run.signals import stop_requests, stopped
from discreet.training.run.trained import Evaluation, Mechanism, Trained, randomness_of
from discreet.training.session import Session
from discreet.training.sharded.sharded_run import ShardedRun, shardable
from discreet.training.step import Run
from discreet.training.unit_failures import FailureProbe


class Training:
    """Private training of `model` on `data` under `plan`.

    - `criterion(output, target)`: a loss as in torch.nn; it sees one example at a time.
    - `optimizer`: any of torch.optim but LBFGS, over exactly the parameters that require a gradient.
    - `data`: a pair of tensors or arrays, a map-style data set of (input, target) pairs, `Columns` of a frame or a data
      set, `Augmented` data, or `Sites` where no process has all rows. Private.
    - `units`: with a plan for unit="user", the user of each row: a tensor, an array or a list of whole numbers or text.
    - `ids`: with a plan that holds single rows out, an identifier of each that does not depend on other rows.
    - `public`: rows declared public: `PublicData`, or `PublicBatches` alone.
    - `run`: the run's folder, or `RunOptions`: resuming, a shared ledger.
    - `engine`: "auto", the fastest of "bookkeeping", "ghost" and "vmap" that works; "exact", slower, whose sums need no
      assumption on rounding; "reference" for debugging; or `EngineOptions`. `preflight.line` says which, and how it and
      the noise were checked; it is logged (logger "discreet", DEBUG) when a session is opened.
    - `geometry`: the source of the scales of ellipsoid or box clipping (`clipping.geometry`). Public.
    - `scheduler`: stepped by `run` after every step; in a loop of your own, by you. `averaging`: publish the average.
    - `shard`: several processes (torchrun) take the steps together and run the same program (docs/distributed.md).
      "replicate": each has the whole model; "fully": each keeps a part of it.

    Everything is checked here (`training.checklist`), so a mistake costs no privacy: nothing is charged before the
    first step.
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
        public: PublicData | PublicBatches | None = None,
        run: RunOptions | str | Path | None = None,
        engine: str | EngineOptions = AUTO,
        geometry: Geometry | None = None,
        scheduler: LRScheduler | None = None,
        averaging: Averaging | None = None,
        shard: str | None = None,
        **former: Any,
    ) -> None:
        records = {"public": PublicData.of(public), "run": RunOptions.of(run), "engine": EngineOptions.of(engine)}
        declared, where, how = with_former("Training", former, **records)
        where.check()
        self.team = Team.of(shard, where.lanes, data)
        how = as_begun(self.team, where, how) if where.resume else how
        how = shardable(self.team, how, plan, model, optimizer, declared, averaging)
        self.model, self.criterion, self.optimizer, self.scheduler = model, criterion, optimizer, scheduler
        given = plan, model, criterion, optimizer, (data, units, ids), declared, geometry, scheduler, averaging
        found = agreed(self.team, plan, how, randomness_of(where.stream), partial(checked, *given))
        self.plan, self.data, self.clipping, self.copy = found.plan, found.data, found.clipping, found.copy
        self.preflight, self.engine, self.noise = found.preflight, found.preflight.engine, found.noise
        self.earlier = found.earlier
        self._checked, self._where, self._public = found, where, (found.beside, found.canaries)
        how = replace(how, name=self.engine.name)
        self.made_of = Ingredients(self.plan, model, criterion, optimizer, data, declared, how, geometry)
        self.folder = RunFolder(Path(where.folder or self.team.told("a new run folder", new_name)))
        self._kept = self.folder.individual if where.keep_spent else None
        filter_of(self.plan, len(self.data), self._kept)  # an error now, not after a charge
        self._shared_out = ShardedRun(self.team, model, optimizer, found.preflight.proved)
        self.watch = Watch(found.copy, declared, averaging, found.front, self.team, self._shared_out.whole)
        self._state = SavedState(model, optimizer, scheduler, self.clipping, self.watch)

    rehearsal = former_name("Training.rehearsal", "preflight")

    def __repr__(self) -> str:
        how = f"engine {self.engine.name}, folder {self.folder.path}"
        return f"<Training: {self.plan.steps} steps, {self.plan.guarantee()}; {how}>"

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
        declared, message = self._checked.declared, self.folder.model_moved
        self.team.together("the parameters of a session", lambda: refuse_frozen(self.model, self._checked.trained))
        self.team.together("the start of a session", lambda: refuse_changed(self.model, declared, message))
        self.team.together("the optimizer of a session", lambda: refuse_used_optimizer(self.optimizer))
        self.team.together("a look at what checkpoints keep", self._state.check)
        try:
            with begun(self.team, self._opened, self._follow, self._start_attempt) as one:
                self.preflight.report()
                yield self.over(one.ledger, one.run, one.number, self._where.stream or one.stream)
        finally:
            if not self.team.sharded:
                remember_left(self.folder, self.model, declared[0], self.plan, self.mechanism)

    def over(self, ledger: Charges, run: str, attempt: int, stream: Stream) -> Session:
        """A session whose charges are in `ledger`; `session` opens one with its own run."""
        watch, asked = self.watch, (self.watch.queried_model, self.copy.criterion)
        chunk, noise, front, parts = self.preflight.chunk, self.noise, self._checked.front, self._checked.parts
        training_mode(self.model)
        self.model.zero_grad(set_to_none=True)  # what a pass on public rows left before the run
        model, parameters = front.behind(self.model), private_parameters(self.model)
        working = Run(
            plan=self.plan,
            model=model,
            parameters=parameters,
            optimizer=self.optimizer,
            data=self.data,
            draws=Draws(self.plan, self.data, stream, chunk, self.team.lanes),
            engine=self.engine,
            clipping=self.clipping,
            noise=noise,
            stream=stream,
            guard=Guard(self.model, *self._checked.declared),
            probe=FailureProbe(self.preflight, model, self.criterion, self._checked.unit),
            public=self._checked.beside,
            chain=Chain(self.plan.sampling.strategy),
            filter=filter_of(self.plan, len(self.data), self._kept),
            ahead=any(one.device.type != "cpu" for one in parameters.values()),
            team=self.team,
        )
        working, checked = self._shared_out.begin(working, self._checked, self.made_of.engine, self.criterion)
        self.engine, self.preflight, self._checked = working.engine, checked.preflight, checked
        return Session(
            working,
            ledger,
            run,
            attempt,
            private_metrics=PrivateMetrics(self.plan, *asked, parts, noise, watch.note, watch.bought, self.team),
            pristine=front.behind(self.copy.model),
            progress=self._state.progress,
            metrics=watch.validated,
            released=watch.released,
            search=step_size_search_of(self.plan, self.model, self.optimizer, self.data, self.engine, chunk, self.copy),
        )

    def run(
        self,
        *,
        evaluate_every: int | None = None,
        progress: bool | None = None,
        early: EarlyStopping | None = None,
        callbacks: Callbacks = (),
    ) -> Trained:
        """Take every step of the plan (of an adaptive plan, until it ends) and return the result for `publish`.

        `evaluate_every`: the training steps between evaluations on the public data; by default about twenty evaluations
        in all. `progress`: show a bar; by default on a terminal and in a notebook. `early`: stop early, or keep the
        best model, by public or bought metrics; the last evaluation is then that of the kept model. `callbacks`:
        receive public and released values after every step (`training.callbacks`), and may end the run by
        `StopTraining`; a function will do. Ctrl-C and SIGTERM stop it with a checkpoint, as `Interrupted`.
        """
        epsilon, every = self.plan.guarantee().epsilon, every_so_often(self.plan.steps, evaluate_every)
        self.watch.check(early, {metric.name for metric in self.plan.metrics})
        self.team.agree("evaluation (public rows, evaluate_every, early)", *self.watch.has_rows, every, early)
        followers = self.team.together("callbacks", lambda: as_callbacks(callbacks))
        with (
            self.session() as session,
            stop_requests() as stop,
            progress_bar(self.plan.charges, epsilon, session.position, progress if self.team.first else False) as bar,
            telling(followers if self.team.first else (), self.plan, self.watch, self.model) as tell,
        ):

            def after_step() -> None:
                bar(session.position, self.evaluations[-1] if self.evaluations else None, self.clipping.shown())
                ended = tell(session.position)  # before a signal is looked for: a callback may send one
                signal, self.watch.ended = self.team.asked_to_stop(stop(), ended)
                if session.between_blocks or signal is not None:
                    self.save(session)
                if signal is not None and not session.finished:
                    raise stopped(session.position, self.plan.charges, session.left, self.folder, signal)

            self.take_steps(session, after_step, every, early)
            tell(session.position)
            return self.result(session)

    def take_steps(
        self, session: Session, after_step: Callable[[], None], every: int, early: EarlyStopping | None
    ) -> None:
        """The loop of `run` over an open session, with an evaluation after every `every` steps."""
        self.watch.follow(early)
        while not self.watch.enough and session.ready():
            with session.step() as step:
                step.add_all(self.criterion)
            if self.scheduler is not None:
                self.scheduler.step()
            if self.watch.due(self.plan.step_at(session.position), every) or session.finished:
                self.watch.look(session.position)
            after_step()
        session.check()
        self.watch.settle(session.position)
        session.note()

    def save(self, session: Session) -> None:
        """Write a checkpoint of all releases so far; refused, like `result`, if anything else changed the model."""
        self.team.together("a checkpoint", session.check)
        state = session.run, session.position, session.control.progress, self._shared_out.state()
        make = partial(self._state.checkpoint, *state)
        save_checkpoint(self.folder.checkpoint, make, self.team.ranks, session.attempt, shared_out=self.team.sharded)

    def result(self, session: Session) -> Trained:
        """The trained model so far, for `publish`; refused if anything but releases changed it."""
        self.team.together("the result", lambda: session.check_result(self.watch.average))
        warn_of_a_still_scheduler(self.scheduler, session.position if self.team.first else 0)
        self._shared_out.end()
        self.team.together("the result", lambda: check_unchanged(self.model, *self._checked.declared))
        entries = record_for_all(self.team, session.ledger.where, session.run, session.position, session.attempt)
        return remember(replace(self.trained(entries, session.ended), ledger=session.ledger.where))

    def trained(self, entries: tuple[Entry, ...], ended: str | None = None) -> Trained:
        """The result of a run whose ledger entries are `entries`."""
        self.model.eval()
        beside, canaries = self._public
        return Trained(
            model=self.watch.published.eval(),
            plan=self.plan,
            entries=entries,
            mechanism=self.mechanism,
            initial=self._checked.declared[0],
            final=state_digests(self.watch.published),
            secrets=self.folder.secrets,
            evaluations=tuple(self.evaluations),
            bought=tuple(self.watch.bought),
            ended=ended,
            released=self.folder.released(),
            public=None if beside is None else beside.unchanged(),
            canaries=None if canaries is None else canaries.as_dict(),
            warm_start=others(self.folder.path, self.earlier),
            publishes=self.team.first,
        )

    @property
    def mechanism(self) -> Mechanism:
        """How the plan is carried out."""
        return Mechanism.of(self.engine, self.noise, self._where.stream, self.team.lane_count, self.team.sites)

    def _start_attempt(self, run: Opened) -> int:
        return run.ledger.start_attempt(run.run, self.plan.fingerprint(), self.mechanism.as_dict(), self.folder.remedy)

    def _follow(self, run: Opened | None) -> None:
        """Go on, in every process, from the state of the run that the first has opened."""
        self.engine = replace(self.engine, float_bits=self.team.told("the float slack", lambda: self.engine.float_bits))
        self._shared_out.check_folder(self.folder)
        index, check = (None, None) if run is None else (run.checkpoint, run.check)
        checkpoint = read_checkpoint(index, self.team.ranks, self._shared_out.kept, check)
        if checkpoint is not None:
            load = self._shared_out.load_optimizer
            self.team.together("the state of the run", lambda: self._state.restore(checkpoint, load))

    @contextmanager
    def _opened(self) -> Iterator[Opened]:
        """The run, new or resumed."""
        with opened(self.folder, self.plan, self._where, self.noise.name, *self._public, self.earlier) as run:
            if self._where.resume:
                self.engine = with_slack_of(self.engine, run.ledger.entries(run.run))
            yield run
