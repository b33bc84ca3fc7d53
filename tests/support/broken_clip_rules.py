"""Broken builds of single clip rules: adaptive norms, scales, boxes, groups, schedules, automatic clipping."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from broken_builds import broken, patched, summing
from broken_noise import released
from broken_sums import decided
from torch import nn

from discreet.clipping import BIT, Clip, factor
from discreet.clipping.factor import Decision
from discreet.clipping.geometry import Fixed
from discreet.plan import AdaptiveClipping, AutomaticClipping, BoxClipping, EllipsoidClipping, PerLayerClipping
from discreet.training import step
from discreet.training.clip_state import Clipping

ADAPTIVE = AdaptiveClipping(initial=0.7, bit_multiplier=4.0)


def uneven(model: nn.Module) -> Fixed:
    """Scales from .3 to 3."""
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    return Fixed({name: torch.linspace(0.3, 3, one.numel()).view(one.shape) for name, one in trained.items()})


@broken("the share of short gradients is released without noise", "noise/scale", clipping=ADAPTIVE)
def bit_without_noise() -> Any:
    return released(lambda name, total, noise, receipt: 0 * noise if name == BIT else noise)


@broken("the clip norm follows the exact share of short gradients", "replay/", clipping=ADAPTIVE)
def norm_follows_exact_share() -> Any:
    real_release, real_learn, kept = step.gaussian_release, Clipping.learn, [0.0]

    def release(total: Any, *rest: Any) -> Any:
        kept[0] = float(np.asarray(total.tensors[BIT]).ravel()[0])
        return real_release(total, *rest)

    def learn(self: Any, release: Any, clip: Clip, *rest: Any) -> None:
        exact = dataclasses.replace(release, tensors=release.tensors | {BIT: np.array([kept[0]])})
        real_learn(self, exact, clip, *rest)

    return patched((step, "gaussian_release", release), (Clipping, "learn", learn))


@broken("the bit of a gradient is five times as large as the noise is for", "replay/", clipping=ADAPTIVE)
def bit_too_large() -> Any:
    def change(clip: Any, squares: Any, sizes: Any, right: Decision) -> Decision:
        return Decision(right.weights, right.unusable, None if right.bits is None else 5 * right.bits)

    return decided(change)


@broken(
    "the noise stays that of the first clip norm",
    "noise/scale",
    clipping=AdaptiveClipping(initial=0.3, bit_multiplier=4.0, rate=1.0),
)
def noise_of_first_norm() -> Any:
    real, first = step.gaussian_release, []

    def release(total: Any, receipt: Any, *rest: Any) -> Any:
        if receipt.position == 0:
            first[:] = [total.sensitivity]
        held = min(total.sensitivity, first[0]) if first else total.sensitivity
        return real(dataclasses.replace(total, sensitivity=held), receipt, *rest)

    return patched((step, "gaussian_release", release))


@broken(
    "scales: noise is not scaled with the gradients",
    "noise/scale",
    clipping=EllipsoidClipping(norm=0.7),
    geometry=uneven,
)
def noise_not_scaled() -> Any:
    real = Clipping.unscaled

    def unscaled(self: Any, release: Any, clip: Clip) -> Any:
        found = real(self, release, clip)
        scales = clip.scales
        assert scales is not None
        kept = {
            name: np.where(scales[name].numpy() > 1, release.tensors[name], one) for name, one in found.tensors.items()
        }
        return dataclasses.replace(found, tensors=kept)

    return patched((Clipping, "unscaled", unscaled))


@broken(
    "scales: gradients are clipped first, and then divided",
    "replay/",
    clipping=EllipsoidClipping(norm=0.7),
    geometry=uneven,
    engine="reference",
)
def scaled_after_clipping() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        found = sums(model, criterion, chunk, dataclasses.replace(clip, scales=None))
        return {name: one.double() / clip.scales[name] for name, one in found.items()}

    return summing(change)


@broken(
    "scales follow the sum of a step before its noise", "replay/", clipping=EllipsoidClipping(norm=0.7), geometry=uneven
)
def scales_follow_exact_sums() -> Any:
    real_release, real_at = step.gaussian_release, Clipping.at
    kept: dict[str, Any] = {}

    def release(total: Any, *rest: Any) -> Any:
        kept.update({name: np.array(one, np.float64) for name, one in total.tensors.items()})
        return real_release(total, *rest)

    def at(self: Any, position: int, event: Any) -> Clip:
        if position and kept and self._scales is not None and set(kept) == set(self._scales):
            self._scales = {
                name: one * (1 + 0.02 * torch.from_numpy(np.sign(kept[name])).view(one.shape))
                for name, one in self._scales.items()
            }
            kept.clear()
        return real_at(self, position, event)

    return patched((step, "gaussian_release", release), (Clipping, "at", at))


@broken(
    "a box: numbers beyond their scale are kept",
    "replay/",
    clipping=BoxClipping(),
    geometry=uneven,
    engine="reference",
    noise=0.5,
)
def box_left_open() -> Any:
    def change(sums: Any, model: Any, criterion: Any, chunk: Any, clip: Any) -> Any:
        found = sums(model, criterion, chunk, clip)
        return {name: one.double() + 2.0 * one.double().sign() for name, one in found.items()}

    return summing(change)


@broken("groups: noise for the norm of one of them", "noise/scale", clipping=PerLayerClipping(norm=0.7))
def noise_of_one_group() -> Any:
    real = step.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        return real(dataclasses.replace(total, sensitivity=0.7), *rest)

    return patched((step, "gaussian_release", release))


@broken("groups: what is left of one group's norm is used by another", "replay/", clipping=PerLayerClipping(norm=0.7))
def groups_share_norms() -> Any:
    def change(sums: Any, *given: Any) -> Any:
        return {name: 1.2 * one for name, one in sums(*given).items()}

    return summing(change)


@broken(
    "automatic clipping with the norm under a root that is never taken", "replay/", clipping=AutomaticClipping(norm=0.7)
)
def automatic_without_root() -> Any:
    real = factor.clip_factor

    def change(norms: Any, norm: float, terms: int = 1, gamma: float = 0.0) -> Any:
        return real(norms.sqrt(), norm, terms, gamma) if gamma else real(norms, norm, terms, gamma)

    return patched((factor, "clip_factor", change))


@broken("a schedule: the noise follows the norm one phase too early", "noise/scale", clip_norm=[(1.0, 20), (0.5, 20)])
def noise_a_phase_early() -> Iterator[None]:
    real = step.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        return (
            real(dataclasses.replace(total, sensitivity=0.5 * total.sensitivity), *rest)
            if total.sensitivity > 0.8
            else real(total, *rest)
        )

    with patched((step, "gaussian_release", release)):
        yield


@broken("a schedule: in the last phase half of the noise multiplier", "noise/scale", noise=[(1.0, 20), (0.8, 20)])
def last_phase_with_half_noise() -> Any:
    def change(name: str, total: Any, noise: Any, receipt: Any) -> Any:
        return 0.5 * noise if "0.8" in str(receipt.event) else noise

    return released(change)
