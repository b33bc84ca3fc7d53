"""What the trials of a search are made of: nothing of it may be in two of them, as one may be the best so far."""

from __future__ import annotations

from weakref import WeakSet, WeakValueDictionary

from torch import nn
from torch.optim import Optimizer

from discreet.clipping import private_parameters
from discreet.core.errors import InputError


class Built:
    """All models and optimizers of a search that are still there."""

    def __init__(self) -> None:
        self._whole: WeakSet[nn.Module | Optimizer] = WeakSet()
        self._parameters: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()

    def note(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Take note of those of a further trial; `InputError` if they are, or train, what an earlier one has."""
        if model in self._whole or optimizer in self._whole:
            raise InputError("build returned the same model or optimizer twice; make new ones for every trial")
        for name, parameter in private_parameters(model).items():
            if self._parameters.get(id(parameter)) is parameter:
                raise InputError(
                    f"build returned a model that trains {name!r} of an earlier one; make new layers for every trial"
                )
            self._parameters[id(parameter)] = parameter
        self._whole.update((model, optimizer))
