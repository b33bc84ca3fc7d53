"""Metrics of predictions on rows that are declared public, for all of them and by subgroup.

| metric            | of                                                                              |
|-------------------|---------------------------------------------------------------------------------|
| accuracy          | classes: the share of rows whose likeliest class is the true one                |
| auroc             | the last of two classes; the mean over classes if there are more                |
| sensitivity       | two classes: the share of the last one that is found                            |
| specificity       | two classes: the share of the first one that is not taken for the last          |
| calibration error | classes: |accuracy - confidence| over 15 bins of equal width (Naeini et al. 2015) |
| rmse, mae         | regression, in the unit of the target                                           |

Of several labels, each has the metrics of two classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from discreet.core.array_types import Array, BoolArray
from discreet.core.errors import InputError
from discreet.data.tables.encoder import Encoder

_BINS = 15
_LEAST_GROUP = 10


def check_groups(groups: Mapping[str, BoolArray]) -> None:
    """Refuse a subgroup that has some public rows but too few to say anything."""
    for name, rows in groups.items():
        if 0 < rows.sum() < _LEAST_GROUP:
            raise InputError(
                f"the subgroup {name} has {int(rows.sum())} rows in the public test table, fewer than {_LEAST_GROUP}: "
                "metrics of it say nothing; leave its column out of subgroups, or map the category with same"
            )


def metrics_of(encoder: Encoder, outputs: Array, targets: Array, groups: Mapping[str, BoolArray]) -> dict[str, float]:
    """Metrics by name, those of subgroups as "sex=Female: accuracy"; what a group has no rows for is left out.

    `outputs` (rows, outputs) of the model, `targets` as encoded. `InputError` for a subgroup that is too small.
    """
    check_groups(groups)
    said, found = encoder.decode(outputs), _of(encoder, encoder.decode(outputs), targets)
    for name, rows in groups.items():
        if rows.any():
            inside = _of(encoder, said[rows], targets[rows])
            found |= {f"{name}: {metric}": value for metric, value in inside.items()}
    return found


def _of(encoder: Encoder, said: Array, targets: Array) -> dict[str, float]:
    if encoder.task == "regression":
        true = encoder.decode(targets)
        return {"rmse": float(np.sqrt(np.mean((said - true) ** 2))), "mae": float(np.mean(np.abs(said - true)))}
    if encoder.task == "classes":
        return _classes(said, targets.astype(np.int64), encoder.classes)
    found: dict[str, float] = {}
    for place, label in enumerate(encoder.classes):
        both = np.stack([1 - said[:, place], said[:, place]], axis=1)
        found |= {
            f"{label}: {name}": value for name, value in _classes(both, targets[:, place].astype(np.int64)).items()
        }
    return found


def _classes(shares: Array, true: np.ndarray, names: Sequence[str] = ("", "")) -> dict[str, float]:
    right = shares.argmax(axis=1) == true
    found = {"accuracy": float(right.mean())}
    ranked = [1] if len(names) == 2 else range(len(names))
    areas = [area for area in (auroc(shares[:, name], true == name) for name in ranked) if area is not None]
    if len(areas) == len(ranked):
        found["auroc"] = float(np.mean(areas))
    if len(names) == 2:
        for name, value in (("sensitivity", 1), ("specificity", 0)):
            if (true == value).any():
                found[name] = float(right[true == value].mean())
    return found | {"calibration error": calibration_error(shares.max(axis=1), right)}


def auroc(scores: Array, positive: BoolArray) -> float | None:
    """The share of pairs of a positive and a negative row that scores put in order, ties as a half (Mann-Whitney).

    None without such a pair.
    """
    ones, others = int(positive.sum()), int((~positive).sum())
    if not ones or not others:
        return None
    _, places, equal = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(equal) - (equal - 1) / 2)[places]
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * others))


def calibration_error(confidence: Array, right: BoolArray) -> float:
    """Mean over rows of |accuracy - mean confidence| of the bin that a row is in."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, right.astype(np.float64) - confidence, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(right))
