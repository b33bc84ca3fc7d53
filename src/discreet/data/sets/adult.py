"""UCI Adult, from its own files, or in the LIBSVM encoding a9a."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.sets.adult_columns import COLUMNS, NAMES
from discreet.data.sets.set_files import find, folder_of, malformed, text_of
from discreet.data.sets.splits import Split

_USED = tuple(name for name in COLUMNS if name != "education_num")
_MOST_CODES = 100_000
_A9A = 123


def adult(path: Path | None, columns: Sequence[str] = _USED, crosses: Sequence[Sequence[str]] = ()) -> Split:
    """32,561 people to train on and 16,281 to test: whether income is above 50,000 (1) or not (0).

    Inputs are indicators, (n, codes) of 0 and 1: one code for each of `columns`, and one for each of `crosses`, which
    are groups of columns whose codes are taken together. So every row has the same norm, sqrt(len(columns) +
    len(crosses)). Words and bins are declared (`adult_columns`): undocumented words and `?` have their own code in each
    column. A row's identifier is its line in adult.data, from 0.
    """
    groups = [*((name,) for name in columns), *(tuple(cross) for cross in crosses)]
    unknown = {name for group in groups for name in group} - set(COLUMNS)
    if unknown or not groups or not all(groups):
        raise InputError(f"adult: no column {', '.join(sorted(unknown)) or 'at all'}; known: {', '.join(COLUMNS)}")
    folder = folder_of(path, "adult", "adult.data and adult.test of UCI")
    (train, lines), (test, _) = (_part(folder, name, groups) for name in ("adult.data", "adult.test"))
    return Split(train=train, test=test, ids=lines)


def _part(folder: Path, name: str, groups: Sequence[Sequence[str]]) -> tuple[tuple[Tensor, Tensor], IntArray]:
    file = find(folder, name, "adult.data and adult.test")
    codes, targets, lines = [], [], []
    for number, line in enumerate(text_of(file).splitlines()):
        if line.strip() and not line.startswith("|"):
            row, target = _row(file, number + 1, line)
            codes.append(row)
            targets.append(target)
            lines.append(number)
    if not lines:
        raise InputError(f"{file} has no rows; get the original file again")
    inputs = _indicators(np.array(codes), groups)
    return (torch.from_numpy(inputs), torch.tensor(targets)), np.array(lines)


def _row(file: Path, line: int, text: str) -> tuple[list[int], int]:
    """The code of each of `COLUMNS`, and the class."""
    fields = [field.strip() for field in text.split(",")]
    income = fields[-1].rstrip(".")
    if len(fields) != len(NAMES) + 1 or income not in ("<=50K", ">50K"):
        malformed(file, line, f"expected {len(NAMES)} fields and <=50K or >50K, separated by commas")
    named = dict(zip(NAMES, fields, strict=False))
    codes = []
    for name, column in COLUMNS.items():
        code = column.code(named[name])
        if code is None:
            malformed(file, line, f"{name} is not a number")
        codes.append(code)
    return codes, int(income == ">50K")


def _indicators(codes: IntArray, groups: Sequence[Sequence[str]]) -> np.ndarray:
    """(rows, codes) of zeros and ones, one in each group."""
    places, sizes = list(COLUMNS), [column.size for column in COLUMNS.values()]
    widths = [math.prod(sizes[places.index(name)] for name in group) for group in groups]
    if sum(widths) > _MOST_CODES:
        raise InputError(f"adult: these crosses have {sum(widths)} codes, more than {_MOST_CODES}; cross fewer columns")
    found = np.zeros((len(codes), sum(widths)), np.float32)
    start = 0
    for group, width in zip(groups, widths, strict=True):
        chosen = [places.index(name) for name in group]
        joint = np.ravel_multi_index([codes[:, i] for i in chosen], [sizes[i] for i in chosen])
        found[np.arange(len(codes)), start + joint] = 1
        start += width
    return found


def a9a(path: Path | None, split: int | None = None) -> Split:
    """Adult in the LIBSVM encoding of 123 indicators (a9a, a9a.t): 32,561 rows to train on and 16,281 to test.

    With `split`, a whole number, a tenth of the training file (3,256 random rows) is the test set, and the other 29,305
    rows are trained on, as in Bu et al. 2020. A row's identifier is its line in a9a, from 0.
    """
    folder = folder_of(path, "adult", "a9a and a9a.t of LIBSVM")
    inputs, targets = _svmlight(find(folder, "a9a", "a9a and a9a.t"))
    if split is None:
        test = _svmlight(find(folder, "a9a.t", "a9a and a9a.t"))
        return Split(train=(inputs, targets), test=test, ids=np.arange(len(targets)))
    order = np.random.Generator(np.random.PCG64(checks.count("split", split, 0))).permutation(len(targets))
    held, kept = np.split(order, [len(targets) // 10])
    return Split(train=(inputs[kept], targets[kept]), test=(inputs[held], targets[held]), ids=kept)


def _svmlight(file: Path) -> tuple[Tensor, Tensor]:
    rows = [line.split() for line in text_of(file).splitlines() if line.strip()]
    inputs, targets = np.zeros((len(rows), _A9A), np.float32), np.zeros(len(rows), np.int64)
    for number, (label, *pairs) in enumerate(rows):
        try:
            targets[number] = {"+1": 1, "1": 1, "-1": 0}[label]
            for index, _, value in (pair.partition(":") for pair in pairs):
                inputs[number, range(1, _A9A + 1).index(int(index))] = float(value)
        except (KeyError, ValueError):
            malformed(file, number + 1, f"expected +1 or -1 and index:value pairs, with indices from 1 to {_A9A}")
    if not rows:
        raise InputError(f"{file} has no rows; get the original file again")
    return torch.from_numpy(inputs), torch.from_numpy(targets)
