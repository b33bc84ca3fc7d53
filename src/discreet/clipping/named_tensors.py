"""The parameters and buffers of a model by name, from one walk over its modules."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

_WALKS = ("named_parameters", "named_buffers", "named_modules", "_named_members")


class Named(NamedTuple):
    """Parameters and buffers by name, each once, as `named_parameters` and `named_buffers` of the model give them."""

    parameters: dict[str, nn.Parameter]
    buffers: dict[str, Tensor]


def named_tensors(model: nn.Module) -> Named:
    """All parameters and buffers. Torch's own walks, generators within generators, take several times as long for a
    model of many modules; they are taken where a type of model has walks of its own."""
    if any(getattr(type(model), walk) is not getattr(nn.Module, walk) for walk in _WALKS):
        return Named(dict(model.named_parameters()), dict(model.named_buffers()))
    found = Named({}, {})
    _visit("", model, found, {id(model)})
    return found


def _visit(prefix: str, module: nn.Module, found: Named, known: set[int]) -> None:
    for name, one in module._parameters.items():
        if one is not None and id(one) not in known:
            known.add(id(one))
            found.parameters[prefix + name] = one
    for name, buffer in module._buffers.items():
        if buffer is not None and id(buffer) not in known:
            known.add(id(buffer))
            found.buffers[prefix + name] = buffer
    for name, child in module._modules.items():
        if child is not None and id(child) not in known:
            known.add(id(child))
            _visit(f"{prefix}{name}.", child, found, known)
