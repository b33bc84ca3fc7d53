"""The best of several models by private rows: one release, which reveals the winner and no score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from discreet.clipping.separation.copies import copied
from discreet.core.array_types import Array
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.guarantee import Guarantee
from discreet.data import as_private, hold_out
from discreet.plan import Holdout
from discreet.queries import Account, Choice, release
from discreet.training.private_metrics.counts import check_countable
from discreet.training.private_metrics.single_rows import one_by_one
from discreet.training.private_metrics.unit_values import unit_values


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The chosen model, its place among the candidates, and the cost of the choice."""

    index: int
    model: nn.Module
    guarantee: Guarantee


def choose_model(
    models: Sequence[nn.Module],
    data: object,
    account: Account,
    epsilon: float,
    *,
    holdout: Holdout | None = None,
    ids: object = None,
) -> ChosenModel:
    """Choose the model that predicts the most private rows right, by the exponential mechanism.

    The models (checkpoints of a run, or results of several) are fixed before, and released or public. `data`: a pair of
    tensors or a map-style data set; with `holdout` and `ids` only its held-out rows are used, so that no row serves
    both training and the choice. Each row is predicted alone and adds 0 or 1 to a model's score (0 if the model fails
    on it): a choice at `epsilon` is (epsilon^2 / 8)-zCDP, under replace-one at twice that epsilon. It is charged to
    `account` before a row is predicted. To know how good the model is, buy a metric.

    A model that remembers rows predicts each row with a fresh copy, as far as `copy.deepcopy` reaches. What a row
    writes to parameters is gone before the next.
    """
    if not models:
        raise InputError("there is no model to choose from")
    if (holdout is None) != (ids is None):
        raise InputError("holdout and ids go together: which rows are held out is decided by their names")
    private = as_private(data)
    if holdout is not None:
        held = hold_out(private, ids, holdout.holds_out, are_units=False).held_out
        assert held is not None
        private = held
    looked = [copied(model, nn.CrossEntropyLoss())[0] for model in models]  # what they remember is not handed out
    for model in looked:
        check_countable(model, private)
    every = np.arange(private.rows, dtype=np.int64)
    for _ in one_by_one(looked[0], private, every):
        pass  # rows that cannot be put together are found before the charge

    said: list[PrivacyViolation] = []

    def right(rows: Array) -> Array:
        chosen = rows[:, 0].astype(np.int64)
        counts = []
        try:
            for model in looked:
                counts.append(sum(unit_values("accuracy", 1.0, model, nn.CrossEntropyLoss(), private, chosen)))
        except PrivacyViolation as error:
            said.append(error)
            raise
        return np.array(counts, dtype=np.float64)

    choice = Choice(range(len(models)), right, sensitivity=1.0, epsilon=epsilon, one_sided=True)
    try:
        answers = release(every.astype(np.float64), [choice], account)
    except PrivacyViolation as error:
        raise said[0] if said else error from None  # of a model that writes: words of the library, not of rows
    index = int(answers[0])
    return ChosenModel(index, models[index], answers.guarantee)
