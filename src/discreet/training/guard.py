"""Guards of a model in training: no change without a release, and no randomness without a seed."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import frozen_norms, private_parameters
from discreet.clipping.digests import check_unchanged
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.precision import arithmetic
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.memory import alike, bits, same_values
from discreet.core.errors import InputError, PrivacyViolation, UnsupportedModel
from discreet.randomness import Purpose, Stream, Substream

Writes = dict[str, tuple[int, int]]
"""For each name the identity of its tensor, and torch's count of writes to it."""

_CHANGED = "a parameter was changed by something that is not a release, inside a step or between two"


class Guard:
    """Watches a model between releases, by torch's own count of writes to each tensor.

    Torch does not count writes through `.data`. So private parameters are compared bit by bit with a copy made after
    the last release; everything else is compared with its declared digest before the model is evaluated or published.
    Cards compare without anybody waiting for them; what they found in a step is looked at by every `check` until the
    step is over, and it meets one before its release.

    `pieces`: where several processes share out the private parameters, what this one has of them, which is compared in
    their place.
    """

    def __init__(
        self,
        model: nn.Module,
        initial: Mapping[str, str],
        hidden: Mapping[str, str],
        pieces: Mapping[str, nn.Parameter] | None = None,
    ) -> None:
        self._model, self._initial, self._hidden, self._pieces = model, initial, hidden, pieces
        self._frozen = frozen_norms(model)
        private, self._private, self._other = self._look()
        self._values = {name: one.detach().clone() for name, one in private.items()}
        self._finite: bool | None = None
        self._differ: list[Tensor] = []  # found on cards in the step that is open; nobody has waited for it

    def note(self) -> None:
        """Remember the private parameters as the result of the last release.

        A change of anything else stays visible to `check`, because an optimizer may have been given further parameters.
        """
        private, self._private, _ = self._look()
        self._finite = None
        for name, parameter in private.items():
            self._values[name] = _kept(parameter.detach(), self._values.get(name))

    def check(self) -> None:
        """Refuse a model that anything but a release has changed since `note`."""
        private, writes, other = self._look()
        for name, parameter in (*private.items(), *([] if self._pieces is None else self._model.named_parameters())):
            if parameter.grad is not None:
                raise PrivacyViolation(
                    f"parameter {name!r} got a gradient that was not released; "
                    "remove .backward() from the loop, step.add does it"
                )
        if self._frozen and (switched_on := [one for one in self._frozen if self._model.get_submodule(one).training]):
            raise UnsupportedModel(
                f"norm {switched_on[0]!r} was switched to training mode, in which it has statistics of a batch; call "
                "discreet.clipping.training_mode(model) in the place of model.train()"
            )
        if writes != self._private or _any([*self._differ, *self._compare(private)]):
            raise PrivacyViolation(_CHANGED)
        if other != self._other:
            check_unchanged(self._model, self._initial, self._hidden)
            _, _, self._other = self._look()

    @property
    def finite(self) -> bool:
        """Whether every private parameter was a finite number after the last release."""
        if self._finite is None:
            self._finite = all(_is_finite(one) for one in self._values.values())
        return self._finite

    def check_values(self) -> None:
        """Refuse private parameters that differ in any bit from the result of the last release: now, or on a card at
        the next `check`."""
        self._differ += self._compare(private_parameters(self._model) if self._pieces is None else self._pieces)

    def step_is_over(self) -> None:
        """Forget what cards found in the last step, which was released or never will be."""
        self._differ = []

    def _compare(self, private: Mapping[str, nn.Parameter]) -> list[Tensor]:
        """Refuse private parameters that differ, or return whether they do as tensors that nobody has waited for."""
        flags = []
        for name, parameter in private.items():
            now, kept = parameter.detach(), self._values[name]
            if on_card(now) and alike(now, kept):
                flags.append((bits(now) != bits(kept)).any())
            elif not same_values(now, kept):
                raise PrivacyViolation(_CHANGED)
        return flags and [_together(flags)]

    def _look(self) -> tuple[dict[str, nn.Parameter], Writes, Writes]:
        """The private parameters, writes to them, and writes to everything else, from one walk over the model."""
        parameters, buffers = named_tensors(self._model)
        private = {name: one for name, one in parameters.items() if one.requires_grad}
        fixed = {name: one for name, one in parameters.items() if not one.requires_grad}
        other = {name: (id(one), one._version) for name, one in (*fixed.items(), *buffers.items())}
        private = private if self._pieces is None else dict(self._pieces)
        return private, {name: (id(one), one._version) for name, one in private.items()}, other


def mode_of(model: nn.Module, *, bits: bool) -> str:
    """A digest of what decides how a model computes besides its values: its modes and hooks, autocast, precision; and
    the number of threads, if `bits` count, which add up in another order."""
    hooked = [
        (one.training, len(one._forward_hooks), len(one._forward_pre_hooks), len(one._backward_hooks))
        for one in model.modules()
    ]
    facts: list[object] = [arithmetic(next(model.parameters()).device.type), hooked]
    facts += [torch.get_num_threads()] if bits else []
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def refuse_other_arithmetic(device: str, measured: str) -> None:
    """`InputError` if a model would round on a device otherwise than was `measured` ("": nothing was)."""
    if measured not in ("", now := arithmetic(device)):
        raise InputError(
            f"rounding was measured under {measured}, and now there is {now}; run as the Training was made, and for "
            "autocast give EngineOptions(autocast=torch.bfloat16), which measures it"
        )


def _together(flags: list[Tensor]) -> Tensor:
    """Whether one of the flags is set, as a tensor of shape (), which a graphics card may still be computing."""
    return torch.stack([one.to(flags[0].device) for one in flags]).any()


def _any(flags: list[Tensor]) -> bool:
    """Whether one of the flags is set. It waits for a graphics card to compute them."""
    return bool(flags) and bool(_together(flags))


def on_card(tensor: Tensor) -> bool:
    """Whether a tensor is on an accelerator, where reading a number waits for all work that was queued before."""
    return tensor.device.type != "cpu"


def has_finite_weights(model: nn.Module) -> bool:
    """Whether all trained weights of a model are finite numbers. Frozen ones are as they were declared: a mask may hold
    infinite ones."""
    return all(_is_finite(one.detach()) for one in model.parameters() if one.requires_grad)


def _is_finite(values: Tensor) -> bool:
    return not values.numel() or bool(torch.isfinite(torch.stack(values.aminmax())).all())


def _kept(value: Tensor, kept: Tensor | None) -> Tensor:
    """A copy of `value`, in the memory of `kept` if its shape fits."""
    if kept is None or (kept.shape, kept.dtype, kept.device) != (value.shape, value.dtype, value.device):
        return value.clone()
    return kept.copy_(value)


def model_randomness(stream: Stream, position: int) -> AbstractContextManager[None]:
    """A context in which torch's generator (dropout, augmentation) is seeded with secret bits of the step; afterwards
    it is restored."""
    return seeded(stream.substream(Purpose.MODEL, position))


@contextmanager
def seeded(words: Substream) -> Iterator[None]:
    """Inside the context torch's generator is seeded with the next of these secret words; afterwards it is restored."""
    with torch.random.fork_rng():
        seed_torch(int(words.words(1)[0]) >> 1)
        yield


@contextmanager
def generators_put_back() -> Iterator[None]:
    """Restore the generators of torch, NumPy and Python afterwards."""
    numpy_before, python_before = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        np.random.set_state(numpy_before)  # noqa: NPY002
        random.setstate(python_before)
