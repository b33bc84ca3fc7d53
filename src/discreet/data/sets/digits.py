"""The handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, values 0 to 16."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from discreet.core.array_types import Array, IntArray
from discreet.core.errors import InputError
from discreet.data.sets.splits import Split, divided

_TEST = 360


def digits(_path: Path | None = None, *, held_out: int = 0) -> Split:
    """A fixed split, 1,437 to train and 360 to test; inputs of shape (n, 64), float32, values 0 to 16.

    A row's identifier is its number in scikit-learn. The last `held_out` training images replace the test part, for
    choosing settings. The paper on DP dropout splits 1,439 + 360, which does not add up to 1,797.
    """
    images, labels = shipped()
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    inputs, targets = torch.from_numpy(images[order]).float(), torch.from_numpy(labels[order])
    train, test = (inputs[_TEST:], targets[_TEST:]), (inputs[:_TEST], targets[:_TEST])
    split = divided("digits", train, test, held_out=held_out)
    return replace(split, ids=order[_TEST : len(order) - held_out])


def shipped() -> tuple[Array, IntArray]:
    """Images, shape (1797, 64), and labels as `sklearn.datasets.load_digits` gives them, from the file that it reads.

    scikit-learn itself is not imported, which would take longer than to train on them.
    """
    found = find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        raise InputError("the digits come with scikit-learn, which is not installed: pip install scikit-learn")
    rows = np.loadtxt(Path(found.submodule_search_locations[0], "datasets", "data", "digits.csv.gz"), delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)
