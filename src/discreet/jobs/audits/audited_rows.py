"""The rows of an audit of a published model: as the model takes them, with targets that it can answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.packed import NotArrays, read_arrays
from discreet.data.tables import Encoder, public_table
from discreet.prediction.load import Predictor

Rows = tuple[Tensor, Tensor]
"""Inputs as the model itself takes them, and targets."""


def audited_rows(predictor: Predictor, path: Path, option: str) -> Rows:
    """The rows of a file that `option` names."""
    spec = predictor.spec
    if spec.table is not None:
        if not path.exists():
            raise InputError(f"{option}: there is no file or folder {path}; check the path")
        table = public_table(path, Encoder.from_json(spec.table))  # read as a whole; it stays in memory
        inputs, targets = predictor.prepared(table.inputs), table.targets
    else:
        x, y = _arrays(path, option)
        outputs = predictor.scores(x) if len(x) else torch.zeros(0, 1)
        targets = _targets(y, outputs, f"{option} {path}", classes=spec.outputs == "classes")
        inputs = predictor.prepared(x) if len(x) else torch.zeros(0)
    if len(targets) < 2:
        raise InputError(f"{option} has {len(targets)} row(s); give two at least")
    return inputs, targets


def shared(members: Rows, others: Rows) -> int:
    """The number of others that have the inputs and the target of a member."""
    seen = set(_as_bytes(members))
    return sum(one in seen for one in _as_bytes(others))


def _as_bytes(rows: Rows) -> list[bytes]:
    inputs, targets = (one.flatten(1) if one.dim() > 1 else one[:, None] for one in rows)
    return [x.tobytes() + y.tobytes() for x, y in zip(inputs.numpy(), targets.numpy(), strict=True)]


def _arrays(path: Path, option: str) -> tuple[Array, Array]:
    try:
        found = read_arrays(path, ["x", "y"])
    except OSError as error:
        raise InputError(f"cannot read {option} {path}: {error.strerror or error}") from None
    except NotArrays:
        found = {}
    if set(found) != {"x", "y"}:
        raise InputError(f"{option} {path}: give a .npz file with the arrays x (rows) and y (their targets)")
    x, y = found["x"], found["y"]
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise InputError(
            f"{option} {path}: x has shape {x.shape} and y has shape {y.shape}; give a target for each row"
        )
    if y.dtype.kind not in "fiub":
        raise InputError(f"{option} {path}: y has {y.dtype}; give numbers, such as 0 for the first class")
    return x, y


def _targets(y: Array, outputs: Tensor, where: str, *, classes: bool) -> Tensor:
    if not classes:
        numbers = torch.from_numpy(y.astype(np.float32)).reshape(len(y), -1)
        if len(y) and numbers.shape != outputs.shape:
            raise InputError(
                f"{where}: y has {numbers.shape[1]} number(s) for each row, and the model says {outputs.shape[1]}"
            )
        return numbers
    count = outputs.shape[1]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim > 1:
        raise InputError(f"{where}: y has shape {y.shape}; give one class for each row, such as y.argmax(1)")
    wrong = np.flatnonzero((y != np.floor(y)) | (y < 0) | (y >= count))
    if len(wrong):
        raise InputError(
            f"{where}: y of row {wrong[0] + 1} is no class of the model; its {count} classes are 0 to {count - 1}"
        )
    return torch.from_numpy(y.astype(np.int64))
