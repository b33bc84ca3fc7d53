"""The recipe of images and texts: features that fit every declared size, from public facts alone."""

from __future__ import annotations

import itertools

import pytest
import torch

from discreet.data.tables.wide import Image
from discreet.recipes.sections.fixed_features import Features, build_front_end
from discreet.recipes.wide_recipe import features_for

SIDES = [6, 7, 8, 15, 16, 31, 48, 49, 64, 100]


@pytest.mark.parametrize("mode", ["grey", "rgb"])
@pytest.mark.parametrize("signal", [100, 10**9])
def test_features_fit_every_size(mode: str, signal: float) -> None:
    """Also where width and height differ; every row of features has the same length, so clipping treats all alike."""
    for size in [*zip(SIDES, SIDES, strict=True), *itertools.pairwise(SIDES), (100, 6), (6, 100)]:
        image = Image.model_validate({"size": size, "mode": mode})
        front_end = build_front_end([Features.model_validate(one) for one in features_for(image, signal)], image.shape)
        rows = front_end(torch.rand(2, *image.shape, generator=torch.Generator().manual_seed(0)))
        torch.testing.assert_close(rows.norm(dim=1), torch.full((2,), 10.0))
