"""Metrics of predictions on rows that are declared public, for all of them and by subgroup.

| metric            | of                                                                              |
|-------------------|---------------------------------------------------------------------------------|
| accuracy          | classes: the share of rows whose likeliest class is the true one                |
| baseline accuracy | the share of the most frequent class: what one answer for all rows reaches      |
| balanced accuracy | the mean of the classes' recalls                                                |
| baseline balanced accuracy | that of one answer for all rows; where weights or shares are declared  |
| recall: CLASS     | the share of the class that is found, of classes that have rows                 |
| rows: A as B      | how many rows of class A the model takes for B, of at most 12 classes           |
| auroc             | the last of two classes; the mean over classes if there are more                |
| sensitivity (B)   | two classes: the share of the last one, B, that is found                        |
| specificity (B)   | two classes: the share of the first one that is not taken for B                 |
| calibration error | classes: |accuracy - confidence| over 15 bins of equal width (Naeini et al. 2015) |
| rmse, mae         | regression, in the unit of the target                                           |
| baseline rmse     | regression: of the mean of the public targets as the answer for all rows        |
| targets clipped   | regression: how many public targets are outside of the range, and count as its end; if any |
| GROUP: rows       | how many rows a subgroup has                                                    |

Of several labels, each has the metrics of two classes; of several numbers, each its own, as "stay: rmse".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from discreet.core.array_types import Array, BoolArray, IntArray
from discreet.core.errors import InputError
from discreet.core.metric_names import (
    BALANCED_ACCURACY,
    BASELINE_ACCURACY,
    BASELINE_BALANCED_ACCURACY,
    BASELINE_RMSE,
    CLIPPED,
    GROUP_ROWS,
    RECALL,
    rows_name,
)
from discreet.data.tables.encoder import Encoder

_BINS = 15
_MOST_COUNTED = 12
_LEAST_GROUP = 10


def check_groups(groups: Mapping[str, BoolArray]) -> None:
    """Refuse a subgroup that has some public rows but too few to say anything."""
    for name, rows in groups.items():
        if 0 < rows.sum() < _LEAST_GROUP:
            raise InputError(
                f"the subgroup {name} has {int(rows.sum())} rows in the public test table, fewer than {_LEAST_GROUP}: "
                "metrics of it say nothing; leave its column out of subgroups, or map the category with same"
            )


def metrics_of(
    encoder: Encoder,
    outputs: Array,
    targets: Array,
    groups: Mapping[str, BoolArray],
    clipped: BoolArray | None = None,
) -> dict[str, float]:
    """Metrics by name, those of subgroups as "sex=Female: accuracy"; what a group has no rows for is left out.

    `outputs` (rows, outputs) of the model, `targets` as encoded. `clipped` (rows, targets): those out of range.
    `InputError` for a subgroup that is too small.
    """
    check_groups(groups)
    said = encoder.decode(outputs)
    found = _of(encoder, said, targets)
    if encoder.task == "classes" and len(targets):
        found |= _confusion(said.argmax(axis=1), targets.astype(np.int64), encoder.classes)
    if encoder.task == "regression" and clipped is not None:
        found |= _named(encoder.classes, CLIPPED, clipped.sum(axis=0))
    for name, rows in groups.items():
        if rows.any():
            inside = _of(encoder, said[rows], targets[rows])
            found |= {f"{name}{GROUP_ROWS}": float(rows.sum())}
            found |= {f"{name}: {metric}": value for metric, value in inside.items()}
    return found


def _of(encoder: Encoder, said: Array, targets: Array) -> dict[str, float]:
    if encoder.task == "regression":
        return _amounts(encoder.classes, said, encoder.decode(targets))
    if encoder.task == "classes":
        alike = encoder.weights is not None or encoder.shares is not None
        return _classes(said, targets.astype(np.int64), encoder.classes, alike=alike)
    found: dict[str, float] = {}
    for place, label in enumerate(encoder.classes):
        both = np.stack([1 - said[:, place], said[:, place]], axis=1)
        found |= {
            f"{label}: {name}": value
            for name, value in _classes(both, targets[:, place].astype(np.int64), encoder.categories(label)).items()
        }
    return found


def _amounts(names: Sequence[str], said: Array, true: Array) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, one, other in zip(names, said.T, true.T, strict=True):
        prefix = "" if len(names) == 1 else f"{name}: "
        found[f"{prefix}rmse"] = float(np.sqrt(np.mean((one - other) ** 2)))
        found[f"{prefix}mae"] = float(np.mean(np.abs(one - other)))
        found[f"{prefix}{BASELINE_RMSE}"] = float(np.std(other))
    return found


def _named(names: Sequence[str], metric: str, counts: IntArray) -> dict[str, float]:
    """A count of each target, if it is not 0."""
    prefixes = [""] if len(names) == 1 else [f"{name}: " for name in names]
    return {f"{prefix}{metric}": float(count) for prefix, count in zip(prefixes, counts, strict=True) if count}


def _confusion(best: IntArray, true: IntArray, names: Sequence[str]) -> dict[str, float]:
    """Recalls, and counts of what was taken for what."""
    if len(names) > _MOST_COUNTED:
        return {}
    counts = np.bincount(true * len(names) + best, minlength=len(names) ** 2).reshape(len(names), len(names))
    found = {
        f"{RECALL}{name}": float(counts[place, place] / counts[place].sum())
        for place, name in enumerate(names)
        if counts[place].any()
    }
    for name, row in zip(names, counts, strict=True):
        found |= {rows_name(name, other): float(count) for other, count in zip(names, row, strict=True)}
    return found


def _classes(shares: Array, true: IntArray, names: Sequence[str], *, alike: bool = False) -> dict[str, float]:
    best = shares.argmax(axis=1)
    right, frequent = best == true, np.bincount(true, minlength=len(names))
    recalls = [right[true == place].mean() for place in np.flatnonzero(frequent)]
    found = {"accuracy": float(right.mean()), BASELINE_ACCURACY: float(frequent.max() / len(true))}
    found[BALANCED_ACCURACY] = float(np.mean(recalls))
    if alike:
        found[BASELINE_BALANCED_ACCURACY] = 1 / len(recalls)
    area = mean_auroc(shares, true)
    if area is not None:
        found["auroc"] = area
    if len(names) == 2:
        for name, value in (("sensitivity", 1), ("specificity", 0)):
            if (true == value).any():
                found[f"{name} ({names[1]})"] = float(right[true == value].mean())
    return found | {"calibration error": calibration_error(shares.max(axis=1), right)}


def mean_auroc(shares: Array, true: IntArray) -> float | None:
    """AUROC of the last of two classes, or the mean over more; None where a class has no rows, or all. `shares`: (rows,
    classes), `true`: numbers of classes."""
    ranked = [1] if shares.shape[1] == 2 else range(shares.shape[1])
    areas = [area for area in (auroc(shares[:, name], true == name) for name in ranked) if area is not None]
    return float(np.mean(areas)) if len(areas) == len(ranked) else None


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
