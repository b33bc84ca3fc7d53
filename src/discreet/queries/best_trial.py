"""The best of a secret number of private trials (Liu and Talwar 2019; Papernot and Steinke 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.core.assumptions import TRIALS
from discreet.core.events import Event, Selection
from discreet.core.guarantee import Guarantee
from discreet.core.release import Receipt
from discreet.core.trials import Trials
from discreet.queries.charging import Account
from discreet.queries.choices import check_candidates
from discreet.queries.draws import check_drawable, draw_trials
from discreet.randomness import Purpose, Stream, Substream

Trial = Callable[[Any, Stream], tuple[float, Any]]
"""`trial(candidate, stream) -> (score, result)`, with all noise from `stream`; the pair is as private as one event."""


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
    the search ends without a result and stays charged. `InputError` without a candidate or for undrawable `trials`.
    """
    check_candidates(candidates)
    check_drawable(trials)
    payment = account.pay(Selection(event, trials))
    substream = payment.stream.substream(Purpose.NOISE, payment.receipt.position)
    candidate, best, result = None, -math.inf, None
    for number in range(draw_trials(trials, substream)):
        tried = candidates[uniform_index(len(candidates), substream)]
        score, found = trial(tried, account.start(number + 1))
        score = -math.inf if math.isnan(score) else float(score)
        if number == 0 or score > best:
            candidate, best, result = tried, score, found
    # No release is recorded in the ledger: the time of that entry would reveal K.
    price = payment.guarantee
    return Selected(candidate, best, result, payment.receipt.event, payment.receipt, price, (TRIALS,))


def uniform_index(size: int, substream: Substream) -> int:
    """A whole number in 0 .. size - 1, exactly uniform: words beyond the last full multiple of `size` are redrawn."""
    limit = (1 << 64) // size * size
    while True:
        word = int(substream.words(1)[0])
        if word < limit:
            return word % size
