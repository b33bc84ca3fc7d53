"""An optimizer over parts of parameters: what it does to a number depends on that number alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.distributed.weight_shards import Cut, WeightShards
from discreet.training.run.state_json import Shard

_NUMBER_BY_NUMBER = (
    *(torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop),
    *(torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam),
)


_COUNTERS = frozenset({"step", "mu_product"})
"""States that count steps: one number for a parameter of any size."""


def check_number_by_number(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that may look at a parameter as a whole."""
    if type(optimizer) not in _NUMBER_BY_NUMBER:
        names = ", ".join(one.__name__ for one in _NUMBER_BY_NUMBER)
        raise InputError(
            f'{type(optimizer).__name__} may need whole parameters; with shard="fully" use one that treats each number '
            f"by itself: {names}"
        )


class OptimizerShards:
    """`optimizer` over the pieces of `shards` in the place of the parameters of `model`; its state is cut like them."""

    def __init__(self, optimizer: torch.optim.Optimizer, model: nn.Module, shards: WeightShards, rank: int) -> None:
        self._optimizer, self._shards = optimizer, shards
        self._held = [group["params"] for group in optimizer.param_groups]
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._names = [[names[id(one)] for one in held] for held in self._held]
        for group, held, known in zip(optimizer.param_groups, self._held, self._names, strict=True):
            group["params"] = [shards.pieces[name] for name in known]
            for parameter, name in zip(held, known, strict=True):
                if parameter in optimizer.state:
                    start, stop = shards.cuts[name].part(rank)
                    state = optimizer.state.pop(parameter)
                    optimizer.state[shards.pieces[name]] = {
                        key: one.reshape(-1)[start:stop].clone() if _is_like(parameter, key, one) else one
                        for key, one in state.items()
                    }

    def state_dict(self) -> dict[str, Any]:
        """The state as that of an optimizer without shards, with what this process has of each tensor."""
        found = self._optimizer.state_dict()
        shapes = [self._shards.cuts[name].shape for known in self._names for name in known]
        states: dict[Any, Mapping[str, Any]] = found["state"]
        shared = {
            number: {key: Shard(one, shapes[number]) if _is_cut(one) else one for key, one in state.items()}
            for number, state in states.items()
        }
        return {**found, "state": shared}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of which `own_state` has kept what this process needs."""
        self._optimizer.load_state_dict(state)

    def settings(self) -> list[dict[str, str]]:
        """The settings of its groups, which are the same in all processes."""
        return [
            {key: str(value) for key, value in group.items() if key != "params"}
            for group in self._optimizer.param_groups
        ]

    def put_back(self) -> None:
        """Let the optimizer hold its parameters again; what it remembers is dropped."""
        self._optimizer.state.clear()
        for group, held in zip(self._optimizer.param_groups, self._held, strict=True):
            group["params"] = held


def own_state(optimizer: torch.optim.Optimizer, number: int, key: str, whole: Tensor, rank: int, size: int) -> Tensor:
    """The part that a process of so many keeps of a state of parameter `number` of the optimizer, before it is shared
    out. All of it, if there is no such parameter: the optimizer will refuse it."""
    held = [one for group in optimizer.param_groups for one in group["params"]]
    if number >= len(held) or not _is_like(held[number], key, whole):
        return whole
    start, stop = Cut.of(held[number], size).part(rank)
    return whole.reshape(-1)[start:stop].clone()


def _is_like(parameter: Tensor, key: str, value: object) -> bool:
    """Whether a state has a number for each of the parameter's; a parameter may be a single number itself."""
    return isinstance(value, Tensor) and value.shape == parameter.shape and key not in _COUNTERS


def _is_cut(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0
