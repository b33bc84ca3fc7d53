"""Frequent values without a declared list: the Gaussian sparse histogram, charged like any other query.

`accounting.theories.sparse` proves the cost. This module keeps exactly the law of that proof, rounding included.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from discreet.accounting.theories.sparse import threshold_for
from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.errors import InputError, kind_of
from discreet.core.events import SparseHistogram
from discreet.queries.charging import Account, check_account
from discreet.queries.sums import check_multiplier, counted
from discreet.randomness import Purpose
from discreet.randomness.exact import LARGEST_SCALE

_MOST = 2**62
"""More rows than there can be."""


def sparse_histogram(noise_multiplier: float, escapes: float) -> SparseHistogram:
    """The event whose threshold, in whole rows, a value of one row alone passes with probability at most `escapes`."""
    noise = checks.positive("noise_multiplier", noise_multiplier)
    return SparseHistogram(noise, threshold_for(noise, checks.open_unit("escapes", escapes)))


def frequent(counts: Mapping[str, int], event: SparseHistogram, account: Account) -> dict[str, float]:
    """The values whose noisy count is above the threshold, with that count, sorted by name.

    `counts` maps every value that occurs to its number of rows. A row must count for one value at most, which depends
    on that row alone. Noise is drawn for these values only, sorted by name, after `event` is charged to `account`.
    `BudgetExhausted` if the budget does not suffice, `InputError` for other kinds of arguments: nothing was charged.
    """
    check_account(account)
    if not isinstance(event, SparseHistogram):
        raise InputError(f"event must be a SparseHistogram, as sparse_histogram(...) makes it, not {kind_of(event)}")
    check_multiplier(event.noise_multiplier)
    _check_counts(counts)
    names = sorted(name for name, count in counts.items() if count)
    total = counted(Query.HISTOGRAM, np.array([counts[name] for name in names], np.int64), event.noise_multiplier)
    scale = math.ceil(total.deviation(event.noise_multiplier))
    if scale > LARGEST_SCALE:
        raise InputError(f"a noise multiplier of {event.noise_multiplier:g} is too large for whole counts; take less")
    payment = account.pay(event)
    substream = payment.stream.substream(Purpose.NOISE, payment.receipt.position)
    noisy = total.units + account.sampler.draw(substream, len(names), scale)
    least = limit(event, int(total.contribution), scale)
    account.done(payment)
    return {name: int(units) * total.unit for name, units in zip(names, noisy, strict=True) if units > least}


def _check_counts(counts: object) -> None:
    """`InputError` unless these are numbers of rows by text. No value and no number is shown: they are private."""
    if not isinstance(counts, Mapping):
        raise InputError(f"counts must be a dict of each value to its number of rows, not {kind_of(counts)}")
    for name, count in counts.items():
        if not isinstance(name, str):
            raise InputError(f"counts has a value that is {kind_of(name)}; make every value text, str(value)")
        whole = isinstance(count, numbers.Integral) and not isinstance(count, bool)
        if not whole or not 0 <= count <= _MOST:
            raise InputError(
                f"counts has a number of rows ({kind_of(count)}) that is not a whole number from 0 to 2^62; count with "
                "collections.Counter, say"
            )


def limit(event: SparseHistogram, one: int, scale: int) -> int:
    """The limit that a noisy count must exceed, in units in which a row counts `one` and the noise has std `scale`.

    The count of a single row exceeds it only if the rounded noise exceeds (T - 1) / s standard deviations, rounded up:
    with probability at most `escape(event)`, as round(Z) > k implies Z > k for whole k. The last term covers the error
    of the samplers.
    """
    deviations = (Fraction(event.threshold) - 1) / Fraction(event.noise_multiplier)
    return one + math.ceil(deviations * scale) + math.ceil(scale * 2.0**-40)
