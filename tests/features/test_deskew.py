"""Images made upright, against Gaussian blobs, whose moments are known."""

from __future__ import annotations

import pytest
import torch

from discreet import InputError
from discreet.features import Deskew, precompute
from discreet.recipes.sections.fixed_features import Features, build_front_end


def blob(slant: float, middle: tuple[float, float], wide: float = 4.0, high: float = 9.0) -> torch.Tensor:
    """(1, 1, 40, 40): the density of y ~ N(0, high) and x = slant y + N(0, wide), around `middle`."""
    y = torch.arange(40.0)[:, None] - 19.5 - middle[0]
    x = torch.arange(40.0) - 19.5 - middle[1]
    return torch.exp(-(y**2) / (2 * high) - (x - slant * y) ** 2 / (2 * wide))[None, None]


@pytest.mark.parametrize("slant", [-0.8, -0.3, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("middle", [(0.0, 0.0), (2.3, -3.6)])
def test_a_slanted_blob_becomes_the_upright_one_in_the_middle(slant: float, middle: tuple[float, float]) -> None:
    found, upright = Deskew()(blob(slant, middle)), blob(0.0, (0.0, 0.0))
    # Between pixels a Gaussian of variance 4 is off by at most 1/8 of its second derivative, 1/4, along each axis.
    assert float((found - upright).abs().max()) < 0.06
    assert slant == 0 or float((blob(slant, middle) - upright).abs().max()) > 0.12


def test_more_than_45_degrees_are_not_undone() -> None:
    # Of a slant of 1.2 what is left is 0.2.
    assert float((Deskew()(blob(1.2, (0.0, 0.0), 1.0, 4.0)) - blob(0.2, (0.0, 0.0), 1.0, 4.0)).abs().max()) < 0.15


def test_neither_brightness_nor_ground_matters_to_where_it_looks() -> None:
    image = blob(0.5, (1.0, 2.0))
    assert torch.allclose(Deskew()(7 * image - 3), 7 * Deskew()(image) - 3, atol=1e-4)


def test_channels_move_together() -> None:
    image = blob(0.5, (1.0, 2.0))
    together = Deskew()(torch.cat([image, 2 * image], dim=1))
    assert torch.allclose(together, torch.cat([Deskew()(image), 2 * Deskew()(image)], dim=1), atol=1e-5)


@pytest.mark.parametrize("value", [0.0, -3.0, 2.5])
def test_an_image_of_one_brightness_stays(value: float) -> None:
    image = torch.full((1, 1, 5, 7), value)
    assert torch.allclose(Deskew()(image), image)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 3e38])
def test_a_row_touches_no_other(value: float) -> None:
    """What is not finite, or overflows, changes its own row alone; 32 rows at once give what each gives by itself."""
    images = torch.rand(40, 1, 9, 8, generator=torch.Generator().manual_seed(0))
    images[3, 0, 2:6] = value
    together = precompute(Deskew(), images)
    alone = torch.cat([Deskew()(image[None]) for image in images])
    assert torch.equal(torch.nan_to_num(together), torch.nan_to_num(alone))
    assert bool(torch.isfinite(together[[i for i in range(40) if i != 3]]).all())


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 1, 8, 1)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="deskew: images must be"):
        Deskew()(torch.zeros(shape))


def test_a_recipe_asks_for_it_with_a_front_end() -> None:
    images = torch.rand(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    plain, upright = ([Features.model_validate({"name": "hog"} | more)] for more in ({}, {"deskew": True}))
    found = build_front_end(upright, (1, 12, 12))(images)
    assert torch.equal(found, build_front_end(plain, (1, 12, 12))(Deskew()(images)))
    assert not torch.allclose(found, build_front_end(plain, (1, 12, 12))(images), atol=0.1)
