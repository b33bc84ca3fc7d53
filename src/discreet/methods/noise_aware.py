"""Optimizers that use the size of the noise in their gradients: a public fact, which follows from the event of the
step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.errors import InputError


class NoiseAware(torch.optim.Optimizer):
    """An optimizer that is told, before every step, the standard deviation of the noise in each coordinate.

    Training reports the noise that it added: multiplier x sensitivity / divisor of that step, whatever the schedule or
    policy, so the two always agree. In code without `Training`, call `tell` yourself before `step`.
    """

    _told: tuple[float, Mapping[Tensor, Tensor] | None] | None = None

    def tell(self, std: float, scales: Mapping[Tensor, Tensor] | None = None) -> None:
        """The noise in the gradients of the next step: its standard deviation in the unit of the noisy mean.

        `scales`: factors of `std` for each parameter, in its shape, where gradients were clipped in scales (an
        ellipsoid or a box).
        """
        self._told = checks.nonnegative("std of the noise", std), scales

    def check(self, noises: Sequence[float]) -> None:
        """Refuse a plan that this optimizer cannot work with (`InputError`), before anything is charged.

        `noises`: the standard deviations that `tell` will report, step by step, up to float slack.
        """

    def check_population(self, trained: float, held_out: float = 0.0) -> None:
        """Refuse a plan that trains on another number of units than the optimizer was made for (`InputError`), before
        anything is charged. With a share `held_out`, the number of all units is taken, too."""

    def _noise(self) -> Callable[[Tensor], float | Tensor]:
        """The reported standard deviation for a parameter. It is used for one step only, so no step uses the noise of
        an earlier one."""
        if self._told is None:
            raise InputError(
                f"{type(self).__name__} was not told the noise of this step; train through discreet, or call "
                "optimizer.tell(std) before each optimizer.step()"
            )
        (std, scales), self._told = self._told, None
        return lambda parameter: std if scales is None else std * scales[parameter]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step with the present gradients."""
        raise NotImplementedError


def tell_noise(optimizer: torch.optim.Optimizer, std: float, scales: Mapping[Tensor, Tensor] | None = None) -> None:
    """Tell an optimizer that uses it the noise of the next step (see `NoiseAware.tell`); to others it makes no
    difference."""
    if isinstance(optimizer, NoiseAware):
        optimizer.tell(std, scales)


def check_noise(optimizer: torch.optim.Optimizer, noises: Sequence[float]) -> None:
    """Show an optimizer that uses it the noise of all steps beforehand (see `NoiseAware.check`)."""
    if isinstance(optimizer, NoiseAware):
        optimizer.check(noises)


def check_population(optimizer: torch.optim.Optimizer, trained: float, held_out: float = 0.0) -> None:
    """Show an optimizer that uses it the number of units beforehand (see `NoiseAware.check_population`)."""
    if isinstance(optimizer, NoiseAware):
        optimizer.check_population(trained, held_out)
