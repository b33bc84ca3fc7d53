"""Frequent values of which no list is declared: the Gaussian sparse histogram, charged like any other query.

What it costs is proved in `accounting.sparse`. Here the law that the proof is about is kept, digit for digit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from discreet.accounting.theories.sparse import threshold_for
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import SparseHistogram
from discreet.queries.charging import Account
from discreet.queries.sums import counted
from discreet.randomness import Purpose
from discreet.randomness.exact import LARGEST_SCALE


def sparse_histogram(noise_multiplier: float, escapes: float) -> SparseHistogram:
    """The event whose threshold, in whole rows, a value that one row alone has passes with probability `escapes`."""
    return SparseHistogram(noise_multiplier, threshold_for(noise_multiplier, escapes))


def frequent(counts: Mapping[str, int], event: SparseHistogram, account: Account) -> dict[str, float]:
    """Values whose noisy count is above the threshold, with that count, in the order of their names.

    `counts` has every value that occurs, and how many rows have it; a row must count for one value at most, and by
    itself alone. Noise is drawn for these only, in the order of their names, after `event` is charged to `account`.
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
    """What a noisy count must be above, in units of which a row counts `one` and noise deviates by `scale`.

    A row alone is above it where the rounded noise is above (T - 1) / s deviations, rounded up: with probability at
    most `escape(event)`, as round(Z) > k means Z > k for whole k. The last term is what samplers may be off by.
    """
    deviations = (Fraction(event.threshold) - 1) / Fraction(event.noise_multiplier)
    return one + math.ceil(deviations * scale) + math.ceil(scale * 2.0**-40)
