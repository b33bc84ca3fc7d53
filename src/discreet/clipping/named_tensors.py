"""The parameters and buffers of a model by name, from one walk over its modules."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

_WALKS = ("named_parameters", "named_buffers", "named_modules", "_named_members")
"""Methods of the model that `named_parameters` and `named_buffers` rely on. Of its submodules they call only
`named_modules`."""

_TORCHS_OWN = nn.Module.named_modules


class Named(NamedTuple):
    """Parameters and buffers by name, each once, as `named_parameters` and `named_buffers` of the model give them."""

    parameters: dict[str, nn.Parameter]
    buffers: dict[str, Tensor]

    @property
    def together(self) -> dict[str, Tensor]:
        """All of them, parameters first."""
        return {**self.parameters, **self.buffers}


class _Known(NamedTuple):
    """The ids of what was found. A tensor may be both a parameter and a buffer."""

    modules: set[int]
    parameters: set[int]
    buffers: set[int]


def named_tensors(model: nn.Module) -> Named:
    """All parameters and buffers. Torch's own walks, generators within generators, take longer for a model of many
    modules; they are taken where the model, or a module inside, has walks of its own."""
    found = Named({}, {})
    its_own = any(walk in vars(model) or getattr(type(model), walk) is not getattr(nn.Module, walk) for walk in _WALKS)
    if not its_own and _visit("", model, found, _Known({id(model)}, set(), set())):
        return found
    return Named(dict(model.named_parameters()), dict(model.named_buffers()))


def _visit(prefix: str, module: nn.Module, found: Named, known: _Known) -> bool:
    """Add the tensors of a module and its submodules to `found`. False, with `found` incomplete, if one of them
    overrides `named_modules`."""
    if "named_modules" in module.__dict__ or type(module).named_modules is not _TORCHS_OWN:
        return False
    for name, one in module._parameters.items():
        if one is not None and id(one) not in known.parameters:
            known.parameters.add(id(one))
            found.parameters[prefix + name] = one
    for name, buffer in module._buffers.items():
        if buffer is not None and id(buffer) not in known.buffers:
            known.buffers.add(id(buffer))
            found.buffers[prefix + name] = buffer
    for name, child in module._modules.items():
        if child is not None and id(child) not in known.modules:
            known.modules.add(id(child))
            if not _visit(f"{prefix}{name}.", child, found, known):
                return False
    return True
