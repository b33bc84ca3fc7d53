"""The loss of a step on a Poisson batch of at most `capacity` units, from above, for a unit beside others.

The others alone fill the batch with probability at most `filled`; whether they do is known, to be safe. If not, the
step is a Poisson step. If so, somebody is left out. Fix who stays besides one place: that place goes to another unit y,
or, with a chance p of at most the rate, to the unit x (with k others drawn p = rate capacity / (k + 1)). The outputs
are N(y) and (1 - p) N(y) + p N(x): a Poisson step again, whose unit moves the sum from y to x, by at most the
replace-one shift `replaced` (Ganesh 2025, arXiv 2508.15089).

Under zero-out an empty record is drawn as well, and the outputs are (1 - p) N(y) + p N(x) and (1 - p) N(y) + p N(0).
That is a batch of fixed size whose member is replaced, so its curve is nowhere below the symmetrised one.

More weight on the second case only raises delta: its outputs give those of the first by adding noise and scaling.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.verification.recompute import poisson_loss
from discreet.verification.recompute.events import Part
from discreet.verification.recompute.poisson_loss import EPS, Array, Loss


def cases(part: Part) -> tuple[Part, Part]:
    """The step while there is room, and where others fill the batch."""
    return replace(part, filled=0.0), replace(part, mu=part.replaced, filled=0.0)


def above(part: Part, h: float, reach: float, removal: bool, zero_out: bool) -> Loss:
    """A grid loss whose composition has a delta of at least that of `part`."""
    room, full = cases(part)
    one = poisson_loss.above(room, h, reach, removal)
    two = poisson_loss.above_symmetric(full, h, reach) if zero_out else poisson_loss.above(full, h, reach, removal)
    first = min(one.first, two.first)
    last = max(found.first + len(found.mass) for found in (one, two))

    def placed(found: Loss) -> Array:
        mass = np.zeros(last - first)
        mass[found.first - first : found.first - first + len(found.mass)] = found.mass
        return mass

    share, rounded = part.filled, 1 + 8 * EPS
    mass = ((1 - share) * placed(one) + share * placed(two)) * rounded
    infinite = ((1 - share) * one.infinite + share * two.infinite) * rounded
    return Loss(first, mass, infinite, max(one.slip, two.slip))
