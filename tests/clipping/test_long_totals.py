"""Small terms beside a long total."""

from __future__ import annotations

import pytest
import torch

from discreet.clipping.rules import linear
from discreet.clipping.rules.numbers import examples_together


@pytest.mark.parametrize("places", [2, 5])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (4, 5), (5, 4), (16, 16), (200, 3)])
def test_they_are_added_up_first(inputs: int, outputs: int, places: int) -> None:
    """Each of them is below the rounding of the total, and would be lost in it. Only those in one product with the long
    terms are, at most."""
    together, blocks = examples_together(places), 5
    a, g = torch.ones(together * blocks, places, inputs), torch.ones(together * blocks, places, outputs)
    g[0], g[-1] = 2.0**26, -(2.0**26)
    total = linear._weighted_products(a, g, torch.ones(len(a), dtype=torch.float64), together)
    assert float(total.min()) >= (blocks - 2) * together * places
