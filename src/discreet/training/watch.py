"""What a run sees of public data on its way, and the best model by it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.core.errors import InputError
from discreet.methods import Averaging, RunningAverage
from discreet.training.checkpoint import Checkpoint
from discreet.training.early import EarlyStopping
from discreet.training.evaluation import evaluate
from discreet.training.trained import Evaluation

Public = tuple[Tensor, Tensor] | None


class Watch:
    """Evaluations on data declared public, and the state that was best, if a run looks for it.

    `published` is what is evaluated and published: the model that is trained, or the average of what was released.
    """

    def __init__(
        self, model: nn.Module, criterion: Criterion, test: Public, validation: Public, averaging: Averaging | None
    ) -> None:
        self._average = None if averaging is None else RunningAverage(model, averaging)
        self.published = model if self._average is None else self._average.model
        self._criterion, self._test, self._validation = criterion, test, validation
        self.evaluations: list[Evaluation] = []
        self.best: dict[str, Any] | None = None
        self._asked = 0

    def released(self, position: int) -> None:
        """Take note of the model after the release of step `position`."""
        if self._average is not None:
            self._average.update(position)

    @property
    def average(self) -> dict[str, Any] | None:
        """The state of the average, for a checkpoint."""
        return None if self._average is None else self._average.state_dict()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint; the run must average as it did before."""
        self.evaluations, self.best = list(checkpoint.evaluations), checkpoint.best
        if (checkpoint.average is None) != (self._average is None):
            raise InputError("the checkpoint is of a run with another averaging; go on with what the run began with")
        if self._average is not None and checkpoint.average is not None:
            self._average.load_state_dict(checkpoint.average)

    def validated(self) -> dict[str, float]:
        """Metrics on the validation data: what policies see."""
        return {} if self._validation is None else evaluate(self.published, self._criterion, *self._validation)

    def due(self, position: int, every: int) -> bool:
        """Whether a multiple of `every` was reached since this was last asked; a bought count may sit on it."""
        before, self._asked = self._asked or position - 1, position
        return position // every > before // every

    def look(self, position: int, early: EarlyStopping | None) -> bool:
        """Note the metrics after `position` steps, if there is public data; whether they are a reason to stop."""
        metrics = self._metrics()
        if not metrics:
            if early is not None:
                raise InputError("early stopping needs public_validation (or public_test) to look at")
            return False
        self.evaluations.append(Evaluation(position, metrics))
        if early is None:
            return False
        if early.keep_best and early.is_best(self.evaluations):
            self.best = {name: tensor.clone() for name, tensor in self.published.state_dict().items()}
        return early.should_stop(self.evaluations)

    def enough(self, early: EarlyStopping | None) -> bool:
        """Whether what was seen so far is a reason to stop."""
        return early is not None and early.should_stop(self.evaluations)

    def settle(self, position: int, early: EarlyStopping | None) -> None:
        """Look at what the run ended with, and put back the best model, whose metrics are then the last."""
        if not self.evaluations or self.evaluations[-1].step != position:
            self.look(position, early)
        if early is not None and early.keep_best and self.best is not None:
            self.published.load_state_dict(self.best)
            metrics = self._metrics()
            if metrics != self.evaluations[-1].metrics:
                self.evaluations.append(Evaluation(position, metrics))

    def _metrics(self) -> dict[str, float]:
        found = {} if self._test is None else evaluate(self.published, self._criterion, *self._test)
        return found | {f"validation_{name}": value for name, value in self.validated().items()}
