"""Noticing what must not happen to a model in training: changes that no release made, and randomness nobody seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import private_parameters
from discreet.clipping.seeding import seed_torch
from discreet.clipping.state import check_unchanged
from discreet.core.errors import PrivacyViolation
from discreet.randomness import Purpose, Stream


class Guard:
    """Watches a model between releases, by torch's own count of writes to each tensor.

    (Writes through `.data` are not counted; what is published is compared by digest as well.)
    """

    def __init__(self, model: nn.Module, initial: Mapping[str, str], hidden: Mapping[str, str]) -> None:
        self._model, self._initial, self._hidden = model, initial, hidden
        self._other = self._writes_elsewhere()
        self.note()

    def note(self) -> None:
        """Take the private parameters as they are now for the result of the last release.

        Nothing else may change with a release either: an optimizer may have been given more than it had at first.
        """
        self._private = _writes(private_parameters(self._model))

    def check(self) -> None:
        """Refuse a model that anything but a release has changed since `note`."""
        for name, parameter in private_parameters(self._model).items():
            if parameter.grad is not None:
                raise PrivacyViolation(
                    f"parameter {name!r} got a gradient that was not released; "
                    "remove .backward() from the loop, step.add does it"
                )
        if _writes(private_parameters(self._model)) != self._private:
            raise PrivacyViolation(
                "a parameter was changed by something that is not a release, inside a step or between two"
            )
        if self._writes_elsewhere() != self._other:
            check_unchanged(self._model, self._initial, self._hidden)
            self._other = self._writes_elsewhere()

    def _writes_elsewhere(self) -> dict[str, tuple[int, int]]:
        private = private_parameters(self._model)
        tensors = [*self._model.named_parameters(), *self._model.named_buffers()]
        return _writes({name: tensor for name, tensor in tensors if name not in private})


@contextmanager
def model_randomness(stream: Stream, position: int) -> Iterator[None]:
    """Inside, torch's generator (dropout, augmentation) is seeded with secret bits of the step; outside, as it was.

    Drawing from the generators of NumPy or of Python is refused: nobody knows who seeded them, and one more row would
    shift what they give to all rows after it.
    """
    word = int(stream.substream(Purpose.MODEL, position).words(1)[0])
    numpy_before, python_before = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng():
        seed_torch(word >> 1)
        yield
    numpy_after = np.random.get_state()  # noqa: NPY002
    same = all(np.array_equal(a, b) for a, b in zip(numpy_before, numpy_after, strict=True))
    if not same or random.getstate() != python_before:
        raise PrivacyViolation(
            "the data set or the model drew from the global generator of NumPy or Python inside a step; "
            "use torch's generator, which is seeded with secret bits"
        )


@contextmanager
def generators_put_back() -> Iterator[None]:
    """Afterwards the generators of torch, NumPy and Python are where they were, however much was drawn inside."""
    numpy_before, python_before = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(numpy_before)  # noqa: NPY002
        random.setstate(python_before)


def _writes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
    """Which tensor each name stands for, and how often it was written to."""
    return {name: (id(tensor), tensor._version) for name, tensor in tensors.items()}
