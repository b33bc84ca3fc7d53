"""Early stopping and keeping the best model, by public metrics or by private metrics that are bought.

Both are post-processing: a fixed plan still claims its whole guarantee, and an adaptive one is covered wherever it
ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.errors import InputError, kind_of
from discreet.training.run.trained import Evaluation


def is_bought(metric: str) -> bool:
    """Whether a metric of this name is a private metric, which is bought."""
    return metric.startswith(("training_", "holdout_"))


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """A rule on evaluations of a `metric`; a metric whose name ends in `loss` is better when it is lower.

    The metric is public (`validation_accuracy`, `loss`), or one that the plan buys (`holdout_accuracy`). The best of
    several noisy values overestimates the accuracy of its model.

    `patience`: stop after this many evaluations in a row that did not improve on the best by more than `least`; None
    never stops. `keep_best`: publish the best evaluated model, not the last.
    """

    metric: str = "validation_accuracy"
    patience: int | None = 5
    least: float = 0.0
    keep_best: bool = True

    def __post_init__(self) -> None:
        if self.patience is not None:
            checks.count("patience", self.patience)
        checks.nonnegative("least", self.least)

    def should_stop(self, evaluations: Sequence[Evaluation]) -> bool:
        """Whether patience has run out."""
        if self.patience is None:
            return False
        best, waited = float("-inf"), 0
        for value in map(self._value, evaluations):
            best, waited = (value, 0) if value > best + self.least else (best, waited + 1)
        return waited >= self.patience

    def is_best(self, evaluations: Sequence[Evaluation]) -> bool:
        """Whether the last evaluation is better than all before it."""
        *before, last = map(self._value, evaluations)
        return not before or last > max(before)

    def _value(self, evaluation: Evaluation) -> float:
        if self.metric not in evaluation.metrics:
            raise InputError(
                f"early stopping looks at {self.metric!r}; known here: {', '.join(evaluation.metrics) or 'nothing'}"
            )
        value = evaluation.metrics[self.metric]
        return -value if self.metric.endswith("loss") else value


def check_early(early: EarlyStopping | None, bought: Collection[str]) -> None:
    """Refuse a rule that looks at a metric on private rows that is not among those `bought`."""
    if early is not None and not isinstance(early, EarlyStopping):
        raise InputError(f"early cannot be {kind_of(early)}; give the rule: early=EarlyStopping(patience=3)")
    if early is not None and is_bought(early.metric) and early.metric not in bought:
        raise InputError(f"early stopping looks at {early.metric}, which the plan does not buy; add it to metrics")
