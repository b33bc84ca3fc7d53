"""The handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, values 0 to 16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from discreet.data.sets.splits import Split, divided

TRAIN, TEST = 1437, 360


def digits(_path: Path | None = None, *, held_out: int = 0) -> Split:
    """A fixed split, 1,437 to train and 360 to test; inputs of shape (n, 64), float32, values 0 to 16.

    A row's identifier is its number in scikit-learn. The last `held_out` training images replace the test part, for
    choosing settings. The paper on DP dropout splits 1,439 + 360, which does not add up to 1,797.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    inputs, targets = torch.from_numpy(images[order]).float(), torch.from_numpy(labels[order])
    train, test = (inputs[TEST:], targets[TEST:]), (inputs[:TEST], targets[:TEST])
    split = divided("digits", train, test, held_out=held_out)
    return replace(split, ids=order[TEST : len(order) - held_out])
