"""Breast Cancer Wisconsin (Original), from its UCI file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.data.sets.set_files import find, folder_of, malformed, text_of
from discreet.data.sets.splits import Split

SPLITS = 10
_NAME = "breast-cancer-wisconsin.data"
_CLASSES = {"2": 0, "4": 1}
_TEST = 0.18
"""Yu et al. 2019 train on 560 and test on 123 of the 683 complete rows."""


def cancer(path: Path | None, split: int = 0, missing: float | None = None) -> Split:
    """Nine properties of cells and whether the tumour is malignant (1) or benign (0); inputs (n, 9) in [0, 1].

    The documented range of every property, 1 to 10, is scaled to [0, 1]. `split` is one of ten public random cuts, 0 to
    9, into 82 % to train on and 18 % to test: 560 and 123 rows, as many as Yu et al. 2019 have. A row with a missing
    value (16 of the 699) is left out, as in that paper; or, with `missing` from 1 to 10, that value is filled in. A
    row's identifier is its line in the file, from 0, because the sample numbers in the file are not unique.
    """
    if split not in range(SPLITS) or isinstance(split, bool):
        raise InputError(f"cancer has splits 0 to {SPLITS - 1}, got {split!r}")
    if missing is not None and not 1 <= checks.real("missing", missing) <= 10:
        raise InputError(f"cancer: missing must lie in the range of the properties, 1 to 10, got {missing!r}")
    file = find(folder_of(path, "cancer", f"{_NAME} of UCI"), _NAME, _NAME)
    rows = [
        (number, row)
        for number, line in enumerate(text_of(file).splitlines())
        if line.strip() and (row := _row(file, number + 1, line, missing)) is not None
    ]
    if len(rows) < 2:
        raise InputError(f"{file} has no rows to train and test on; get the original file again")
    lines = np.array([number for number, _ in rows])
    inputs = torch.tensor([values for _, (values, _) in rows])
    targets = torch.tensor([target for _, (_, target) in rows])
    order = np.random.Generator(np.random.PCG64(split)).permutation(len(rows))
    test, train = np.split(order, [max(1, round(_TEST * len(rows)))])
    return Split(train=(inputs[train], targets[train]), test=(inputs[test], targets[test]), ids=lines[train])


def _row(file: Path, line: int, text: str, missing: float | None) -> tuple[list[float], int] | None:
    """Inputs and target of a line; None if it is left out."""
    fields = [field.strip() for field in text.split(",")]
    if len(fields) != 11 or fields[10] not in _CLASSES:
        malformed(file, line, "expected a number, nine properties and the class 2 or 4, separated by commas")
    if "?" in fields and missing is None:
        return None
    values = [missing if field == "?" else _property(field) for field in fields[1:10]]
    if None in values:
        malformed(file, line, "properties are whole numbers from 1 to 10, or ?")
    return [(value - 1) / 9 for value in values if value is not None], _CLASSES[fields[10]]


def _property(field: str) -> float | None:
    return float(field) if field.isdecimal() and 1 <= int(field) <= 10 else None
