"""MNIST from its original idx files, plain or gzipped."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.data.sets.set_files import find, folder_of, read
from discreet.data.sets.splits import Split, divided

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_UNSIGNED_BYTE = 8


def mnist(path: Path | None, *, public: int = 0, held_out: int = 0) -> Split:
    """60,000 images to train and 10,000 to test; inputs (n, 1, 28, 28), float32 in [0, 1]; targets int64.

    `path` is the folder of the four idx files, or one that has them in a folder `mnist`. A row's identifier is its
    number there. The last `public` images of the training part are declared public: they are for validation, and not
    trained on. The last `held_out` images replace the test part, for choosing settings.
    """
    folder = folder_of(path, "mnist", "the four idx files of MNIST")
    train, test = _part(folder, "train"), _part(folder, "test")
    return divided("mnist", train, test, public=public, held_out=held_out)


def read_idx(path: Path) -> np.ndarray:
    """An array of unsigned bytes from an idx file: two zero bytes, type, rank, then sizes (big-endian) and data."""
    content = read(path)
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise InputError(f"{path} is not an idx file of unsigned bytes; get the original file again")
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    data = content[4 + 4 * rank :]
    if len(data) != math.prod(shape):
        raise InputError(f"{path} has {len(data)} bytes of data but its header says {shape}; get the file again")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _part(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    images, labels = (read_idx(find(folder, name, "the four idx files")) for name in _FILES[part])
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise InputError(f"{folder}: the {part} images {images.shape} and labels {labels.shape} do not pair up")
    inputs = torch.from_numpy(images.astype(np.float32) / 255).unsqueeze(1)
    return inputs, torch.from_numpy(labels.astype(np.int64))
