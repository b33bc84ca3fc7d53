"""Training and evaluation mode, without putting a frozen norm layer into training mode.

`module.eval()` before the run freezes a norm layer with running statistics: it then scales and shifts by constants. In
training mode it would mix examples and store private statistics, so nothing here puts it into training mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm


def keeps_statistics(module: nn.Module) -> bool:
    """Whether a module is a norm layer with running statistics, which it uses in evaluation mode."""
    return isinstance(module, _BatchNorm | _InstanceNorm) and module.running_mean is not None


def frozen_norms(model: nn.Module) -> list[str]:
    """The names of the norm layers that stay in evaluation mode while the model is trained."""
    return [name for name, module in model.named_modules() if keeps_statistics(module) and not module.training]


def training_mode(model: nn.Module) -> None:
    """Put all modules into training mode, but norm layers with running statistics into evaluation mode.

    For admitted models, whose norm layers with running statistics were in evaluation mode when they were admitted.
    """
    model.train()
    for module in model.modules():
        if keeps_statistics(module):
            module.eval()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards, the mode of every module is as it was."""
    with modes_kept(model):
        model.eval()
        yield


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Afterwards, the mode of every module is as it was, also after an exception."""
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
