"""Weights that are gathered together: of a block, of a module outside of blocks, or those that stay for longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize

from discreet.clipping.capture.owners import WHOLE, owners_of

_LISTS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True, slots=True)
class WeightUnit:
    """Parameters, by the names of the model, and the modules that need them while they run. `kept`: they are needed
    until the sum of a chunk is formed."""

    modules: tuple[str, ...]
    names: tuple[str, ...]
    kept: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """A module, and the parameters that it needs while it runs; `kept`: while modules inside run backwards, too."""

    name: str
    held: list[nn.Parameter]
    kept: bool


def weight_units(model: nn.Module) -> list[WeightUnit]:
    """The parameters of a model, each in one unit: first those that are kept, if there are any; then those of an entry
    of the outermost lists of modules together, and others module by module. Modules that share a parameter are in one
    unit."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = list(_groups(model))
    units, kept = [], _kept(model, groups)
    if kept:
        users = tuple(name for name, module in model.named_modules() if not kept.isdisjoint(_needed(module)))
        units.append(WeightUnit(users, tuple(sorted(names[key] for key in kept)), kept=True))
    for group in groups:
        keys = {names[id(one)]: None for one in group.held if id(one) not in kept}
        if not keys:
            continue
        shared = [unit for unit in units if not keys.keys().isdisjoint(unit.names)]
        for unit in shared:
            keys = dict.fromkeys(unit.names) | keys
            units.remove(unit)
        modules = (*(one for unit in shared for one in unit.modules), group.name)
        units.append(WeightUnit(modules, tuple(sorted(keys)), kept=False))
    return units


def _kept(model: nn.Module, groups: list[_Group]) -> set[int]:
    """The ids of the parameters that are needed until the sum of a chunk is formed: those of modules that rules run
    again, and those that a module holds beside modules inside, of which it may hand a part on as it is."""
    found = {id(one) for group in groups if group.kept for one in group.held}
    for owner in owners_of(model):
        if owner.runs_again:
            found |= {id(one) for one in (_direct(owner.module) if owner.open else owner.module.parameters())}
    return found


def _needed(module: nn.Module) -> set[int]:
    """The ids of the parameters that a module uses itself."""
    return {id(one) for one in (module.parameters() if _whole(module) else _direct(module))}


def _groups(model: nn.Module) -> Iterator[_Group]:
    """The modules that need parameters while they run, by blocks where there are some."""
    blocks = _blocks(model)
    seen: set[nn.Module] = set()

    def walk(name: str, module: nn.Module) -> Iterator[_Group]:
        if module in seen:
            return
        seen.add(module)
        if module in blocks or _whole(module):
            if held := list(module.parameters()):
                yield _Group(name, held, kept=False)
            return
        inside = [(child, one) for child, one in module.named_children() if any(True for _ in one.parameters())]
        if direct := _direct(module):
            yield _Group(name, direct, kept=bool(inside))
        for child, one in inside:
            yield from walk(f"{name}.{child}" if name else child, one)

    yield from walk("", model)


def _whole(module: nn.Module) -> bool:
    """Whether a module may use parameters of modules inside without calling these."""
    return isinstance(module, WHOLE) or parametrize.is_parametrized(module)


def _direct(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that a module holds itself."""
    return [one for one in module._parameters.values() if one is not None]


def _blocks(module: nn.Module) -> set[nn.Module]:
    """The entries of the outermost lists of modules (`nn.ModuleList`, `nn.Sequential`) that are no lists themselves."""
    found: set[nn.Module] = set()
    for child in module.children():
        if isinstance(module, _LISTS) and not isinstance(child, _LISTS):
            found.add(child)
        else:
            found |= _blocks(child)
    return found
