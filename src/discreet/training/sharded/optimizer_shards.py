"""An optimizer over parts of parameters: what it does to a number depends on that number alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.distributed.weight_shards import WeightShards

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

    def state_dict(self, take: Callable[[str, Tensor], Tensor]) -> dict[str, Any]:
        """The state with whole tensors, as that of an optimizer without shards. `take` makes of the part of a tensor,
        which belongs to the parameter of that name, the whole: a conversation of all processes."""
        found = self._optimizer.state_dict()
        flat = [name for known in self._names for name in known]
        states: dict[Any, Mapping[str, Any]] = found["state"]
        whole = {
            number: {key: take(flat[number], one) if _is_cut(one) else one for key, one in state.items()}
            for number, state in states.items()
        }
        return {**found, "state": whole}

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


def _is_like(parameter: Tensor, key: str, value: object) -> bool:
    """Whether a state has a number for each of the parameter's; a parameter may be a single number itself."""
    return isinstance(value, Tensor) and value.shape == parameter.shape and key not in _COUNTERS


def _is_cut(value: object) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0
