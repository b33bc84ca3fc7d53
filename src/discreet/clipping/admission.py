"""Which models and optimizers can be trained privately; what cannot is refused by name, with the fix."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.lazy import LazyModuleMixin

from discreet.core.errors import UnsupportedModel


def private_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: those that require a gradient."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def private_names(model: nn.Module) -> set[str]:
    """The names under which the state dictionary holds private parameters; a shared one has several."""
    parameters = model.named_parameters(remove_duplicate=False)
    return {name for name, parameter in parameters if parameter.requires_grad}


def admit_model(model: nn.Module) -> None:
    """Refuse a model whose examples would influence each other, or whose state private data would enter."""
    for name, module in model.named_modules():
        fault = _fault(module)
        if fault is not None:
            raise UnsupportedModel(f"module {name or 'model'!r} ({type(module).__name__}) {fault}")
    for name, parameter in private_parameters(model).items():
        if not parameter.dtype.is_floating_point:
            raise UnsupportedModel(f"parameter {name!r} has type {parameter.dtype}; only real numbers can be trained")
        if not bool(torch.isfinite(parameter).all()):
            raise UnsupportedModel(f"parameter {name!r} has a value that is not finite; initialise it again")
    if not private_parameters(model):
        raise UnsupportedModel("the model has no parameter with requires_grad=True; there is nothing to train")


def admit_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Refuse an optimizer that looks at the loss again, or that holds other parameters than the private ones."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UnsupportedModel("LBFGS evaluates the loss again and again within a step; use SGD, Adam or AdaGrad")
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    wanted = {id(parameter) for parameter in private_parameters(model).values()}
    missing = sorted(named[one] for one in wanted - held)
    if missing:
        raise UnsupportedModel(
            f"the optimizer lacks parameter {missing[0]!r}; "
            "build it from model.parameters(), or set requires_grad=False on what shall stay fixed"
        )
    if held - wanted:
        stray = next((named[one] for one in held - wanted if one in named), "one that is not in the model")
        raise UnsupportedModel(
            f"the optimizer holds parameter {stray!r}, which is not trained; "
            "give it the model's parameters with requires_grad=True only"
        )


def _fault(module: nn.Module) -> str | None:
    if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
        return "is lazy and has no parameters yet; run the model once on public input first"
    if isinstance(module, _BatchNorm):
        channels = module.num_features
        return (
            "mixes the examples of a batch and stores statistics of private data; "
            f"replace it, for instance with torch.nn.GroupNorm(num_groups, {channels})"
        )
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        return "stores statistics of private data; set track_running_stats=False"
    return None
