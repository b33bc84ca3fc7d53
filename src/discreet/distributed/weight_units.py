"""Weights that are gathered together: those of a block, or of a module outside of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize

from discreet.clipping.capture.owners import WHOLE, owners_of
from discreet.core.errors import UnsupportedModel

_LISTS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True, slots=True)
class WeightUnit:
    """Parameters, by the names of the model, and the modules that need them while they run. `kept`: they are needed
    until the sum of a chunk is formed, as the rule of a layer runs it again."""

    modules: tuple[str, ...]
    names: tuple[str, ...]
    kept: bool


def weight_units(model: nn.Module) -> list[WeightUnit]:
    """The parameters of a model, each in one unit: those of an entry of the outermost lists of modules together, others
    module by module. Modules that share a parameter are in one unit.

    `UnsupportedModel` for a trained parameter that a module holds beside modules with parameters of their own.
    """
    again = set()
    for owner in owners_of(model):
        if owner.open:
            raise UnsupportedModel(
                f"{owner.described} holds trained parameters beside other modules, and may have to run again for them; "
                'with shard="fully" put them into a module of their own, such as nn.Embedding'
            )
        if owner.runs_again:
            again.add(owner.module)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    units: list[WeightUnit] = []
    for name, module, held, kept in _groups(model):
        keys = {names[id(one)]: None for one in held}
        kept = kept or any(one in again for one in module.modules())
        shared = [unit for unit in units if not keys.keys().isdisjoint(unit.names)]
        for unit in shared:
            keys = dict.fromkeys(unit.names) | keys
            kept = kept or unit.kept
            units.remove(unit)
        modules = (*(one for unit in shared for one in unit.modules), name)
        units.append(WeightUnit(modules, tuple(sorted(keys)), kept))
    return units


def _groups(model: nn.Module) -> Iterator[tuple[str, nn.Module, list[nn.Parameter], bool]]:
    """Modules with parameters that are needed while they run, and whether they are needed for longer."""
    blocks = _blocks(model)
    seen: set[nn.Module] = set()

    def walk(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module, list[nn.Parameter], bool]]:
        if module in seen:
            return
        seen.add(module)
        if module in blocks or isinstance(module, WHOLE) or parametrize.is_parametrized(module):
            if held := list(module.parameters()):
                yield name, module, held, False
            return
        inside = [(child, one) for child, one in module.named_children() if any(True for _ in one.parameters())]
        direct = [one for one in module._parameters.values() if one is not None]
        if direct:
            yield name, module, direct, bool(inside)
        for child, one in inside:
            yield from walk(f"{name}.{child}" if name else child, one)

    yield from walk("", model)


def _blocks(module: nn.Module) -> set[nn.Module]:
    """The entries of the outermost lists of modules (`nn.ModuleList`, `nn.Sequential`) that are no lists themselves."""
    found: set[nn.Module] = set()
    for child in module.children():
        if isinstance(module, _LISTS) and not isinstance(child, _LISTS):
            found.add(child)
        else:
            found |= _blocks(child)
    return found
