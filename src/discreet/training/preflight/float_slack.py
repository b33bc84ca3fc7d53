"""The float slack of an engine on a model: how far its sums depend on how a batch is cut, as measured on random rows.

Rows of several kinds and sizes are tried, because natural data (black images, a constant offset, numbers up to 255) may
round more than uniform numbers. Sizes grow until the slack would cost noise; in the run, rows with larger numbers are
taken one at a time. Whole numbers are treated alike if the model computes with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from discreet.clipping.admission.example_axes import is_whole
from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel
from discreet.training.preflight.engine_comparison import CUTS, Comparison
from discreet.training.preflight.random_rows import Examples, natural_rows, natural_tokens
from discreet.training.preflight.whole_numbers import computes_with

MARGIN = 8
"""The float slack is this many times the distance measured on random data."""

SIZES = (16.0, 256.0, 4096.0)
"""Sizes of the numbers in natural rows, tried in turn. The first is for scaled inputs, the second for grey levels."""

_NEGLIGIBLE = 2.0**-17
"""Float slack below this costs next to no noise. For larger numbers a larger slack is accepted only if it is less than
twice as large."""


class TooMuchRounding(UnsupportedModel):
    """Rounding differs by more than noise can cover."""


@dataclass(frozen=True, slots=True)
class FloatSlack:
    """A measurement: the largest distance of sums, the size of numbers up to which it holds, and whether natural rows
    were among those it was measured on: the model may not take them."""

    distance: float
    reach: float
    natural: bool

    @property
    def bits(self) -> int:
        """The declared float slack, as bits below the clip norm."""
        if not MARGIN * self.distance <= 2.0**-LEAST_BITS:
            raise TooMuchRounding(
                f"rounding moves the gradients of this model by {self.distance:.1e} of the clip norm, which would take "
                "too much noise to cover; use double precision, or engine='exact'"
            )
        return MOST_BITS if self.distance == 0 else min(MOST_BITS, math.floor(-math.log2(MARGIN * self.distance)))


def float_slack(stage: Comparison, name: str, distance: float) -> FloatSlack:
    """Measure the slack of the engine called `name`. `distance`: that on uniform rows, the first kind."""
    if stage.vanishing:
        raise TooMuchRounding(
            "no random row has a gradient in this model and loss, so rounding cannot be measured (if it is so on your "
            "rows too, nothing is learnt from them); engine='exact' needs no measurement"
        )
    examples, reach, natural = stage.examples, 1.0, None
    if is_whole(examples.inputs):
        natural = _on_other_rows(stage, name, lambda: natural_tokens(examples))
        distance = max(distance, natural or 0.0)
        reach = max(1.0, float(examples.inputs.max())) if _is_computed_with(stage) else math.inf
    found = FloatSlack(distance, reach, natural is not None)
    for size in SIZES:
        if size <= reach:
            continue
        other = _on_other_rows(stage, name, partial(natural_rows, examples, size))
        if other is None:
            break
        largest = max(found.distance, other)
        if size > SIZES[0] and not MARGIN * largest <= max(_NEGLIGIBLE, 2 * MARGIN * found.distance):
            break
        found = FloatSlack(largest, size, natural=True)
        if size >= _largest(examples.inputs.dtype):
            return replace(found, reach=math.inf)
    return found


def _largest(kind: torch.dtype) -> float:
    """The largest number of a type, of either sign; infinite if it is above all sizes that are tried."""
    few = not (kind.is_floating_point or kind.is_complex) and torch.iinfo(kind).bits <= 16
    return float(max(-torch.iinfo(kind).min, torch.iinfo(kind).max)) if few else math.inf


def unmeasured_reach(stage: Comparison) -> float:
    """The reach where no slack is measured: that of scaled inputs."""
    whole = is_whole(stage.examples.inputs)
    return math.inf if whole and not _is_computed_with(stage) else SIZES[0]


def _is_computed_with(stage: Comparison) -> bool:
    """Whether the model computes with the whole numbers of rows as real numbers. (Truth values need no test.)"""
    inputs = stage.examples.inputs
    return inputs.dtype != torch.bool and computes_with(stage.model, inputs)


def _on_other_rows(stage: Comparison, name: str, rows: Callable[[], Examples]) -> float | None:
    """The slack measured on other rows; None if the model cannot take them."""
    try:
        found = stage.on(rows()).distance(name, CUTS[-1:])
    except CANNOT_TAKE:
        return None
    return found.singles + found.excess
