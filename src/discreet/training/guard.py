"""Noticing what must not happen to a model in training: changes that no release made, and randomness nobody seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import frozen_norms, private_parameters
from discreet.clipping.digests import check_unchanged
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.memory import same_values
from discreet.core.errors import PrivacyViolation, UnsupportedModel
from discreet.randomness import Purpose, Stream

Writes = dict[str, tuple[int, int]]
"""By name, which tensor it stands for, and how often that was written to."""

_CHANGED = "a parameter was changed by something that is not a release, inside a step or between two"


class Guard:
    """Watches a model between releases, by torch's own count of writes to each tensor.

    Writes through `.data` are not counted. So private parameters are held against a copy of what the last release made
    of them, bit by bit; everything else against its declared digest, before it is evaluated or published.
    """

    def __init__(self, model: nn.Module, initial: Mapping[str, str], hidden: Mapping[str, str]) -> None:
        self._model, self._initial, self._hidden = model, initial, hidden
        self._private, self._other = self._writes()
        self._frozen = frozen_norms(model)
        self._values = {name: one.detach().clone() for name, one in private_parameters(model).items()}

    def note(self) -> None:
        """Take the private parameters as they are now for the result of the last release.

        Nothing else may change with a release either: an optimizer may have been given more than it had at first.
        """
        self._private, _ = self._writes()
        for name, parameter in private_parameters(self._model).items():
            self._values[name] = _kept(parameter.detach(), self._values.get(name))

    def check(self) -> None:
        """Refuse a model that anything but a release has changed since `note`."""
        for name, parameter in private_parameters(self._model).items():
            if parameter.grad is not None:
                raise PrivacyViolation(
                    f"parameter {name!r} got a gradient that was not released; "
                    "remove .backward() from the loop, step.add does it"
                )
        if switched_on := [name for name in self._frozen if self._model.get_submodule(name).training]:
            raise UnsupportedModel(
                f"norm {switched_on[0]!r} was switched to training mode, in which it has statistics of a batch; call "
                "discreet.clipping.training_mode(model) in the place of model.train()"
            )
        private, other = self._writes()
        if private != self._private:
            raise PrivacyViolation(_CHANGED)
        self.check_values()
        if other != self._other:
            check_unchanged(self._model, self._initial, self._hidden)
            _, self._other = self._writes()

    def check_values(self) -> None:
        """Refuse private parameters that are not what the last release made of them, as they are now."""
        for name, parameter in private_parameters(self._model).items():
            if not same_values(parameter.detach(), self._values[name]):
                raise PrivacyViolation(_CHANGED)

    def _writes(self) -> tuple[Writes, Writes]:
        """Of private parameters, and of everything else."""
        private: Writes = {}
        other: Writes = {}
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad:
                private[name] = id(parameter), parameter._version
            else:
                other[name] = id(parameter), parameter._version
        for name, buffer in self._model.named_buffers():
            other[name] = id(buffer), buffer._version
        return private, other


def _kept(value: Tensor, kept: Tensor | None) -> Tensor:
    """A copy of `value`, in the memory of `kept` if that fits."""
    if kept is None or (kept.shape, kept.dtype, kept.device) != (value.shape, value.dtype, value.device):
        return value.clone()
    return kept.copy_(value)


@contextmanager
def model_randomness(stream: Stream, position: int) -> Iterator[None]:
    """Inside, torch's generator (dropout, augmentation) is seeded with secret bits of the step; outside, as it was."""
    word = int(stream.substream(Purpose.MODEL, position).words(1)[0])
    with torch.random.fork_rng():
        seed_torch(word >> 1)
        yield


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
