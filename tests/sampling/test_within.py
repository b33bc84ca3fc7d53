"""Which rows of a unit take part: exactly uniform subsets, drawn independently for every unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.randomness import Purpose, Substream, TestStream
from discreet.sampling.within import places_within

Draw = Callable[[IntArray, int, Substream], list[IntArray]]

FALSE_ALARM = 1e-9
"""Of each chi-square test, were the seeds not fixed."""


def bits(seed: int) -> Substream:
    return TestStream(seed).substream(Purpose.ROWS, 0)


def p_value(counts: IntArray) -> float:
    """Of a chi-square test that all cells are equally likely."""
    return float(stats.chisquare(counts).pvalue)


def p_value_of_subsets(draw: Draw, size: int, most: int) -> float:
    """All subsets are equally likely: 20,000 units of one size, among others that are smaller and larger."""
    counts = np.array([size, most, size + 3] * 20_000)
    numbers = {subset: i for i, subset in enumerate(itertools.combinations(range(size), most))}
    seen = np.zeros(len(numbers), np.int64)
    for places in draw(counts, most, bits(size))[::3]:
        seen[numbers.get(tuple(places.tolist()), 0)] += 1
    return p_value(seen)


def p_value_of_pairs(draw: Draw) -> float:
    """What two units of one step draw is independent: 5 x 5 equally likely pairs."""
    drawn = draw(np.full(40_000, 5), 1, bits(7))
    pairs = [5 * int(a[0]) + int(b[0]) for a, b in itertools.pairwise(drawn)][::2]
    return p_value(np.bincount(pairs, minlength=25))


@pytest.mark.parametrize(("size", "most"), [(2, 1), (5, 1), (5, 2), (6, 3), (6, 5), (20, 2)])
def test_every_subset_is_equally_likely(size: int, most: int) -> None:
    assert p_value_of_subsets(places_within, size, most) > FALSE_ALARM


def test_units_draw_independently() -> None:
    assert p_value_of_pairs(places_within) > FALSE_ALARM


def the_first(counts: IntArray, most: int, _: Substream) -> list[IntArray]:
    return [np.arange(min(int(count), most)) for count in counts]


def all_alike(counts: IntArray, most: int, substream: Substream) -> list[IntArray]:
    """One draw for all units of a size."""
    one = {int(size): places_within(np.array([size]), most, substream)[0] for size in np.unique(counts)}
    return [one[int(count)] for count in counts]


def a_little_more_often(counts: IntArray, most: int, substream: Substream) -> list[IntArray]:
    """One unit in 25 takes its first rows."""
    drawn = places_within(counts, most, substream)
    return [np.arange(len(places)) if i % 25 == 0 else places for i, places in enumerate(drawn)]


def test_the_tests_above_find_broken_draws() -> None:
    assert p_value_of_subsets(the_first, 5, 2) < FALSE_ALARM
    assert p_value_of_subsets(a_little_more_often, 5, 2) < FALSE_ALARM
    assert p_value_of_pairs(all_alike) < FALSE_ALARM


def test_places_are_sorted_distinct_and_all_of_few() -> None:
    counts = np.array([1, 3, 4, 5, 1000, 4, 100_000])
    drawn = places_within(counts, 4, bits(0))
    assert [len(places) for places in drawn] == [1, 3, 4, 4, 4, 4, 4]
    for count, places in zip(counts, drawn, strict=True):
        assert np.all(np.diff(places) > 0)
        assert np.all((places >= 0) & (places < count))
    for unit in (0, 1, 2, 5):
        assert np.array_equal(drawn[unit], np.arange(counts[unit]))


def test_nobody_drawn_and_nobody_with_more_rows_take_no_bits() -> None:
    substream = bits(1)
    assert places_within(np.array([], np.int64), 3, substream) == []
    places_within(np.array([1, 2, 3]), 3, substream)
    assert substream.words(1) == bits(1).words(1)


def test_many_large_units_are_drawn_piece_by_piece() -> None:
    drawn = places_within(np.full(20, 2**20), 3, bits(2))
    assert all(len(set(places.tolist())) == 3 for places in drawn)
    assert math.isclose(float(np.mean(np.concatenate(drawn))), 2**19, rel_tol=0.5)


def test_no_row_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="most"):
        places_within(np.array([3]), 0, bits(3))
