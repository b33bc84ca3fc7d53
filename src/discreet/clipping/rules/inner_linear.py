"""Rules for modules that consist of linear maps: the rule handles each map as a linear layer of its own."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from discreet.clipping.rules.base import Rule
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.units import Units

Part = tuple[LinearRule, str]
"""A linear map, and "weight" or "bias": which of its parameters is meant."""


class LinearParts(Rule):
    """A rule that passes every question on to the linear maps inside the module."""

    _parts: dict[str, Part] | None = None

    @abstractmethod
    def find(self) -> dict[str, Part]:
        """The linear map of every parameter, by name; called once."""

    @property
    def parts(self) -> dict[str, Part]:
        """The linear map of every parameter, by name; found at first use."""
        if self._parts is None:
            self._parts = self.find()
        return self._parts

    @property
    def maps(self) -> list[LinearRule]:
        """The linear maps, each once, in an order that is the same for every call of the module."""
        return list({id(one): one for one, _ in self.parts.values()}.values())

    @property
    def examples(self) -> int:
        return self.maps[0].examples

    def squares(self, name: str) -> Tensor:
        one, kind = self.parts[name]
        return one.squares(kind)

    def lengths(self, name: str) -> Tensor:
        one, kind = self.parts[name]
        return one.lengths(kind)

    def terms(self, name: str) -> int | Tensor:
        one, kind = self.parts[name]
        return one.terms(kind)

    def scaled_lengths(self, name: str, scale: Tensor) -> Tensor:
        one, kind = self.parts[name]
        return one.scaled_lengths(kind, scale.flatten(1) if kind == "weight" else scale)

    def total(self, name: str, weights: Tensor) -> Tensor:
        one, kind = self.parts[name]
        return one.total(kind, weights)

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        one, kind = self.parts[name]
        return one.rows(kind, start, stop)

    def drop(self, unusable: Tensor) -> None:
        for one in self.maps:
            one.drop(unusable)

    def of_units(self, units: Units) -> Rule:
        for one in self.maps:
            one.of_units(units)
        return self

    def join(self, others: list[Rule]) -> Rule | None:
        """Further calls are further positions of the same linear maps."""
        kin = [other for other in others if isinstance(other, LinearParts)]
        if len(kin) < len(others):
            return None
        for i, one in enumerate(self.maps):
            one.join([other.maps[i] for other in kin])
        return self


def examples_first(steps: Tensor) -> Tensor:
    """The steps, detached, as (batch, time, features) instead of (time, batch, features)."""
    return torch.transpose(steps.detach(), 0, 1)
