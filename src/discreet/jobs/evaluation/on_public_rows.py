"""The behaviour of a table's model on rows declared public: curves, and the effects of columns on its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from discreet.certificate.described import OnPublicRows
from discreet.core.array_types import Array, BoolArray
from discreet.data.tables import Encoder
from discreet.jobs.evaluation.curves import cuts, error_bounds, reliability
from discreet.jobs.evaluation.effects import Answer, effects, importances
from discreet.jobs.evaluation.public_metrics import mean_auroc

_MOST_ROWS = 2000
_MOST_WORK = 20_000_000
"""The most rows times columns for the effects of columns; above it, fewer rows are used."""


def on_public_rows(
    encoder: Encoder, answer: Answer, inputs: Tensor, targets: Array, clipped: BoolArray
) -> OnPublicRows | None:
    """The whole record; None for several labels or numbers. `answer` maps encoded rows to decoded outputs; `inputs` and
    `targets` are encoded. `clipped` (rows, targets): those out of range, which no interval within it holds."""
    if len(encoder.schema.target) > 1:
        return None
    said = answer(inputs.numpy())
    found: dict[str, Any] = {"rows": len(targets)}
    if encoder.task == "regression":
        true = encoder.decode(targets)
        errors = np.where(clipped, np.inf, np.abs(said - true))[:, 0]
        found["errors"] = {f"{level:g}": bound for level, bound in error_bounds(errors).items()}
        score: tuple[str, Callable[[Array, Array], float]] = ("rmse", lambda one, of: _rmse(encoder, one, of))
    else:
        found |= _of_classes(encoder, said, targets.astype(np.int64))
        score = ("auroc", lambda one, of: -(mean_auroc(one, of.astype(np.int64)) or 0.0))
    if encoder.schema.wide is None and inputs.shape[1:] == encoder.shape:
        rows = min(_MOST_ROWS, max(50, _MOST_WORK // max(1, len(encoder.kinds)) ** 2))
        found |= {"score": score[0]} | _of_columns(encoder, answer, inputs.numpy()[:rows], targets[:rows], score[1])
    return OnPublicRows(**found)


def _rmse(encoder: Encoder, said: Array, targets: Array) -> float:
    return float(np.sqrt(np.mean((said - encoder.decode(targets)) ** 2)))


def _of_classes(encoder: Encoder, said: Array, true: Array) -> dict[str, Any]:
    if len(encoder.classes) > 2:
        return {"bins": reliability(said.max(axis=1), said.argmax(axis=1) == true)}
    scores, positive = said[:, 1], true == 1
    found: dict[str, Any] = {"positive": encoder.classes[1], "bins": reliability(scores, positive)}
    if positive.any() and not positive.all():
        found["cuts"] = cuts(scores, positive)
    return found


def _of_columns(
    encoder: Encoder, answer: Answer, inputs: Array, targets: Array, worse: Callable[[Array, Array], float]
) -> dict[str, Any]:
    weights = importances(answer, inputs, lambda said: worse(said, targets), encoder)
    drawn = [one.column for one in weights if one.loss > 0] if len(encoder.classes) <= 2 else []
    return {"weights": weights, "effects": effects(answer, inputs, encoder, drawn)}
