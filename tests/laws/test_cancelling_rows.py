"""Law of every rule, fast engine and way to clip: no unit adds more than the sensitivity, however its terms cancel.

What an engine adds up of a unit is much longer than the unit's gradient then, and so is its rounding: gradients at two
places that cancel, or those of two rows.
"""

from __future__ import annotations

import pytest
import torch
from clips import CLIPS
from rule_modules import MODULES, Draws, Row, summed

CLIP_NORM = 1e-3


def at_two_places(draws: Draws, axis: int, size: float) -> list[Row]:
    """One row, whose inputs are the same along `axis`, and whose gradients cancel there but for a thousandth."""
    inputs, gradients = draws.inputs(1.0), draws.gradient() * size
    axis = axis if inputs.dim() > 1 else 0
    inputs = inputs.narrow(axis, 0, 1).expand(inputs.shape).clone()
    first, rest = gradients.narrow(axis, 0, 1), gradients.narrow(axis, 1, gradients.shape[axis] - 1)
    first.copy_(1e-3 * torch.randn(first.shape, generator=draws.numbers) - rest.sum(axis, keepdim=True))
    return [(inputs, gradients)]


def in_two_rows(draws: Draws, size: float) -> list[Row]:
    """Two rows with the same inputs, whose gradients cancel but for a thousandth."""
    inputs, gradients = draws.inputs(1.0), draws.gradient() * size
    return [(inputs, gradients), (inputs, 1e-3 * draws.gradient() - gradients)]


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", MODULES)
def test_terms_that_cancel_move_no_sum_by_more_than_the_sensitivity(name: str, engine: str) -> None:
    for size in (1e3, 1e5):
        draws = Draws(name, round(size))
        units = [in_two_rows(draws, size)]
        if len(draws.outputs) > 1:
            units += [at_two_places(draws, axis, size) for axis in (0, -1)]
        chunk = [[(draws.inputs(1.0), draws.gradient())] for _ in range(3)]
        for way, clipped in CLIPS.items():
            clip = clipped(draws.model, CLIP_NORM)
            for unit in units:
                with_it, without = (
                    summed(engine, draws.model, clip, len(unit), one) for one in ([*chunk, unit], chunk)
                )
                most = clip.sensitivity + 2 * 2.0**-20 * clip.spread * (len(chunk) + 1)
                assert float((with_it - without).norm()) <= most, (way, size, len(unit))
