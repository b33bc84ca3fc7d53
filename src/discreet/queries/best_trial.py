"""The best of a secret number of private trials (Liu and Talwar 2019; Papernot and Steinke 2022)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core.assumptions import TRIALS
from discreet.core.errors import InputError, kind_of
from discreet.core.events import Event, Selection
from discreet.core.guarantee import Guarantee
from discreet.core.release import Receipt
from discreet.core.trials import Trials
from discreet.queries.charging import Account, check_account
from discreet.queries.choices import check_candidates
from discreet.queries.draws import check_drawable, draw_trials
from discreet.randomness import Purpose, Stream, Substream
from discreet.sampling.uniform import below

Trial = Callable[[Any, Stream], tuple[float, Any]]
"""`trial(candidate, stream) -> (score, result)`, with all noise from `stream`; the pair is as private as one event."""

_ENDED = "the search ended without a result, and stays charged"


@dataclass(frozen=True, slots=True)
class Selected:
    """The winner of a search. `candidate` is None, and `score` -inf, if the law drew no trial at all."""

    candidate: Any
    score: float
    result: Any
    event: Event
    receipt: Receipt
    guarantee: Guarantee
    assumptions: tuple[str, ...]


def select(trial: Trial, candidates: Sequence[Any], event: Event, trials: Trials, account: Account) -> Selected:
    """Run `trial` K times, each on a candidate drawn at random, and release the one with the highest score.

    The caller must make sure that `event` covers all that one trial reads of the data, its score included. The whole
    search is charged before it starts, as one `Selection`. K is drawn from the keyed stream and stays secret, as do all
    trials but the winner: do not log inside `trial`. The duration of a search reveals K. A NaN score ranks last; of
    equal scores the first wins, which is as good as a random choice, since trials have the same law. If a trial raises,
    or returns anything but a number and a result, the search ends without a result and stays charged. `InputError`,
    before the charge, without a candidate, for undrawable `trials` and for other kinds of arguments.
    """
    check_candidates(candidates)
    check_drawable(trials)
    _check_trial(trial)
    check_account(account)
    payment = account.pay(Selection(event, trials))
    substream = payment.stream.substream(Purpose.NOISE, payment.receipt.position)
    candidate, best, result = None, -math.inf, None
    for number in range(draw_trials(trials, substream)):
        tried = candidates[uniform_index(len(candidates), substream)]
        score, found = _scored(trial(tried, account.start(number + 1)))
        if number == 0 or score > best:
            candidate, best, result = tried, score, found
    # No release is recorded in the ledger: the time of that entry would reveal K.
    price = payment.guarantee
    return Selected(candidate, best, result, payment.receipt.event, payment.receipt, price, (TRIALS,))


def _check_trial(trial: object) -> None:
    """`InputError` for what cannot be called with a candidate and a stream."""
    if not callable(trial):
        raise InputError(f"trial must be a function of (candidate, stream), not {kind_of(trial)}")
    try:
        signature = inspect.signature(trial)
    except (TypeError, ValueError):  # of a function that does not tell
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise InputError(
            f"trial must take (candidate, stream) and return (score, result); it takes {signature}"
        ) from None


def _scored(returned: object) -> tuple[float, Any]:
    """The score of a trial, less than any other if it is NaN, and its result. Kinds alone are shown of others: what a
    trial returns is private until it wins."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise InputError(f"a trial must return a pair (score, result), not {kind_of(returned)}; {_ENDED}")
    score, result = returned
    try:
        if isinstance(score, str | bytes) or np.ndim(score) != 0:
            raise TypeError
        number = float(score)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"the score of a trial must be a number, not {kind_of(score)}; {_ENDED}") from None
    return (-math.inf if math.isnan(number) else number), result


def uniform_index(size: int, substream: Substream) -> int:
    """A whole number in 0 .. size - 1, exactly uniform."""
    return int(below(size, 1, substream)[0])
