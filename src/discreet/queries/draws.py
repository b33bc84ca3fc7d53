"""Noise of choices and the number of trials, from the keyed stream."""

from __future__ import annotations

import numpy as np

from discreet.core.array_types import Array
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials, fewest, first_mass, next_ratio
from discreet.randomness import Substream

_MOST_TRIALS = 10**7
_LARGEST_POISSON_MEAN = 600.0
_LEAST_SUCCESS, _LARGEST_MEAN = 2e-6, 2e5
"""Beyond these, more than `_MOST_TRIALS` trials are drawn with a probability above e^-20, after the charge. (With a
shape of at most 1 each further trial is drawn with probability at most 1 - success; with a larger one the number keeps
near its mean.)
"""


def exponentials(substream: Substream, n: int) -> Array:
    """`n` standard exponentials -log(1 - u), u = (word + 1/2) / 2^64, with a small relative error near 0 too."""
    words = substream.words(n)
    low = words < np.uint64(1 << 63)
    # Each half from the side on which a float loses nothing: u where u < 1/2, else 1 - u.
    distance = (np.where(low, words, ~words).astype(np.float64) + 0.5) * 2.0**-64
    return np.where(low, -np.log1p(-distance), -np.log(distance))


def gumbels(substream: Substream, n: int) -> Array:
    """`n` standard Gumbel variables, -log of exponentials."""
    return -np.log(exponentials(substream, n))


def laplaces(substream: Substream, n: int) -> Array:
    """`n` standard Laplace variables: an exponential with a random sign."""
    sizes = exponentials(substream, n)
    return np.where(substream.words(n) & np.uint64(1), sizes, -sizes)


def check_drawable(trials: Trials) -> None:
    """Raise `InputError` for a law that `draw_trials` cannot draw; call this before the charge."""
    if not isinstance(trials, Trials):
        raise InputError(f"trials must be the law of their number, got {trials!r}")
    if isinstance(trials, PoissonTrials) and trials.mean > _LARGEST_POISSON_MEAN:
        raise InputError(f"the mean number of trials must be at most {_LARGEST_POISSON_MEAN:g}, got {trials.mean:g}")
    if isinstance(trials, NegativeBinomialTrials) and not (
        trials.success >= _LEAST_SUCCESS and trials.mean <= _LARGEST_MEAN
    ):
        raise InputError(
            f"the law may draw more than {_MOST_TRIALS} trials, and a search then ends without a result: its success "
            f"must be at least {_LEAST_SUCCESS:g}, got {trials.success:g}, and its mean at most {_LARGEST_MEAN:g}"
        )


def draw_trials(trials: Trials, substream: Substream) -> int:
    """K, by inversion of its distribution function at one 64-bit word."""
    u = (int(substream.words(1)[0]) + 0.5) * 2.0**-64
    k, mass = fewest(trials), first_mass(trials)
    total = compensation = 0.0
    while True:
        # Kahan's sum: K may be in the thousands
        step = mass - compensation
        after = total + step
        compensation = (after - total) - step
        total = after
        if u < total or (k > 2 * trials.mean and mass <= 1e-18 * total):
            return k
        if k >= _MOST_TRIALS:
            raise PrivacyViolation(f"a search of more than {_MOST_TRIALS} trials was drawn; use a law with fewer")
        mass *= next_ratio(trials, k)
        k += 1
