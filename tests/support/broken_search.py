"""Broken searches: numbers of runs that the price is not for, runs that are not charged, parts of data that meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from broken_builds import broken, patched

from discreet.plan import PartsSearch, Search
from discreet.randomness import TestStream
from discreet.training.tuning import candidate_data, tuning
from discreet.training.tuning.private_choice import PrivateChoice
from discreet.training.tuning.tuning import Tuning

GRID = {"lr": [0.1, 0.3, 1.0], "clip_norm": [0.5]}
BEST = {"search": Search.make(GRID, 5, score="validation_accuracy")}
PARTS = {"search": PartsSearch.make(GRID)}


def counted(change: Callable[[Callable[[], int]], int]) -> Any:
    """The number of runs drawn otherwise."""
    real = tuning.draw_trials
    return patched((tuning, "draw_trials", lambda law, stream: change(lambda: real(law, stream))))


@broken("the number of runs is no secret: always the mean", "search/runs", **BEST)
def runs_fixed() -> Any:
    return counted(lambda draw: 5)


@broken("no more than eight runs are made", "search/runs", **BEST)
def runs_cut() -> Any:
    return counted(lambda draw: min(8, draw()))


@broken("a search of one run is drawn again", "search/runs", **BEST)
def runs_drawn_again() -> Any:
    def at_least_two(draw: Callable[[], int]) -> int:
        while (found := draw()) < 2:
            pass
        return found

    return counted(at_least_two)


@broken("the first candidate is tried twice as often", "search/candidates", **BEST)
def first_candidate_preferred() -> Any:
    real = tuning.uniform_index
    return patched((tuning, "uniform_index", lambda size, stream: min(real(size, stream), real(size, stream))))


@broken(
    "the best by an exact loss on private rows comes out, not by the score",
    "search/winner",
    **BEST,
)
def best_by_private_rows() -> Any:
    def score(found: Any, name: str, early: Any) -> float:
        return float(sum(one.double().sum() for one in found.model.state_dict().values()))

    return patched((tuning, "score_of", score))


@broken("one run is charged and not the search", "search/charges", **BEST)
def one_run_charged() -> Any:
    real = Tuning._charge

    def charge(self: Any, randomness: str) -> Any:
        whole = self.plan
        self.plan = whole.model_copy(update={"search": None})
        try:
            return real(self, randomness)
        finally:
            self.plan = whole

    return patched((Tuning, "_charge", charge))


@broken("a search is charged when it is done", "search/charges", **BEST)
def search_charged_late() -> Any:
    real = Tuning._charge
    return patched((Tuning, "_charge", lambda self, randomness: (real(self, randomness)[0], ())))


@broken("all runs of a search have one key, and so the same noise", "search/noise", **BEST)
def runs_of_one_key() -> Any:
    real = Tuning._trial

    def trial(self: Any, index: int, run: str, number: int, stop: Any) -> Any:
        start = self._start
        self._start = lambda _number: TestStream(5)
        try:
            return real(self, index, run, number, stop)
        finally:
            self._start = start

    return patched((Tuning, "_trial", trial))


@broken("parts of the data go by the places of rows, so that one unit moves the others", "search/parts", **PARTS)
def parts_by_place() -> Any:
    real = candidate_data.in_parts

    def by_place(data: Any, identifiers: Any, place: Any, parts: int) -> Any:
        return real(data, list(range(len(identifiers))), lambda name: name % parts, parts)

    return patched((candidate_data, "in_parts", by_place))


@broken("the first candidate is trained on rows that the choice is made on", "search/parts", **PARTS)
def choice_on_rows_trained_on() -> Any:
    real = candidate_data.in_parts

    def meeting(data: Any, identifiers: Any, place: Any, parts: int) -> Any:
        found = real(data, identifiers, place, parts)
        mine = place(identifiers[0])
        other = 0 if mine == parts - 1 else parts - 1
        rows = real(data, identifiers, lambda name: 0 if place(name) in (mine, other) else 1, 2)[0]
        return [dataclasses.replace(rows) if i == other else one for i, one in enumerate(found)]

    return patched((candidate_data, "in_parts", meeting))


def choosing(times: float) -> Any:
    """Choices at another epsilon."""
    real = PrivateChoice.choose

    def choose(self: Any, scores: Any, substream: Any) -> int:
        kept, self._range = self._range, self._range * times
        try:
            return real(self, scores, substream)
        finally:
            self._range = kept

    return patched((PrivateChoice, "choose", choose))


@broken("the choice is made at twice its epsilon", "search/choice", **PARTS)
def choice_of_twice_the_epsilon() -> Any:
    return choosing(2.0)


@broken("the candidate with the best exact score comes out", "search/choice", **PARTS)
def choice_without_noise() -> Any:
    return choosing(1e6)
