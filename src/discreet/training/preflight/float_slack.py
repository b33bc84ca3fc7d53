"""The float slack of an engine on a model: how far its sums depend on how a batch is cut, as measured on random rows.

Measured on rows of several kinds and sizes, since what is natural for data (black images, a constant offset, numbers up
to 255) may round more than what is uniform. Sizes are tried in turn, up to the first at which the slack would cost
noise; longer rows are taken one at a time in the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight.engine_comparison import CUTS, Comparison, added, length
from discreet.training.preflight.random_rows import natural_rows

MARGIN = 8
"""The float slack is so many times what was measured on random data."""

SIZES = (16.0, 256.0, 4096.0)
"""Of the numbers in natural rows, in turn. The first is for inputs that were scaled, the second for levels of grey."""

_NEGLIGIBLE = 2.0**-17
"""Float slack below this costs next to no noise. More is taken for longer rows only if it is not twice as much."""

_CANNOT = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AssertionError)
"""What models and losses raise for rows that they cannot take."""


class TooMuchRounding(UnsupportedModel):
    """More than noise can cover."""


@dataclass(frozen=True, slots=True)
class FloatSlack:
    """What was measured: the largest distance of sums, and up to which size of numbers."""

    distance: float
    reach: float

    @property
    def bits(self) -> int:
        """The float slack that is declared, as bits below the clip norm."""
        bits = MOST_BITS if self.distance == 0 else math.floor(-math.log2(MARGIN * self.distance))
        if not bits >= LEAST_BITS:
            raise TooMuchRounding(
                f"rounding moves the gradients of this model by {self.distance:.1e} of the clip norm, which would take "
                "too much noise to cover; use double precision, or engine='exact'"
            )
        return min(MOST_BITS, bits)


def float_slack(stage: Comparison, name: str, sums: float) -> FloatSlack:
    """Measure the slack of the engine called `name`. `sums`: what was measured on uniform rows, the first kind."""
    if not stage.examples.inputs.is_floating_point():
        return FloatSlack(max(sums, _on_natural_rows(stage, name, 1.0) or 0.0), math.inf)
    found = FloatSlack(sums, 1.0)
    for size in SIZES:
        distance = _on_natural_rows(stage, name, size)
        if distance is None:
            break
        largest = max(found.distance, distance)
        if size > SIZES[0] and not MARGIN * largest <= max(_NEGLIGIBLE, 2 * MARGIN * found.distance):
            break
        found = FloatSlack(largest, size)
    return found


def _on_natural_rows(stage: Comparison, name: str, size: float) -> float | None:
    """The slack measured on natural rows of this size; None if the model cannot take them."""
    try:
        other = stage.on(natural_rows(stage.examples, size))
        return distance(other, name, other.chunked(name, CUTS[-1:]))
    except _CANNOT:
        return None


def distance(stage: Comparison, name: str, sums: list[list[dict[str, Tensor]]]) -> float:
    """How far `sums`, of all examples cut in several ways, are from terms of one unit each.

    Terms are the reference's. In reduced precision that rounds too much itself; there they are the engine's own sums of
    one unit each, and by how much these are longer than the clip norm is added.
    """
    if not stage.reduced:
        return stage.farthest(sums, stage.wanted)
    alone = [[stage.sums(name, one, clip) for one in stage.singles()] for clip in stage.clips]
    pairs = zip(alone, stage.clips, strict=True)
    longer = max(length(one) / clip.sensitivity - 1 for singles, clip in pairs for one in singles)
    return stage.farthest(sums, [added(singles) for singles in alone]) + max(0.0, longer)
