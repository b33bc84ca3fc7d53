"""Several optimizers that share the releases of one run, each for its own parameters."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.methods.noise_aware import NoiseAware, check_noise, check_population, tell_noise


class Several(NoiseAware):
    """Optimizers over disjoint parameters as one: `Several(SGD(body), Adam(head))`.

    Each step is one step of all of them, with the gradients of the same release. Their parameter groups are shared, in
    order, so a scheduler over this optimizer sets the rates in all of them.
    """

    _complete = False

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        if not optimizers:
            raise InputError("Several needs at least one optimizer")
        self.optimizers = optimizers
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        held = [id(parameter) for group in groups for parameter in group["params"]]
        if len(set(held)) < len(held):
            raise InputError("Several: a parameter belongs to two of the optimizers; give each its own parameters")
        if any(isinstance(optimizer, torch.optim.LBFGS) for optimizer in optimizers):
            raise InputError("Several: LBFGS evaluates the loss again and again within a step; use SGD or Adam")
        super().__init__([{"params": group["params"]} for group in groups], {})
        self._share()
        self._complete = True

    def _share(self) -> None:
        """Share the groups and states of the optimizers, rather than copies."""
        self.param_groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.state = ChainMap(*(optimizer.state for optimizer in self.optimizers))  # type: ignore[assignment]

    def tell(self, std: float, scales: Mapping[Tensor, Tensor] | None = None) -> None:
        """Pass the noise on to the optimizers that use it."""
        for optimizer in self.optimizers:
            tell_noise(optimizer, std, scales)

    def check(self, noises: Sequence[float]) -> None:
        """Let the optimizers that use the noise check it."""
        for optimizer in self.optimizers:
            check_noise(optimizer, noises)

    def check_population(self, trained: float, held_out: float = 0.0) -> None:
        """Let the optimizers that use the number of units check it."""
        for optimizer in self.optimizers:
            check_population(optimizer, trained, held_out)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step of each."""
        if closure is not None:
            raise InputError("Several takes no closure: an optimizer over releases never looks at the loss")
        for optimizer in self.optimizers:
            optimizer.step()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: add a new group to one of the optimizers before they are put together."""
        if self._complete:
            raise InputError("Several: add the parameters to one of its optimizers before putting them together")
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The state of each, in order."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Put back what `state_dict` returned."""
        states = state_dict["optimizers"]
        if len(states) != len(self.optimizers):
            raise ValueError(f"the state is of {len(states)} optimizers, but there are {len(self.optimizers)}")
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)
        self._share()
