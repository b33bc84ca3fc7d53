"""Training and evaluation mode, without putting a frozen norm into training mode on the way.

A norm with kept statistics is frozen by `module.eval()` before the run: it is then a scale and a shift with constants.
In training mode it would mix examples and store private statistics, so nothing here ever switches one on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm


def keeps_statistics(module: nn.Module) -> bool:
    """Whether a module is a norm that holds running statistics, which it uses in evaluation mode."""
    return isinstance(module, _BatchNorm | _InstanceNorm) and module.running_mean is not None


def frozen_norms(model: nn.Module) -> list[str]:
    """The names of the norms that stay in evaluation mode while the model is trained."""
    return [name for name, module in model.named_modules() if keeps_statistics(module) and not module.training]


def training_mode(model: nn.Module) -> None:
    """Training mode for all modules but norms that hold running statistics, which are put into evaluation mode.

    For models that were admitted: those norms were in evaluation mode then.
    """
    model.train()
    for module in model.modules():
        if keeps_statistics(module):
            module.eval()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; outside, the mode of every module as it was."""
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
