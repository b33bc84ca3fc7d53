"""Units drawn site by site have the law of one draw from all units, whatever process holds which site.

Chi-square over everything that can be drawn from a few units at three sites. Seeds are fixed; five tests at 1e-7 each,
a false-alarm rate of 5e-7 in all. Sites that share bits, and a rate that is divided among them, show that it can fail;
so does a sampler whose units depend on each other.
"""

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from sampler_laws import CASES, draw_of, p_value

from discreet.core.errors import RandomnessReuse
from discreet.data.private.sites import HeldSites
from discreet.distributed.lanes import Lanes
from discreet.distributed.site_draws import WORDS, SiteDraws, SiteStreams
from discreet.randomness import Purpose, Stream, TestStream
from discreet.sampling import SAMPLERS, PoissonSampler, Sampler

LEVEL = 1e-7
SITES = 3
KINDS = {
    "poisson": "poisson",
    "allocation": "allocation",
    "allocation, two of four": "allocation",
    "cyclic": "cyclic_poisson",
    "everyone": "none",
    "fixed size": "fixed_size",
    "truncated": "truncated_poisson",
    "shuffle": "shuffle",
    "individual": "individual",
}
"""The record of each case of a sampler."""

INDEPENDENT = [name for name, kind in KINDS.items() if SAMPLERS[kind].INDEPENDENT]


def sizes(units: int, held: tuple[int, ...] = (0, 1, 2)) -> dict[int, int]:
    """The units of each site held, of so many in all: one at each of the first two, the others at the last."""
    return {number: size for number, size in enumerate((1, min(1, units - 1), max(0, units - 2))) if number in held}


@dataclass(frozen=True)
class AtSites:
    """A sampler whose units lie at three sites of one process."""

    sampler: Sampler
    kind: type[SiteDraws] = SiteDraws

    @property
    def period(self) -> int:
        return self.sampler.period

    def batches(self, first: int, size: int, stream: Stream) -> Any:
        return self.kind(HeldSites.with_sizes(SITES, sizes(size)), stream).batches(self.sampler, first)


class OneStream(SiteDraws):
    """Every site begins the same words."""

    def __init__(self, sites: HeldSites, stream: Stream) -> None:
        super().__init__(sites, stream)
        self.given = stream

    def batches(self, sampler: Sampler, first: int) -> tuple[npt.NDArray[np.int64], ...]:
        seed = int(self.given.substream(Purpose.SAMPLING, first).words(1)[0])
        found = [
            [drawn + units.start for drawn in sampler.batches(first, len(units), TestStream(seed))]
            for units in self._ranges.values()
        ]
        return tuple(np.concatenate(step) for step in zip(*found, strict=True))


class RateSharedOut(SiteDraws):
    """Each site draws at a third of the rate, as if a batch were to be divided among processes."""

    def batches(self, sampler: Sampler, first: int) -> tuple[npt.NDArray[np.int64], ...]:
        assert isinstance(sampler, PoissonSampler)
        return super().batches(PoissonSampler(sampler.rate / SITES), first)


class SameEveryStep(SiteDraws):
    """Sites that draw in every step what they drew in the first."""

    def batches(self, sampler: Sampler, first: int) -> tuple[npt.NDArray[np.int64], ...]:
        again = SiteDraws(self._sites, TestStream(4))
        return again.batches(sampler, 0)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_sites_draw_with_the_law_of_one_data_set(name: str) -> None:
    case = CASES[name]
    assert p_value(AtSites(case.sampler), case.size, case.law, seed=1) >= LEVEL


@pytest.mark.parametrize("broken", [OneStream, RateSharedOut, SameEveryStep])
def test_broken_draws_of_sites_fail(broken: type[SiteDraws]) -> None:
    case = CASES["poisson"]
    assert p_value(AtSites(case.sampler, broken), case.size, case.law, seed=1) < LEVEL


def test_a_sampler_whose_units_depend_on_each_other_fails() -> None:
    """It is not marked as independent, so a run refuses it: cut to two units at each site is not cut to two of all."""
    case = CASES["truncated"]
    assert not SAMPLERS[KINDS["truncated"]].INDEPENDENT
    assert p_value(AtSites(case.sampler), case.size, case.law, seed=1) < LEVEL


@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_site_draws_the_same_whatever_process_holds_it(name: str) -> None:
    """Two processes of one stream, which hold sites 0 and 2, and 1, draw what one draws that holds all."""
    case, units = CASES[name], 40
    every = sizes(units)
    for first in range(0, 5 * case.sampler.period, case.sampler.period):
        whole = SiteDraws(HeldSites.with_sizes(SITES, every), TestStream(6)).batches(case.sampler, first)
        for held in ((0, 2), (1,)):
            mine = HeldSites.with_sizes(SITES, sizes(units, held))
            draws, starts = SiteDraws(mine, TestStream(6)), HeldSites.with_sizes(SITES, every).ranges
            for step, drawn in enumerate(draws.batches(case.sampler, first)):
                for (number, places), local in zip(draws.by_site(drawn), mine.ranges.values(), strict=True):
                    there = starts[number]
                    here = drawn[places.start : places.stop] - local.start + there.start
                    assert here.tolist() == [one for one in whole[step].tolist() if one in there]


def test_every_kind_of_sampler_is_tried() -> None:
    assert set(KINDS.values()) == set(SAMPLERS)


def test_no_word_is_given_to_two_sites() -> None:
    """Site s has the words from s 2^64 on of the sub-stream of a step, and has them once."""
    streams = SiteStreams(TestStream(3), (0, 1, 5))
    whole = TestStream(3).substream(Purpose.SAMPLING, 7)
    for number in range(6):
        words = whole.part(WORDS).words(9)
        if number in (0, 1, 5):
            assert streams.take(number, Purpose.SAMPLING, 7).words(9).tolist() == words.tolist()
    for number in (0, 2):
        with pytest.raises(RandomnessReuse):
            streams.take(number, Purpose.SAMPLING, 7)
    streams.take(1, Purpose.SAMPLING, 8)
    with pytest.raises(RandomnessReuse, match="of a site"):
        streams.take(1, Purpose.SAMPLING, 8)
    assert streams.kind == "test"


def test_units_are_dealt_to_turns_once_in_an_attempt() -> None:
    draws = SiteDraws(HeldSites.with_sizes(SITES, sizes(60)), TestStream(2))
    sampler = CASES["cyclic"].sampler
    turns: dict[int, set[int]] = {}
    for first in range(0, 30, 3):
        for turn, drawn in enumerate(draws.batches(sampler, first)):
            for unit in drawn.tolist():
                turns.setdefault(unit, set()).add(turn)
    assert all(len(found) == 1 for found in turns.values())
    assert {turn for found in turns.values() for turn in found} == {0, 1, 2}


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9), st.integers(1, 20), st.data())
def test_sites_have_no_more_chunks_than_lanes(held: list[int], units: int, data: st.DataObject) -> None:
    """The sensitivity counts on it: every chunk is rounded once."""
    sites = HeldSites.with_sizes(len(held), dict(enumerate(held)))
    drawn = np.array(sorted(data.draw(st.sets(st.integers(0, max(0, sum(held) - 1))))) if sum(held) else [], np.int64)
    chunks = SiteDraws(sites, TestStream(1)).chunks(drawn, units)
    assert [place for _, places in chunks for place in places] == list(range(len(drawn)))
    assert all(0 < len(places) <= units for _, places in chunks)
    assert all(drawn[place] in sites.ranges[number] for number, places in chunks for place in places)
    assert len(chunks) <= Lanes(len(held)).most_chunks(len(drawn), units)


def test_chunks_keep_sites_apart() -> None:
    sites = HeldSites.with_sizes(4, {0: 5, 2: 0, 3: 8})
    draws, drawn = SiteDraws(sites, TestStream(1)), np.array([1, 2, 4, 5, 9, 12])
    assert draws.chunks(drawn, 2) == [(0, range(2)), (0, range(2, 3)), (3, range(3, 5)), (3, range(5, 6))]
    assert draw_of(AtSites(PoissonSampler(1.0)), 0, 4, TestStream(1)) == ((0, 1, 2, 3),)
