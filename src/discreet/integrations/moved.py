"""Whether training moved exactly the weights that it should: all trainable ones, and no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import torch
from torch import nn

from discreet.clipping.admission.admission import private_names
from discreet.clipping.digests import state_digests
from discreet.core.errors import PrivacyViolation
from discreet.training.callbacks.base import Told, ToldAlone


def check_moved(before: Mapping[str, str], now: Mapping[str, str], trained: Set[str]) -> None:
    """`PrivacyViolation` unless the tensors whose digests differ are the `trained` ones."""
    moved = {name for name in now if now[name] != before.get(name)}
    if moved - trained:
        raise PrivacyViolation(f"{sorted(moved - trained)[0]!r} is frozen and moved, which no release explains")
    if trained and not moved:
        raise PrivacyViolation(
            "no weight moved: no step of this run was taken, as when all were charged and lost before a crash (then "
            "begin another run), or the optimizer steps other weights than those of the model, or in steps too small "
            "for their type"
        )
    if trained - moved:
        raise PrivacyViolation(
            f"{sorted(trained - moved)[0]!r} is trainable and did not move, although noise was added to its gradient: "
            "the optimizer steps other weights than those of the model, or in steps too small for their type"
        )


class FirstStep(ToldAlone):
    """A callback that checks what moved in the first step whose learning rate is not zero (`check_moved`).

    `model`: returns the model that would be published now.
    """

    def __init__(self, model: Callable[[], nn.Module], optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._before, self._rate = state_digests(model()), self._largest_rate()

    def tell(self, told: Told) -> None:
        """Check once, after a step that was taken with a learning rate above zero."""
        if self._rate > 0:
            model = self._model()
            check_moved(self._before, state_digests(model), private_names(model))
            self._rate = float("-inf")
        elif self._rate == 0:
            self._rate = self._largest_rate()

    def _largest_rate(self) -> float:
        return max(float(group["lr"]) for group in self._optimizer.param_groups)
