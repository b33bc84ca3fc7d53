"""Guesses about coins, from scores: the surest ones, a number that is fixed before a score is seen."""

from __future__ import annotations

import numpy as np

from discreet.core.array_types import Array, BoolArray


def right_guesses(scores: Array, coins: BoolArray, guesses: int) -> int:
    """The number of right guesses, if the canaries with the highest scores are said to be in, and as many with the
    lowest to be out. `scores`, `coins`: one for each canary; NaN counts as the lowest.

    With an odd number the canary in the middle of the others is said to be in.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(known, kind="stable")
    said_out, said_in = guesses // 2, guesses - guesses // 2
    return int(coins[order[len(order) - said_in :]].sum() + (~coins[order[:said_out]]).sum())
