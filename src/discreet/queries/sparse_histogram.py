"""Frequent values without a declared list: the Gaussian sparse histogram, charged like any other query.

`accounting.theories.sparse` proves the cost. This module keeps exactly the law of that proof, rounding included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from discreet.accounting.theories.sparse import threshold_for
from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import SparseHistogram
from discreet.queries.charging import Account
from discreet.queries.sums import counted
from discreet.randomness import Purpose
from discreet.randomness.exact import LARGEST_SCALE


def sparse_histogram(noise_multiplier: float, escapes: float) -> SparseHistogram:
    """The event whose threshold, in whole rows, a value of one row alone passes with probability at most `escapes`."""
    noise = checks.positive("noise_multiplier", noise_multiplier)
    return SparseHistogram(noise, threshold_for(noise, checks.open_unit("escapes", escapes)))


def frequent(counts: Mapping[str, int], event: SparseHistogram, account: Account) -> dict[str, float]:
    """The values whose noisy count is above the threshold, with that count, sorted by name.

    `counts` maps every value that occurs to its number of rows. A row must count for one value at most, which depends
    on that row alone. Noise is drawn for these values only, sorted by name, after `event` is charged to `account`.
    `BudgetExhausted` if the budget does not suffice: nothing was charged.
    """
    names = sorted(name for name, count in counts.items() if count)
    total = counted(Query.HISTOGRAM, np.array([counts[name] for name in names], np.int64), event.noise_multiplier)
    scale = math.ceil(event.noise_multiplier * total.contribution * (1 + 2.0**-50))
    if scale > LARGEST_SCALE:
        raise InputError(f"a noise multiplier of {event.noise_multiplier:g} is too large for whole counts; take less")
    payment = account.pay(event)
    substream = payment.stream.substream(Purpose.NOISE, payment.receipt.position)
    noisy = total.units + account.sampler.draw(substream, len(names), scale)
    least = limit(event, int(total.contribution), scale)
    account.done(payment)
    return {name: int(units) * total.unit for name, units in zip(names, noisy, strict=True) if units > least}


def limit(event: SparseHistogram, one: int, scale: int) -> int:
    """The limit that a noisy count must exceed, in units in which a row counts `one` and the noise has std `scale`.

    The count of a single row exceeds it only if the rounded noise exceeds (T - 1) / s standard deviations, rounded up:
    with probability at most `escape(event)`, as round(Z) > k implies Z > k for whole k. The last term covers the error
    of the samplers.
    """
    deviations = (Fraction(event.threshold) - 1) / Fraction(event.noise_multiplier)
    return one + math.ceil(deviations * scale) + math.ceil(scale * 2.0**-40)
