"""What the trials of a search are made of: nothing of it may be in two of them, as one may be the best so far."""

from __future__ import annotations

from weakref import WeakSet, WeakValueDictionary

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import private_parameters
from discreet.core.errors import InputError


class Built:
    """All models, optimizers and schedulers of a search that are still there."""

    def __init__(self) -> None:
        self._whole: WeakSet[nn.Module | Optimizer | LRScheduler] = WeakSet()
        self._parameters: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()

    def note(self, model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler | None) -> None:
        """Take note of those of a further trial; `InputError` if they are, or train, what an earlier one has."""
        whole = [part for part in (model, optimizer, scheduler) if part is not None]
        if any(part in self._whole for part in whole):
            raise InputError(
                "build returned the same model, optimizer or scheduler twice; make new ones for every trial: trials "
                "must be alike"
            )
        for name, parameter in private_parameters(model).items():
            if self._parameters.get(id(parameter)) is parameter:
                raise InputError(
                    f"build returned a model that trains {name!r} of an earlier one; make new layers for every trial"
                )
            self._parameters[id(parameter)] = parameter
        self._whole.update(whole)
