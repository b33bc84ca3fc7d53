"""Lanes share out every place of a draw once, in chunks that do not depend on the number of processes."""

import hypothesis.strategies as st
from hypothesis import given

from discreet.distributed.lanes import Lanes


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 300), st.integers(1, 50))
def test_every_place_is_in_one_chunk_of_one_process(lanes: int, size: int, drawn: int, units: int) -> None:
    shared = [Lanes(lanes, rank, size).chunks(drawn, units) for rank in range(size)]
    places = sorted(place for chunks in shared for _, some in chunks for place in some)
    assert places == list(range(drawn))
    assert all(0 < len(some) <= units for chunks in shared for _, some in chunks)
    together = sorted((lane, list(some)) for chunks in shared for lane, some in chunks)
    assert together == [(lane, list(some)) for lane, some in Lanes(lanes).chunks(drawn, units)]
    assert len(together) <= Lanes(lanes).most_chunks(drawn, units)


def test_one_lane_is_the_batch_in_order() -> None:
    assert Lanes(1).chunks(7, 3) == [(0, range(3)), (0, range(3, 6)), (0, range(6, 7))]
