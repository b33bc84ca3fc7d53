"""What is protected and against what change: the unit, the adjacency, and how far a query moves under each."""

from __future__ import annotations

import math
from enum import StrEnum


class Adjacency(StrEnum):
    """When two data sets are neighbours."""

    ADD_REMOVE = "add_remove"
    """One unit is added or removed; the size of the data set is private."""
    ZERO_OUT = "zero_out"
    """One unit's record is replaced by a null record that contributes zero to every query."""
    REPLACE_ONE = "replace_one"
    """One unit's record is replaced by any other."""


class Unit(StrEnum):
    """Whose contribution is protected as a whole."""

    EXAMPLE = "example"
    """One row of the data set."""
    USER = "user"
    """All rows with the same identifier: one person's."""


class Query(StrEnum):
    """The kind of value that noise was added to; it decides how far a replacement moves the query (see
    `sensitivity_ratio`)."""

    CLIPPED_SUM = "clipped_sum"
    CENTRED_BIT = "centred_bit"
    COVARIANCE = "covariance"
    COUNT = "count"
    HISTOGRAM = "histogram"
    LOSS = "loss"


class Norm(StrEnum):
    """The norm that measures a contribution: L2 for Gaussian noise, L1 for Laplace noise."""

    L1 = "l1"
    L2 = "l2"


_REPLACE_ONE_RATIO = {
    Query.CLIPPED_SUM: 2.0,
    Query.CENTRED_BIT: 2.0,
    Query.COVARIANCE: math.sqrt(2.0),
    Query.COUNT: 1.0,
    Query.HISTOGRAM: math.sqrt(2.0),
    Query.LOSS: 2.0,
}


def sensitivity_ratio(query: Query, adjacency: Adjacency, norm: Norm = Norm.L2) -> float:
    """The most that a query moves between neighbours, in units of one unit's largest contribution.

    | query       | add_remove, zero_out | replace_one |
    |-------------|----------------------|-------------|
    | clipped_sum | 1                    | 2           |
    | centred_bit | 1                    | 2           |
    | covariance  | 1                    | sqrt 2 (L1: 2, by the triangle inequality) |
    | count       | 1                    | 1           |
    | histogram   | 1                    | sqrt 2 (L1: 2): one bin loses a unit, another gains it |
    | loss        | 1                    | 2: clipped losses, centred, so that they have both signs |

    This is the only place where the ratio is known; accounting divides the noise multiplier by it.
    """
    if adjacency is not Adjacency.REPLACE_ONE:
        return 1.0
    in_l1 = norm is Norm.L1 and query in (Query.COVARIANCE, Query.HISTOGRAM)
    return 2.0 if in_l1 else _REPLACE_ONE_RATIO[query]
