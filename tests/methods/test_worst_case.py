"""Lemma 1 of ADADP holds for every method that shapes noise: whatever one unit's gradient is, and whatever was released
before, it moves the sum by at most 1 / multiplier standard deviations of the noise, all numbers together.

Under add/remove and zero-out that is what a unit adds to the sum; under replace-one twice that, which the accounting
knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import Clip, private_parameters
from discreet.clipping.factor import clipped
from discreet.core.events import Gaussian
from discreet.core.release import Receipt, Release
from discreet.methods import ADADP, DPOPT, AdaClip, ReleasedScales
from discreet.methods.released_scales import Rule
from discreet.plan import Plan
from discreet.training.clip_state import Clipping

RULES: dict[str, Callable[[], Rule]] = {"adadp": ADADP, "dpopt": DPOPT, "adaclip": AdaClip}
KINDS = ("ellipsoid", "box")
VALUES = st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1e12, 1e300, math.inf, math.nan]), st.floats(-1e3, 1e3))
RELEASED = st.floats(-1e6, 1e6)


def clipping_after(releases: list[list[float]], rule: Rule, kind: Any, multiplier: float) -> tuple[Clipping, Clip]:
    """The clipping of a run of a model with 6 numbers, after these releases, with the clip of its next step."""
    model = nn.Linear(2, 2)
    geometry = ReleasedScales(rule, model, 2.0, kind)
    spec = Plan.poisson(
        population=100, batch=10, steps=9, delta=1e-5, clipping=geometry.clipping, noise_multiplier=multiplier
    ).clipping
    clipping = Clipping(spec, private_parameters(model), geometry)
    event = Gaussian(multiplier)
    for position, numbers in enumerate(releases):
        clip = clipping.at(position, event)
        flat = torch.tensor(numbers, dtype=torch.float64)
        tensors = {"weight": flat[:4].view(2, 2).numpy(), "bias": flat[4:].numpy()}
        release = Release(tensors, event, Receipt("test", 0, position, event))
        clipping.learn(release, clip, multiplier * clip.sensitivity, 10.0)
    return clipping, clipping.at(len(releases), event)


def moved(gradient: Tensor, clip: Clip, multiplier: float) -> float:
    """How many standard deviations of the noise one unit's gradient moves what the optimizer gets; times multiplier."""
    rows = {"weight": gradient[:4].view(1, 2, 2), "bias": gradient[4:].view(1, 2)}
    assert clip.scales is not None
    total = 0.0
    for name, part in clipped(rows, clip).items():
        released = part[0] * clip.scales[name]
        deviation = multiplier * clip.sensitivity * clip.scales[name]
        total += float((released / deviation).square().sum())
    return multiplier * math.sqrt(total)


def worst(clip: Clip, multiplier: float) -> float:
    """The most over gradients made to fill the box or the ellipsoid: along each axis, to the corners, in the direction
    of the scales and against them."""
    assert clip.scales is not None
    scales = torch.cat([clip.scales[name].flatten() for name in ("weight", "bias")])
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    directions = [*torch.eye(6, dtype=torch.float64), signs, signs * scales, signs / scales, signs * scales.square()]
    return max(moved(size * one, clip, multiplier) for one in directions for size in (1e-3, 1.0, 1e3, 1e9))


@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RULES)
def test_no_unit_moves_a_release_by_more_than_one_over_the_multiplier(
    name: str, kind: str, data: st.DataObject
) -> None:
    multiplier = data.draw(st.floats(0.1, 20))
    releases = data.draw(st.lists(st.lists(RELEASED, min_size=6, max_size=6), max_size=4))
    _, clip = clipping_after(releases, RULES[name](), kind, multiplier)
    gradient = torch.tensor(data.draw(st.lists(VALUES, min_size=6, max_size=6)), dtype=torch.float64)
    assert moved(gradient, clip, multiplier) <= 1 + 1e-12
    assert 1 - 1e-9 <= worst(clip, multiplier) <= 1 + 1e-12  # and some gradient moves it by that: no noise is wasted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RULES)
def test_the_property_fails_for_a_broken_one(name: str, kind: str) -> None:
    """Noise in other scales than those of the clipping: half of some of them."""
    _, clip = clipping_after([[1.0, 2, 3, 4, 5, 6]], RULES[name](), kind, 2.0)
    assert worst(clip, 2.0) <= 1 + 1e-12
    assert clip.scales is not None
    halved = {**clip.scales, "weight": clip.scales["weight"] / 2}

    def broken(gradient: Tensor) -> float:
        rows = {"weight": gradient[:4].view(1, 2, 2), "bias": gradient[4:].view(1, 2)}
        assert clip.scales is not None
        deviations = {key: 2.0 * clip.sensitivity * scale for key, scale in halved.items()}
        parts = {key: part[0] * clip.scales[key] / deviations[key] for key, part in clipped(rows, clip).items()}
        return 2.0 * math.sqrt(sum(float(part.square().sum()) for part in parts.values()))

    assert broken(torch.tensor([1e9] * 6, dtype=torch.float64)) > 1.1
