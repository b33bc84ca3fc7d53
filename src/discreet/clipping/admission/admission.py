"""Which models and optimizers can be trained privately; others are refused with the module's name and a fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter

from discreet.clipping.admission.batch_norm import groups_for
from discreet.clipping.admission.foreign import foreign_tensors, is_of, makes_sparse_gradients, of_function
from discreet.clipping.admission.mixing import Findings
from discreet.clipping.admission.modes import keeps_statistics
from discreet.clipping.named_tensors import named_tensors
from discreet.core.errors import InputError, UnsupportedModel, kind_of

_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|[0-9]+")
_TOLD = 3
"""So many problems of one kind are told in full."""
_MIXES = (
    "lets the examples of a batch influence each other; make each example's output depend on that example alone (no "
    "statistics over the batch, no reshape or permute across it)"
)
_REMEMBERS = (
    "returns something else when it is called again, so it keeps state between calls or has random numbers of its own; "
    "remove the state, and draw from torch's default generator"
)
_HOOKED = (
    "has a hook on its gradient, which no step calls, as gradients are of single rows; take it off (wandb.watch sets "
    "one on each parameter), or let `forward` do what it does"
)
_POWER = (
    "has spectral norm, whose power iteration changes its vectors at every call in training; remove it "
    "(torch.nn.utils.remove_spectral_norm, or parametrize.remove_parametrizations)"
)
_WRITES = (
    "changes when the model is called, so private data would enter it; remove what writes to it, or initialise it on "
    "public input first"
)
_LIMITED = (
    "changes when the model is called, as its module has max_norm, and private rows would say which weights; leave "
    "max_norm out, or scale what the module returns in `forward`"
)


def private_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: those that require a gradient."""
    return {name: one for name, one in named_tensors(model).parameters.items() if one.requires_grad}


def private_names(model: nn.Module) -> set[str]:
    """The names of private parameters in the state dictionary; a shared parameter has several."""
    parameters = model.named_parameters(remove_duplicate=False)
    return {name for name, parameter in parameters if parameter.requires_grad}


def admit_model(model: nn.Module, findings: Findings | None = None) -> None:
    """Refuse a model whose examples would influence each other, or whose state private data would enter.

    `findings`: the results of `try_out`. One `UnsupportedModel` names all problems, with their fixes.
    """
    problems = _problems(model)
    if findings is not None:
        known = {name for name, _ in problems}
        problems += [(name, text) for name, text in _experienced(model, findings) if name not in known]
    if len(problems) > 1:
        raise UnsupportedModel(f"the model has {len(problems)} problems: {_listed(problems)}")
    if problems:
        raise UnsupportedModel(problems[0][1])


def _listed(problems: list[tuple[str, str]]) -> str:
    """All in one line. Of those that differ in names and numbers alone three are told, and of the others the names."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for name, text in problems:
        kinds.setdefault(_NAMES_AND_NUMBERS.sub("", text), []).append((name, text))
    parts, number = [], 1
    for alike in kinds.values():
        first = number
        for _, text in alike[:_TOLD]:
            parts.append(f"({number}) {text}")
            number += 1
        if others := [repr(name) for name, _ in alike[_TOLD:]]:
            last = number + len(others) - 1
            parts.append(f"({number}{f' to {last}' if last > number else ''}) as ({first}): {', '.join(others)}")
            number = last + 1
    return "; ".join(parts)


def _problems(model: nn.Module) -> list[tuple[str, str]]:
    """The problems that show without running the model: pairs (module or parameter, what is wrong)."""
    found = []
    for name, module in model.named_modules():
        fault = _fault(module)
        if fault is not None:
            found.append((name, f"{module_in_words(model, name)} {fault}"))
    foreign = foreign_tensors(model)
    found += foreign.items()
    for name, parameter in private_parameters(model).items():
        if foreign or isinstance(parameter, UninitializedParameter):
            continue  # reading sharded values would involve other processes; lazy modules are reported above
        if not parameter.dtype.is_floating_point:
            found.append((name, f"parameter {name!r} has type {parameter.dtype}; only real numbers can be trained"))
        elif parameter.is_meta:
            found.append((name, f"parameter {name!r} is on the device meta, without values; load the weights first"))
        elif not bool(torch.isfinite(parameter).all()):
            found.append((name, f"parameter {name!r} has a value that is not finite; initialise it again"))
        elif parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            found.append((name, f"parameter {name!r} {_HOOKED}"))
    if not private_parameters(model):
        found.append(("", "the model has no parameter with requires_grad=True; there is nothing to train"))
    return found


def _experienced(model: nn.Module, findings: Findings) -> list[tuple[str, str]]:
    """The findings of an experiment, as problems."""
    found = [(name, f"{module_in_words(model, name)} {_MIXES}") for name in findings.mixing]
    for name in findings.remembering:
        text = _POWER if _has_spectral_norm(model.get_submodule(name)) else _REMEMBERS
        found.append((name, f"{module_in_words(model, name)} {text}"))
    for name in findings.writing:
        owner = name.rpartition(".")[0]
        if owner not in findings.remembering:
            kind = "parameter" if name in dict(model.named_parameters()) else "buffer"
            limited = getattr(model.get_submodule(owner), "max_norm", None) is not None
            found.append((owner, f"{kind} {name!r} {_LIMITED if limited else _WRITES}"))
    found += [(name.rpartition(".")[0], of_function(name)) for name in findings.sparse]
    return found


def _has_spectral_norm(module: nn.Module) -> bool:
    """Whether a module is torch's spectral norm, or has its hook (`torch.nn.utils.spectral_norm`)."""
    return any(type(one).__name__.strip("_") == "SpectralNorm" for one in (module, *module._forward_pre_hooks.values()))


def module_in_words(model: nn.Module, name: str) -> str:
    """A module of a model in words: its name and class."""
    kind = type(dict(model.named_modules())[name])  # scripted models have no `get_submodule`
    return f"module {name or 'model'!r} ({kind.__name__})"


def admit_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """`UnsupportedModel` for an optimizer that evaluates the loss, that clips and adds noise by itself, or whose
    parameters are not the private ones."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UnsupportedModel("LBFGS evaluates the loss again and again within a step; use SGD, Adam or AdaGrad")
    if is_of(optimizer, "opacus"):
        raise UnsupportedModel(
            f"the optimizer is {kind_of(optimizer)} of Opacus, which clips and adds noise by itself; give the one that "
            "it was made of, its .original_optimizer"
        )
    if _needs_arguments(optimizer):
        raise UnsupportedModel(
            f"the optimizer is {kind_of(optimizer)}, whose step cannot be called without arguments; it works on "
            "gradients that were released, and gets no closure"
        )
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    wanted = {id(parameter) for parameter in private_parameters(model).values()}
    missing = sorted(named[one] for one in wanted - held)
    if missing:
        how = "build it from model.parameters(), or set requires_grad=False on what shall stay fixed"
        if held - named.keys():
            how = (
                "it holds others that the model does not have, as one that was made before modules were replaced, by "
                "replace_batch_norm, say: make it afterwards, from model.parameters()"
            )
        raise UnsupportedModel(f"the optimizer lacks parameter {missing[0]!r}; {how}")
    if held - wanted:
        frozen = next((named[one] for one in held - wanted if one in named), None)
        stray = (
            "a parameter that is not in the model" if frozen is None else f"parameter {frozen!r}, which is not trained"
        )
        part = "; make what a loss learns part of the model" if frozen is None else ""
        raise UnsupportedModel(
            f"the optimizer holds {stray}; give it the model's parameters with requires_grad=True only{part}"
        )


def refuse_used_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """`InputError` for an optimizer that took a step before the run, or that has one in it which did: its memory of
    gradients without noise would move the weights in every step, also where the weights were put back."""
    parts = [one for held in vars(optimizer).values() for one in (held if isinstance(held, list | tuple) else [held])]
    for one in (optimizer, *(part for part in parts if isinstance(part, torch.optim.Optimizer))):
        settings = (value for group in one.param_groups for value in group.values())
        known = {0, 1, *(value for value in settings if isinstance(value, int | float))}
        if any(_remembers(state, known) for state in one.state.values()):
            raise InputError("the optimizer was used before and remembers gradients; make a new one for the run")


def _remembers(state: Mapping[str, Any], known: Iterable[float]) -> bool:
    """Whether an optimizer's state of a parameter is another than before a first step, where a count of steps is zero
    and each tensor is filled with one number that is `known`, such as an initial value among its settings."""
    tensors = [one for name, one in state.items() if name != "step" and isinstance(one, Tensor)]
    return float(state.get("step", 1)) > 0 or not all(any(bool((one == v).all()) for v in known) for one in tensors)


def _needs_arguments(optimizer: torch.optim.Optimizer) -> bool:
    try:
        signature(type(optimizer).step).bind(optimizer)  # a scheduler puts one of its own onto the object
    except TypeError:
        return True
    return False


def _fault(module: nn.Module) -> str | None:
    if is_lazy(module):
        return "is lazy and has no parameters yet; run the model once on public input first"
    if isinstance(module, _BatchNorm) and (module.training or not keeps_statistics(module)):
        channels = module.num_features
        fixes = (
            f"replace it (discreet.replace_batch_norm(model) puts GroupNorm({groups_for(module)}, {channels}) there)"
            + (", or freeze it with public statistics (.eval())" if keeps_statistics(module) else "")
        )
        stores = " and stores statistics of private data" if keeps_statistics(module) else ", in evaluation mode too"
        return f"mixes the examples of a batch{stores}; {fixes}"
    if isinstance(module, _InstanceNorm) and keeps_statistics(module) and module.training:
        return "stores statistics of private data; set track_running_stats=False, or freeze it (.eval())"
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return 'is a wrapper; give the model in it, model.module (Training(shard="replicate") shares a run out)'
    if isinstance(module, torch.jit.ScriptModule):
        return "is a ScriptModule, into which engines cannot look; give the nn.Module that it was made of"
    compiled = _compiled(module)
    if is_compiled(module):
        return f"is compiled by torch, into whose code engines cannot look; {compiled}, or compile frozen parts only"
    return makes_sparse_gradients(module)


def is_lazy(module: nn.Module) -> bool:
    """Whether the module has no parameters until it is called for the first time."""
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()


def is_compiled(module: nn.Module) -> bool:
    """Whether the module is compiled (`torch.compile`) and has parameters to train."""
    return _compiled(module) != "" and any(parameter.requires_grad for parameter in module.parameters())


def _compiled(module: nn.Module) -> str:
    """The advice for a module that torch has compiled; "" for any other module."""
    if type(module).__name__ == "OptimizedModule" and isinstance(getattr(module, "_orig_mod", None), nn.Module):
        return "give the module that torch.compile was given (its ._orig_mod)"
    return "leave out .compile()" if getattr(module, "_compiled_call_impl", None) is not None else ""
