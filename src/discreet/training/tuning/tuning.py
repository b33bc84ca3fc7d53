"""`Tuning`: a search for settings on private data, sealed. Only the winning run comes out; all of it is one charge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from discreet.certificate.earlier_runs import EarlierRun, together
from discreet.clipping import Criterion
from discreet.clipping.separation.copies import copied
from discreet.core.errors import DiscreetError, InputError, Interrupted
from discreet.core.silence import unlogged, unrepeated, unwarned
from discreet.ledger import Entry, Ledger
from discreet.methods import Averaging
from discreet.plan import Plan, Search
from discreet.plan.tuning.kinds import AnySearch
from discreet.queries.best_trial import uniform_index
from discreet.queries.draws import check_drawable, draw_trials
from discreet.randomness import Purpose, Stream, Substream, SystemStream, new_run_key
from discreet.training.former import with_former
from discreet.training.guard import generators_put_back, has_finite_weights, refuse_other_arithmetic
from discreet.training.preflight.data_check import check_public
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.public import warm_starts
from discreet.training.public.early_stopping import EarlyStopping, check_early, is_bought
from discreet.training.public.evaluation import evaluate
from discreet.training.public.extra_rows import PublicBatches, report
from discreet.training.public.monitor import every_so_often
from discreet.training.public.public_data import PublicData
from discreet.training.run.charges import SealedBooks
from discreet.training.run.run_folder import make_private_folder, new_name
from discreet.training.run.run_options import RunOptions
from discreet.training.run.signals import stop_requests
from discreet.training.run.trained import Trained, randomness_of
from discreet.training.training import Training
from discreet.training.tuning.candidate_data import seen_by
from discreet.training.tuning.fresh_objects import Built

Start = Callable[[int], Stream]
"""The randomness of the search itself at 0, of its k-th trial at k."""

Stop = Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class Setup:
    """The objects that a trial trains with, new for every trial."""

    model: nn.Module
    criterion: Criterion
    optimizer: Optimizer
    scheduler: LRScheduler | None = None
    averaging: Averaging | None = None


class Tuning:
    """A private choice among several runs of `plan`, whose `search` names the candidates, their rows and the score.

    - `build(settings)`: model, loss and optimizer for one candidate of the search. Its first model for a candidate is
      the public state that all trials with these settings start from. `clip_norm` is applied to the plan by itself.
    - `data`, `units`, `public`, `engine`: as for `Training`.
    - `ids`: an identifier of each row that does not depend on other rows; for a hold-out, or parts of the data.
    - `run`: a new folder for the ledger, or `RunOptions` with a shared ledger. A search cannot be resumed.
    - `early`, `evaluate_every`: as for `Training.run`, in every trial.
    - `start`: for tests; randomness that is not the system's is refused when the result is published.

    Every candidate is checked here, on random data and on every row, so that no trial fails later. Nothing is charged
    before `run`.
    """

    def __init__(
        self,
        plan: Plan,
        build: Callable[[Mapping[str, Any]], Setup],
        data: object,
        *,
        units: object = None,
        ids: object = None,
        public: PublicData | PublicBatches | None = None,
        run: RunOptions | str | Path | None = None,
        engine: str | EngineOptions = AUTO,
        early: EarlyStopping | None = None,
        evaluate_every: int | None = None,
        start: Start | None = None,
        **former: Any,
    ) -> None:
        if plan.search is None:
            raise InputError("Tuning needs a fixed plan with a search: Search.make(...).over(plan)")
        records = {"public": PublicData.of(public), "run": RunOptions.of(run), "engine": EngineOptions.of(engine)}
        self._public, self._where, self._options = with_former("Tuning", former, **records)
        self._where.check()
        if self._where.resume or self._where.on_open or self._where.stream:
            raise InputError("a search cannot be resumed, and takes a folder, a ledger and a dataset_id only")
        if isinstance(plan.search, Search):
            check_drawable(plan.search.trials)
        check_early(early, {metric.name for metric in plan.metrics})
        self.guarantee = plan.guarantee()
        if not self.guarantee.is_finite:
            raise InputError("the search has no finite epsilon; use more noise or fewer trials")
        self.plan, self._candidates, self._build, self._early = plan, plan.search.candidates, build, early
        self._seen, self._choice = seen_by(plan, data, units, ids)
        if self._choice is not None:
            check_public(self._public.named, None, data)
        self._every = every_so_often(plan.steps, evaluate_every)
        self.folder = Path(self._where.folder or new_name())
        self._start, self._built = start or _system_start(), Built()
        self._states: list[dict[str, Tensor]] = []
        self._bits: int | None = None
        with unrepeated():
            self._check(plan.search)

    def __repr__(self) -> str:
        return f"<Tuning: {len(self._candidates)} candidates; the whole search {self.guarantee}; folder {self.folder}>"

    def run(self) -> Trained:
        """Charge the search, run its trials, and return the winner, ready for `publish`.

        If it is interrupted, or a trial fails, the search ends without a result and stays charged. No progress is
        shown, because it would reveal the secret number of trials; the time that this takes reveals it, too.
        """
        search = self.plan.search
        assert search is not None
        refuse_other_arithmetic(*self._measured)
        report(self._public.beside)
        warm_starts.report(self._earlier)
        randomness = self._start(0)
        run, entries = self._charge(randomness_of(randomness))
        choices = randomness.substream(Purpose.NOISE, 0)
        # What a trial warns of or logs would be heard once for each, which reveals their secret number.
        with stop_requests() as stop, generators_put_back(), unwarned(), unlogged():
            if isinstance(search, Search):
                found = self._best(search, run, choices, stop)
            else:
                found = self._chosen(run, choices, stop)
        if not has_finite_weights(found.model):  # said of the winner alone, which is all that the search releases
            raise InputError(
                "the weights of the best trial are NaN or infinite, so there is no model to publish; search among "
                "lower learning rates. The search stays charged whole"
            )
        return warm_starts.remember(
            replace(found, plan=self.plan, entries=entries, secrets=(), warm_start=self._earlier)
        )

    def _best(self, search: Search, run: str, choices: Substream, stop: Stop) -> Trained:
        """The best of a secret number of trials."""
        best, least = None, -math.inf
        for trial in range(1, draw_trials(search.trials, choices) + 1):
            index = uniform_index(len(self._candidates), choices)
            found, _ = self._trial(index, run, trial, stop)
            score = score_of(found, search.score, self._early)
            if best is None or score > least:
                best, least = found, score
        if best is None:
            raise DiscreetError(
                "the search drew no trial, as its law allows, so nothing is released; it stays charged. Geometric and "
                "logarithmic laws have at least one"
            )
        return best

    def _chosen(self, run: str, choices: Substream, stop: Stop) -> Trained:
        """The candidate chosen by the part of the data that none of them was trained on."""
        assert self._choice is not None
        trials: list[Trained] = []
        scores: list[int | None] = []
        for index in range(len(self._candidates)):
            found, asked = self._trial(index, run, index + 1, stop)
            trials.append(found)
            scores.append(self._choice.score(*asked) if has_finite_weights(found.model) else None)
        if all(score is None for score in scores):
            return trials[0]  # refused by the caller
        return trials[self._choice.choose(scores, choices)]

    def _charge(self, randomness: str) -> tuple[str, tuple[Entry, ...]]:
        """Charge the search as a whole: its name in the ledger, and the only entries that it will ever have."""
        if self._where.ledger is None:
            self._make_folder()
        with closing(Ledger(self._where.ledger or self.folder / "ledger.sqlite")) as ledger:
            event, dataset = self.plan.event(), self._where.dataset_id
            run = ledger.open_run(self.plan.fingerprint(), self.guarantee, dataset, event=event)
            mechanism = replace(self._mechanism, randomness=randomness).as_dict()
            attempt = ledger.start_attempt(run, self.plan.fingerprint(), mechanism)
            ledger.reserve(run, attempt, lambda _charged: [event])
            return run, tuple(ledger.entries(run))

    def _make_folder(self) -> None:
        try:
            make_private_folder(self.folder)
        except FileExistsError:
            raise InputError(
                f"the run folder {self.folder} exists already: a search is run once, and cannot be resumed; make a new "
                "Tuning for another search, in another folder if you name one, which is charged beside this one"
            ) from None

    def _trial(self, index: int, run: str, trial: int, stop: Stop) -> tuple[Trained, tuple[nn.Module, Criterion]]:
        """One run of the plan, in memory; and the model and loss whose copies may see private rows to score it.

        No folder, no key, no checkpoint, no row in the ledger.
        """
        assert self.plan.search is not None
        settings, stream = self._candidates[index], self._start(trial)
        setup = self._setup(settings)
        setup.model.load_state_dict(self._states[index])
        training = self._training(self.plan.search, index, setup, stream)

        def after_step() -> None:
            signal = stop()
            if signal is not None:
                raise Interrupted("the search was interrupted: nothing is released, and it stays charged whole", signal)

        # Receipts of trials are all for attempt 0: their streams tell them apart, and what is kept tells none.
        session = training.over(SealedBooks(), run, 0, stream)
        training.take_steps(session, after_step, self._every, self._early)
        return replace(training.trained(()), winner=settings), (training.watch.queried_model, training.copy.criterion)

    def _setup(self, settings: Mapping[str, Any]) -> Setup:
        """The objects of a trial; never those of an earlier trial, which may be the best so far."""
        if not isinstance(setup := self._build(settings), Setup):
            raise InputError(f"build must return a Setup(model, criterion, optimizer), got {type(setup).__name__}")
        self._built.note(setup.model, setup.optimizer, setup.scheduler)
        return setup

    def _check(self, search: AnySearch) -> None:
        """Check every candidate. All are then trained with one engine, with the largest float slack of any."""
        digests: list[str] = []
        bits: list[int] = []
        earlier: list[tuple[EarlierRun, ...]] = []
        for number, settings in enumerate(self._candidates):
            setup = self._setup(settings)
            self._states.append({name: tensor.detach().clone() for name, tensor in setup.model.state_dict().items()})
            training = self._training(search, number, setup, None)
            training.watch.check(self._early, {metric.name for metric in self.plan.metrics})
            if self._choice is not None:
                self._choice.check(*copied(setup.model, setup.criterion))
            if number == 0:
                self._setup(settings)  # refused now if it is the same again
                training.preflight.report()
                if isinstance(search, Search):
                    _check_score(search.score, setup, self._public.tensors[1])
                self._options = replace(self._options, name=training.engine.name)
            bits += [] if training.engine.float_bits is None else [training.engine.float_bits]
            digests.append(str(training.plan.initial_state))
            earlier.append(training.earlier)
        self._earlier = together(*earlier)
        self._bits, self._measured = min(bits, default=None), training.preflight.arithmetic
        training.engine = replace(training.engine, float_bits=self._bits)
        self._mechanism = training.mechanism
        self.plan = self.plan.model_copy(
            update={"search": search.model_copy(update={"initial_states": tuple(digests)})}
        )

    def _training(self, search: AnySearch, index: int, setup: Setup, stream: Stream | None) -> Training:
        seen = self._seen[index]
        training = Training(
            search.one_trial(self.plan, self._candidates[index]),
            setup.model,
            setup.criterion,
            setup.optimizer,
            seen.data,
            units=seen.units,
            ids=seen.ids,
            public=self._public,
            run=RunOptions(stream=stream),
            engine=self._options,
            scheduler=setup.scheduler,
            averaging=setup.averaging,
        )
        if self._bits is not None:
            training.engine = replace(training.engine, float_bits=self._bits)
        return training


def score_of(trained: Trained, name: str, early: EarlyStopping | None) -> float:
    """The score of a trial, higher is better: the last value of the metric, or the best value where the best model is
    kept; less than any other where the weights are not finite.

    For a private metric it is the noisy sum, not divided by a noisy number of rows: else the trial with the smallest
    such number would win.
    """
    if not has_finite_weights(trained.model):
        return -math.inf
    if is_bought(name):
        metric = next(one for one in trained.plan.metrics if one.name == name)
        sizes = [one.value for one in trained.bought if one.metric == f"{metric.rows}_size"]
        times = max(1.0, sizes[-1]) if sizes else 1.0
        values = [(one.value - metric.centre) * times for one in trained.bought if one.metric == name]
        keeps_best = early is not None and early.keep_best and early.metric == name
    else:
        values, keeps_best = [trained.last_metrics[name]], False
    signed = [-value if name.endswith("loss") else value for value in values]
    if not signed:
        return -math.inf
    score = max(signed) if keeps_best else signed[-1]
    return -math.inf if math.isnan(score) else score


def _system_start() -> Start:
    """Streams under a fresh key that is never written down."""
    key = new_run_key()
    return lambda number: SystemStream.start(key, number)


def _check_score(score: str, setup: Setup, validation: tuple[Tensor, Tensor] | None) -> None:
    """Refuse a score that trials will not have. (The plan checks that a private metric is bought.)"""
    if is_bought(score):
        return
    found = {} if validation is None else evaluate(setup.model, setup.criterion, *validation)
    known = [f"validation_{name}" for name in found]
    if score not in known:
        raise InputError(
            f"trials have no score {score!r}; known: {', '.join(known) or 'none without PublicData(validation=...)'}, "
            "and metrics on private rows that the plan buys (holdout_accuracy)"
        )
