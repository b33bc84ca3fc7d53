"""Averages of released iterates. They are post-processing and cost nothing; noise averages out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from discreet.core.errors import InputError, kind_of


@dataclass(frozen=True, slots=True)
class Averaging:
    """How iterates are averaged: those after more than `start` steps.

    `decay` None: all alike (Polyak and Juditsky 1992; with a start, the tail average of Rakhlin, Shamir and Sridharan
    2012). With a number below 1: exponentially, an iterate k steps ago with the weight decay^k, normalised so that the
    first ones do not count for more. `start` counts charged steps of the plan; up to it, the average is the iterate.
    """

    decay: float | None = None
    start: int = 0

    def __post_init__(self) -> None:
        if self.decay is not None and not 0 <= self.decay < 1:
            raise InputError(f"averaging: decay must be at least 0 and below 1, or None, got {self.decay!r}")
        if isinstance(self.start, bool) or not isinstance(self.start, int) or self.start < 0:
            raise InputError(f"averaging: start must be a number of steps, 0 or more, got {self.start!r}")

    def weight(self, count: int) -> float:
        """The weight of the newest iterate when `count` iterates are averaged, it included; the others share the rest.

        The running average a + weight (w - a) then has exactly the weights described above.
        """
        return 1 / count if self.decay is None else (1 - self.decay) / (1 - self.decay**count)


class RunningAverage:
    """The average of a model's iterates, as a model of its own with the same buffers and frozen parameters.

    Averages are kept in at least single precision.
    """

    def __init__(self, model: nn.Module, rule: Averaging) -> None:
        if not isinstance(rule, Averaging):
            raise InputError(
                f"averaging cannot be {kind_of(rule)}; say how iterates are averaged: "
                "discreet.methods.Averaging(decay=0.99), or Averaging(start=100) for all after so many steps"
            )
        self.model, self.rule, self.count = copy.deepcopy(model), rule, 0
        self._follows = _trained(model)
        self._shown = _trained(self.model)
        self._exact = {name: _wide(parameter) for name, parameter in self._shown.items()}

    @torch.no_grad()
    def update(self, position: int) -> None:
        """Add the iterate after `position` charged steps."""
        self.count = self.count + 1 if position > self.rule.start else 0
        weight = self.rule.weight(max(1, self.count))
        for name, average in self._exact.items():
            average.lerp_(self._follows[name].detach().to(average.dtype), weight)
            self._show(name, average)

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` needs to go on."""
        return {"count": self.count, "average": dict(self._exact)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; a `ValueError` if it is of another model."""
        average = state["average"]
        shapes = {name: tensor.shape for name, tensor in self._exact.items()}
        if {name: tensor.shape for name, tensor in average.items()} != shapes:
            raise ValueError("the average is of a model with other parameters")
        self.count = state["count"]
        for name, tensor in self._exact.items():
            tensor.copy_(average[name])
            self._show(name, tensor)

    def _show(self, name: str, average: Tensor) -> None:
        shown = self._shown[name]
        if shown.data_ptr() != average.data_ptr():
            shown.data.copy_(average)


def _wide(parameter: Tensor) -> Tensor:
    """The parameter's own memory, or, where its type is short, a copy in single precision."""
    plain = parameter.detach()
    return plain.float() if plain.element_size() < 4 else plain


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
