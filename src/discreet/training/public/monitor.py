"""The public evaluations and private metrics of a run, and the best model by them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.distributed.team import Team
from discreet.methods import Averaging, RunningAverage
from discreet.training.front_end import FrontEnd
from discreet.training.guard import has_finite_weights
from discreet.training.public.early_stopping import EarlyStopping, check_early, is_bought
from discreet.training.public.evaluation import evaluate
from discreet.training.public.public_copy import PublicCopy
from discreet.training.public.public_data import PublicData
from discreet.training.run.checkpoint import Checkpoint
from discreet.training.run.trained import Bought, Evaluation


class Watch:
    """Evaluations on public data, private metrics, and the best state by one of them.

    `early`: the early-stopping rule of the run, if any. `whole`: puts weights that processes share out together in the
    first of them.

    `published` is the model that is evaluated and published: the copy of the trained model, or the average of released
    models. No private row runs through it: private metrics use copies of `queried_model`, which is the same.
    """

    def __init__(
        self,
        copy: PublicCopy,
        public: PublicData,
        averaging: Averaging | None,
        front: FrontEnd,
        team: Team,
        whole: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._average = None if averaging is None else RunningAverage(copy.model, averaging)
        self.queried_model = copy.model if self._average is None else self._average.model
        self._copy, self._front, self._team, self._whole = copy, front, team, whole
        self._test, self._validation = (front.of_public(copy.model, rows) for rows in public.tensors)
        self.evaluations: list[Evaluation] = []
        self.bought: list[Bought] = []
        self.best: dict[str, Any] | None = None
        self.early: EarlyStopping | None = None
        self.ended = False
        """Whether a callback has ended the run."""
        self._last_step = 0

    @property
    def average(self) -> nn.Module | None:
        """The average of released iterates, if that is what is published."""
        return None if self._average is None else self._average.model

    @property
    def published(self) -> nn.Module:
        """The model that would be published now."""
        return self._copy.follow() if self._average is None else self._average.model

    def evaluated(self, rows: tuple[Tensor, Tensor]) -> dict[str, float]:
        """Its metrics on rows that are declared public, after its front end. Of several processes the first computes
        them, as all have to decide by the same figures."""

        def metrics() -> dict[str, float]:
            model, copy = self._front.behind(self.published), self._copy.checked()
            return evaluate(model, copy.criterion, *rows)

        with self._whole():
            found: dict[str, float] = self._team.told("public metrics", metrics)
        self._copy.follow()  # which lets go of weights that were put together
        return found

    def released(self, position: int) -> None:
        """Take note of the model after the release of step `position`."""
        self._copy.follow()
        if self._average is not None:
            self._average.update(position)

    @property
    def has_rows(self) -> tuple[bool, bool]:
        """Whether there are public rows to test on, and to validate on."""
        return self._test is not None, self._validation is not None

    def check(self, early: EarlyStopping | None, bought: Collection[str]) -> None:
        """Refuse an early-stopping rule that the run, which buys the private metrics `bought`, cannot follow.
        To be asked before the run is opened."""
        self._team.together("the early stopping", lambda: self._check(early, bought))

    def _check(self, early: EarlyStopping | None, bought: Collection[str]) -> None:
        check_early(early, bought)
        if early is not None and early.keep_best and self._team.sharded:
            raise InputError(
                'the best model is a second one, which a run with shard="fully" does not keep; leave early stopping '
                '(patience) out, take keep_best=False, or use "replicate"'
            )
        if early is None or is_bought(early.metric):
            return
        known = [*self._known(), *bought]
        if not known:
            raise InputError("early stopping needs PublicData (validation or test) to look at, or a bought metric")
        if early.metric not in known:
            raise InputError(f"early stopping looks at {early.metric!r}; known here: {', '.join(known)}")

    def follow(self, early: EarlyStopping | None) -> None:
        """Set the early-stopping rule of the run, which begins or goes on."""
        self.early, self.ended = early, False

    def note(self, bought: Bought) -> None:
        """Keep a metric that was bought, and the model if it is the best by it."""
        self.bought.append(bought)
        if self.early is not None and self.early.metric == bought.metric:
            self._keep_if_best()

    def kept(self) -> dict[str, Any]:
        """The state that a checkpoint keeps."""
        average = None if self._average is None else self._average.state_dict()
        return {
            "evaluations": tuple(self.evaluations),
            "bought": tuple(self.bought),
            "best": self.best,
            "average": average,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint; the run must average as it did before."""
        self.evaluations, self.bought = list(checkpoint.evaluations), list(checkpoint.bought)
        self.best = checkpoint.best
        if (checkpoint.average is None) != (self._average is None):
            raise InputError("the checkpoint is of a run with another averaging; go on with what the run began with")
        if self._average is not None and checkpoint.average is not None:
            self._average.load_state_dict(checkpoint.average)

    def validated(self) -> dict[str, float]:
        """Metrics on the validation data: what policies see."""
        return {} if self._validation is None else self.evaluated(self._validation)

    def due(self, steps: int, every: int) -> bool:
        """Whether a multiple of `every` was reached since the last call. The exact place may be that of a bought count,
        which is a step too in an adaptive plan."""
        before, self._last_step = self._last_step or steps - 1, steps
        return steps // every > before // every

    def look(self, position: int) -> None:
        """Record the public metrics after `position` steps, if there is public data, and the model if it is the best so
        far."""
        metrics = self._metrics()
        if metrics:
            self.evaluations.append(Evaluation(position, metrics))
        if self.early is not None and not is_bought(self.early.metric):
            self._keep_if_best()

    @property
    def enough(self) -> bool:
        """Whether a callback or the early-stopping rule says to stop."""
        return self.ended or (self.early is not None and self.early.should_stop(self._seen))

    def settle(self, position: int) -> None:
        """Evaluate the final model, and restore the best one if the rule keeps it; its metrics are then the last."""
        if not self.evaluations or self.evaluations[-1].step != position:
            self.look(position)
        if self.early is not None and self.early.keep_best and self.best is not None:
            self.published.load_state_dict(self.best)
            metrics = self._metrics()
            if metrics and metrics != self.evaluations[-1].metrics:
                self.evaluations.append(Evaluation(position, metrics))

    @property
    def _seen(self) -> list[Evaluation]:
        """The evaluations that the rule looks at."""
        if self.early is None or not is_bought(self.early.metric):
            return self.evaluations
        name = self.early.metric
        return [Evaluation(one.step, {name: one.value}) for one in self.bought if one.metric == name]

    def _keep_if_best(self) -> None:
        assert self.early is not None
        best = self.early.keep_best and self.early.is_best(self._seen)
        if best and has_finite_weights(self.published):  # one class for all rows may be the best so far
            self.best = {name: tensor.clone() for name, tensor in self.published.state_dict().items()}

    def _metrics(self) -> dict[str, float]:
        found = {} if self._test is None else self.evaluated(self._test)
        return found | {f"validation_{name}": value for name, value in self.validated().items()}

    def _known(self) -> list[str]:
        """The names of the public metrics of this run, from one row of each of its sets."""
        model, criterion, names = self._front.behind(self.published), self._copy.criterion, list[str]()
        with torch.random.fork_rng():
            for prefix, rows in (("", self._test), ("validation_", self._validation)):
                if rows is not None:
                    names += [prefix + name for name in evaluate(model, criterion, rows[0][:1], rows[1][:1])]
        return names


def every_so_often(steps: int, given: int | None) -> int:
    """Steps between evaluations: as given, or about a twentieth of all steps."""
    return max(1, steps // 20) if given is None else checks.count("evaluate_every", given)
