"""The clipping of a run: the clip of a step, from the plan and from earlier releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping import BIT, Clip, Group
from discreet.clipping.geometry import Geometry, checked_scales
from discreet.core.errors import InputError, kind_of
from discreet.core.events import Event
from discreet.core.release import Release
from discreet.mechanism import grid_for, noise_multiplier, rescaled
from discreet.plan.clip_rules import ClipRule, StepClip

_SOME_GRID = 2.0**-30


class Clipping:
    """The state of clipping that changes during a run: the adaptive norm, and the scales of a geometry. All of it is
    public.

    `InputError` if the plan's clip rule does not fit the parameters, or if `geometry` is missing, superfluous or not
    the plan's. `reach`: how much further one unit moves all releases that hold its gradient together than it moves its
    own sum (`mechanism.correlated`); 1 where noise is independent. Noise and grid grow with it.
    """

    def __init__(
        self,
        spec: ClipRule,
        parameters: Mapping[str, nn.Parameter],
        geometry: Geometry | None = None,
        reach: float = 1.0,
    ) -> None:
        wanted = spec.geometry
        name = getattr(geometry, "name", None)
        if name != wanted or (name is None and geometry is not None):
            given = repr(name) if name is not None else kind_of(geometry)
            have = "none was given" if geometry is None else f"it was given {given}"
            need = "needs no geometry" if wanted is None else f"needs a geometry called {wanted!r}"
            raise InputError(f"the plan's {spec.kind} clipping {need}, and {have}; see Training(geometry=...)")
        self._spec, self._parameters, self._geometry = spec, parameters, geometry
        self._norm, self._reach = spec.first_norm, reach
        groups = spec.groups(list(parameters)).values()
        self._groups = tuple(Group(norm, frozenset(names)) for norm, names in groups)
        self._scales = None if geometry is None else checked_scales(geometry.scales(), parameters)
        self._known: tuple[Event, Clip, Clip] | None = None  # the last release, its clip on some grid, and on its own

    def at(self, position: int, release: Event) -> Clip:
        """The clip of the step at `position` with this release, and its rounding grid."""
        clip, known = self._at(position, noise_multiplier(release)), self._known
        if known is None or release != known[0] or clip != known[1] or clip.scales is not known[1].scales:
            grid = grid_for(release, clip.sensitivity * self._reach)
            known = self._known = release, clip, replace(clip, grid=grid)
        return known[2]

    def unscaled(self, release: Release, clip: Clip) -> Release:
        """The release with its scales multiplied back; unchanged if the step divided by no scales."""
        if clip.scales is None:
            return release
        return rescaled(release, {name: scale.cpu().numpy() for name, scale in clip.scales.items()})

    def noise_scales(self, clip: Clip) -> dict[Tensor, Tensor] | None:
        """For each parameter the scales of the noise of a release with this clip; None without scales."""
        return None if clip.scales is None else {self._parameters[name]: one for name, one in clip.scales.items()}

    def learn(self, release: Release, clip: Clip, noise: float, divisor: float) -> None:
        """Update the state from the release of a step with this clip. `noise`: its standard deviation on each
        coordinate."""
        if self._spec.FOLLOWS:
            assert self._norm is not None
            bits = float(release.tensors[BIT][0]) / (2 * clip.bit)
            self._norm = self._spec.after(self._norm, bits, divisor)
        if self._geometry is not None:
            self._geometry.update(release, noise, divisor)
            self._scales = checked_scales(self._geometry.scales(), self._parameters)

    def preflight_clips(self) -> tuple[Clip, ...]:
        """Clips for comparing engines with each other; where much is clipped, rounding matters most."""
        tried = self._spec.tried()
        if tried:
            return tuple(_clip(one) for one in tried)
        clip = self._at(0, 1.0)
        if clip.scales is None or self._geometry is None or self._geometry.name == "fixed":
            return (clip,)
        return clip, replace(clip, scales=_uneven(clip.scales))  # as they may become

    def shown(self) -> str:
        """The changing state, for a line of progress; released values only."""
        return f"clip norm {self._norm:.3g}" if self._spec.FOLLOWS else ""

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        state: dict[str, Any] = {"norm": self._norm} if self._spec.FOLLOWS else {}
        return state if self._geometry is None else state | {"geometry": self._geometry.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        if "norm" in state:
            self._norm = float(state["norm"])
        if self._geometry is not None:
            self._geometry.load_state_dict(state["geometry"])
            self._scales = checked_scales(self._geometry.scales(), self._parameters)

    def _at(self, position: int, multiplier: float) -> Clip:
        """The clip, on some grid."""
        if self._groups:
            return Clip.grouped(self._groups, _SOME_GRID)
        if self._spec.BOX:
            assert self._scales is not None
            return Clip.boxed(self._scales, _SOME_GRID)
        return _clip(self._spec.at(position, self._norm, multiplier), self._scales)


def _clip(one: StepClip, scales: Mapping[str, Tensor] | None = None) -> Clip:
    return Clip(one.norm, _SOME_GRID, gamma=one.gamma, bit=one.bit, scales=scales)


def _uneven(scales: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The scales, from a fifth to five times as large within each parameter."""
    spread = math.log(5)
    factors = {name: torch.linspace(-spread, spread, one.numel(), dtype=torch.float64) for name, one in scales.items()}
    return {name: one * factors[name].exp().view(one.shape).to(one.device) for name, one in scales.items()}
