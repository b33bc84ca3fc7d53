"""Arrays of your own, from a NumPy .npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.data.packed import NotArrays, read_arrays
from discreet.data.sets.splits import Split


def npz(path: Path | None) -> Split:
    """Read `x_train`, `y_train` and, if there, the public `x_test`, `y_test` (never a pickled object).

    The optional `units_train` gives the user of each row of `x_train`: whole numbers or text. The optional `ids_train`
    identifies each row in a way that does not depend on other rows. Inputs become float32, whole-number targets int64
    class indices, other targets float32.
    """
    if path is None:
        raise InputError("this recipe trains on your own arrays; give the file with --data FILE.npz")
    try:
        arrays = read_arrays(path)
    except OSError as error:
        raise InputError(f"cannot read --data {path}: {error.strerror or error}; give a .npz file") from None
    except NotArrays:
        raise InputError(f"--data {path} is not a .npz file of plain arrays; write it with numpy.savez") from None
    test = _pair(path, arrays, "test") if "x_test" in arrays else None
    units, ids = (arrays.get(f"{name}_train") for name in ("units", "ids"))
    return Split(train=_pair(path, arrays, "train"), test=test, units=units, ids=ids)


def _pair(path: Path, arrays: dict[str, np.ndarray], part: str) -> tuple[Tensor, Tensor]:
    names = f"x_{part}", f"y_{part}"
    for name in names:
        if name not in arrays:
            raise InputError(f"--data {path} lacks the array {name!r}; it has {', '.join(sorted(arrays)) or 'none'}")
        if arrays[name].dtype.kind not in "fiub":
            raise InputError(f"--data {path}: array {name!r} has type {arrays[name].dtype}; it must hold numbers")
    x, y = (arrays[name] for name in names)
    targets = torch.from_numpy(y.astype(np.float32 if y.dtype.kind == "f" else np.int64))
    return torch.from_numpy(x.astype(np.float32)), targets
