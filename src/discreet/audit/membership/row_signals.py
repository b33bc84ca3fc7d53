"""Scores of rows: the larger, the likelier a row was trained on. From the losses of a model, and of shadow models.

| attack | score of a row                                                          | source                    |
|--------|-------------------------------------------------------------------------|---------------------------|
| loss   | minus its loss                                                          | Yeom et al. 2018          |
| LiRA   | log-likelihood ratio of its confidence, trained on against not          | Carlini et al. 2022       |
| RMIA   | its likelihood, relative to what it is on average over shadow models    | Zarifzadeh et al. 2024    |

Shadow models are trained as the model was, each on a random half of all rows. With few of them LiRA takes one spread
for all rows (its section VI.C). RMIA counts for how many other rows this ratio is smaller; the ratio itself puts rows
in the same order.
"""

from __future__ import annotations

import numpy as np

from discreet.core.array_types import Array, BoolArray

LEAST_SHADOWS = 4
"""With fewer, the spread of confidences within rows cannot be told."""

_LEAST_LOSS, _MOST_LOSS = 1e-12, 500.0


def confidence(losses: Array) -> Array:
    """log(p / (1 - p)) of likelihoods p = e^-loss, which are nearly normal over models (Carlini et al. 2022)."""
    kept = _kept(losses)
    result: Array = -kept - np.log(-np.expm1(-kept))
    return result


def loss_scores(losses: Array) -> Array:
    """Minus the loss of each row; shape (rows,)."""
    return -np.nan_to_num(losses, nan=np.inf)


def lira_scores(losses: Array, shadows: Array, trained: BoolArray) -> Array:
    """The scores of LiRA. `losses`: of the model, (rows,); `shadows`: of shadow models, (models, rows); `trained`:
    which rows each was trained on. Every row is in two models at least, and out of two."""
    seen, others = confidence(losses), confidence(shadows)
    found = np.zeros(losses.shape)
    for chosen, sign in ((trained, 1.0), (~trained, -1.0)):
        means = np.where(chosen, others, 0.0).sum(axis=0) / chosen.sum(axis=0)
        squares = np.where(chosen, np.square(others - means), 0.0).sum(axis=0)
        spread = max(float(squares.sum() / (chosen.sum(axis=0) - 1).sum()), 1e-12)
        found += sign * (-np.square(seen - means) / (2 * spread) - 0.5 * np.log(spread))
    return found


def rmia_scores(losses: Array, shadows: Array) -> Array:
    """The scores of RMIA: log p(row | model) - log of the mean of p(row | shadow model), half of which saw the row."""
    logs = -_kept(shadows)
    mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    result: Array = -_kept(losses) - mean
    return result


def halves(models: int, rows: int, rng: np.random.Generator) -> BoolArray:
    """Which rows each shadow model is trained on, (models, rows): each row on a random half of the models."""
    order = np.argsort(rng.random((models, rows)), axis=0)
    result: BoolArray = order < models // 2
    return result


def _kept(losses: Array) -> Array:
    """Losses that are numbers of a size that likelihoods can have."""
    return np.clip(np.nan_to_num(losses, nan=_MOST_LOSS), _LEAST_LOSS, _MOST_LOSS)
