"""The handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, values 0 to 16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from discreet.data.splits import Split

TRAIN, TEST = 1437, 360


def digits(_path: Path | None = None) -> Split:
    """A fixed split, 1,437 to train and 360 to test; inputs of shape (n, 64), float32, values 0 to 16.

    Rows have the numbers that they have in scikit-learn. The paper on DP dropout splits 1,439 + 360, which does
    not add up to 1,797.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    inputs, targets = torch.from_numpy(images[order]).float(), torch.from_numpy(labels[order])
    return Split(train=(inputs[TEST:], targets[TEST:]), test=(inputs[:TEST], targets[:TEST]), ids=order[TEST:])
