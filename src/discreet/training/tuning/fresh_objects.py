"""The objects of a search's trials: no two trials may share one, because an earlier trial may be the best so far."""

from __future__ import annotations

from weakref import WeakSet, WeakValueDictionary

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import private_parameters
from discreet.core.errors import InputError


class Built:
    """All models, optimizers and schedulers of a search that still exist."""

    def __init__(self) -> None:
        self._whole: WeakSet[nn.Module | Optimizer | LRScheduler] = WeakSet()
        self._parameters: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()

    def note(self, model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler | None) -> None:
        """Record those of a further trial; `InputError` if they are, or train, objects of an earlier one."""
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
