"""What is kept of delta for batches beyond the largest, for which the sums of fast engines have no float slack."""

from __future__ import annotations

import math

import numpy as np

from discreet.sampling import OVERFLOW

SET_ASIDE = 1e-9
"""The share of delta that is kept for batches beyond `largest_batch`."""


def reserve_for(delta: float, overflows: bool) -> float:
    """What is set aside of delta; nothing where batches have a largest size."""
    return SET_ASIDE * delta if overflows else 0.0


def covers(reserve: float, steps: int, epsilon: float) -> bool:
    """Whether `reserve` covers what `steps` steps add at most to delta: (1 + e^epsilon) steps `OVERFLOW`."""
    return bool(math.log(steps * OVERFLOW) + np.logaddexp(0.0, epsilon) <= math.log(reserve))
