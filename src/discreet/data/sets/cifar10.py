"""CIFAR-10 from the Python or the binary version of its authors, or from a .npz file with a part of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.data.sets.arrays import npz
from discreet.data.sets.plain_pickle import plain_pickle
from discreet.data.sets.set_files import folder_of, read
from discreet.data.sets.splits import Part, Split, divided

_NEEDS = "data_batch_1 to data_batch_5 and test_batch of CIFAR-10 (or the same as .bin), or cifar10_subset.npz"
_SHAPE, _BYTES = (3, 32, 32), 3072
_NAMES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}


def cifar10(path: Path | None, *, public: int = 0, held_out: int = 0) -> Split:
    """Images of 10 classes: 50,000 to train on and 10,000 to test, or a part; inputs (n, 3, 32, 32) in [0, 1].

    `path` is the folder of the files of one of the versions, or one that has them in `cifar10`, `cifar-10-batches-py`
    or `cifar-10-batches-bin`. Pickles are read without running anything in them. A .npz file has `x_train`, `y_train`,
    `x_test`, `y_test`; images are (32, 32, 3). A row's identifier is its place in the files. The last `public` images
    of the training part are declared public: they are for validation, and not trained on. The last `held_out` images
    replace the test part, for choosing settings.
    """
    train, test = _whole(path)
    return divided("cifar10", train, test, public=public, held_out=held_out)


def _whole(path: Path | None) -> tuple[Part, Part]:
    folder = folder_of(path, "cifar10", _NEEDS, ("cifar-10-batches-py", "cifar-10-batches-bin"))
    packed = sorted(folder.glob("cifar10*.npz"))
    if packed:
        return _subset(packed[0])
    for ending, batch in _VERSIONS.items():
        if (folder / f"test_batch{ending}").is_file():
            train, test = (_joined([batch(folder / f"{name}{ending}") for name in names]) for names in _NAMES.values())
            return train, test
    raise InputError(f"{folder} lacks {_NEEDS}; give their folder with --data DIR")


def _subset(file: Path) -> tuple[Part, Part]:
    split = npz(file)
    if split.test is None:
        raise InputError(f"{file} lacks the arrays x_test and y_test")
    train, test = (_channels_first(file, *part) for part in (split.train, split.test))
    return train, test


def _channels_first(file: Path, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if images.shape[1:] != (32, 32, 3) or labels.shape != images.shape[:1]:
        raise InputError(f"{file}: images {tuple(images.shape)} and labels {tuple(labels.shape)} are not of CIFAR-10")
    return images.permute(0, 3, 1, 2).contiguous().div_(255), labels


def _binary(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Records of a label and 3,072 values."""
    content = np.frombuffer(read(file), np.uint8)
    if len(content) == 0 or len(content) % (_BYTES + 1):
        raise InputError(f"{file} does not consist of records of {_BYTES + 1} bytes; get the original file again")
    records = content.reshape(-1, _BYTES + 1)
    return _checked(file, records[:, 1:], records[:, 0])


def _pickled(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """A dictionary with `data`, an array, and `labels`, a list."""
    content = plain_pickle(read(file), file)
    if not isinstance(content, dict):
        raise InputError(f"{file} is not a batch of CIFAR-10; get the original file again")
    named = {name.decode() if isinstance(name, bytes) else name: value for name, value in content.items()}
    data, labels = named.get("data"), named.get("labels")
    if not isinstance(data, np.ndarray) or not isinstance(labels, list):
        raise InputError(f"{file} lacks data or labels; get the original file again")
    return _checked(file, data, np.array(labels))


def _checked(file: Path, data: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if data.ndim != 2 or data.shape[1] != _BYTES or labels.shape != data.shape[:1] or labels.dtype.kind not in "iu":
        raise InputError(f"{file}: data {data.shape} and labels {labels.shape} do not pair up; get the file again")
    if ((labels < 0) | (labels > 9)).any():
        raise InputError(f"{file}: labels must be 0 to 9; get the original file again")
    return data, labels


def _joined(batches: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Tensor, Tensor]:
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    inputs = torch.from_numpy(images.astype(np.float32)).div_(255).view(-1, *_SHAPE)
    return inputs, torch.from_numpy(labels.astype(np.int64))


_VERSIONS: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {"": _pickled, ".bin": _binary}
"""For each version, the reader of its files by their suffix."""
