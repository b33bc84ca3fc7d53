"""Parameters that engines cannot clip: sharded over processes, sparse, or with sparse gradients; models in wrappers.

For a sharded parameter an engine would find no gradient, or only that of the local part, and sum up zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from discreet.clipping.named_tensors import named_tensors
from discreet.core.errors import UnsupportedModel, kind_of

_SHARED = (
    "the engines do not see the gradients of its parts; give the model whole, as it was before sharding "
    '(Training(shard="fully") shares it out)'
)
_OPACUS = "Opacus, whose hooks take gradients of rows by themselves; give the model alone"
_SPARSE = "the engines clip dense gradients only; make it with sparse=False"


def foreign_tensors(model: nn.Module) -> dict[str, str]:
    """The faults of parameters and buffers that are no plain tensors, or else of modules that torch.distributed or
    Opacus wraps, or that Opacus has left hooks in: the first of each kind, by name."""
    found = _first_of_each([(name, _kind(tensor)) for name, tensor in named_tensors(model).together.items()])
    found = found or _first_of_each([(name, _wrapper(module)) for name, module in model.named_modules()])
    return found or _first_of_each([(name, _hooked(module)) for name, module in model.named_modules()])


def is_of(one: object, package: str) -> bool:
    """Whether the class of an object, or a base class of it, comes from a package. It need not be installed."""
    return any(kind.__module__.startswith(f"{package}.") for kind in type(one).__mro__)


def refuse_foreign(parameters: Mapping[str, Tensor]) -> None:
    """`UnsupportedModel` for a parameter that is no plain tensor: an engine that is called by itself would add up
    zeros, or meet other processes on the way."""
    for name, one in parameters.items():
        if type(one) is not nn.Parameter and (kind := _kind(one)):
            raise UnsupportedModel(f"{name!r} is {kind}")


def makes_sparse_gradients(module: nn.Module) -> str | None:
    """The fault of a trained embedding that makes sparse gradients; None for other modules."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse and module.weight.requires_grad:
        return f"has sparse gradients; {_SPARSE}"
    return None


def of_function(name: str) -> str:
    """The fault of a function that gives the parameter `name` a sparse gradient."""
    return (
        f"parameter {name!r} has a sparse gradient; {_SPARSE}, also where a function of torch.nn.functional is called"
    )


def _kind(tensor: Tensor) -> str:
    """A description of a tensor that is not plain; empty for a plain one."""
    if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
        return ""
    if is_traceable_wrapper_subclass(tensor):
        return f"{kind_of(tensor)}: {_SHARED}"
    return "" if tensor.layout is torch.strided else "a sparse tensor: make it dense, with .to_dense()"


def _wrapper(module: nn.Module) -> str:
    """A description of a module whose class comes from torch.distributed, or wraps for Opacus; empty for others."""
    if is_of(module, "opacus.grad_sample"):
        return f"{kind_of(module)} of {_OPACUS}, its .to_standard_module()"
    return f"{kind_of(module)}: {_SHARED}" if is_of(module, "torch.distributed") else ""


def _hooked(module: nn.Module) -> str:
    """A description of a module with hooks of Opacus; empty for others."""
    if any(getattr(one, "__module__", "").startswith("opacus.") for one in module._forward_hooks.values()):
        return f"still wrapped by {_OPACUS}, made anew, or .to_standard_module() of the wrapper"
    return ""


def _first_of_each(kinds: list[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, kind in kinds:
        if kind:
            found.setdefault(kind, []).append(name or "model")
    return {
        names[0]: f"{names[0]!r}" + f" (and {len(names) - 1} more)" * (len(names) > 1) + f" is {kind}"
        for kind, names in found.items()
    }
