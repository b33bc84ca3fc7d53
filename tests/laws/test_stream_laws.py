"""Laws of every stream: no sub-stream is used twice, and the same address redraws bit for bit.

"Different" below means that the first 128 bits differ; by chance they agree with probability 2^-128.
"""

import itertools
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.errors import RandomnessReuse
from discreet.randomness import Purpose, Stream, SystemStream, TestStream
from discreet.randomness.stream import _encode_address

RUN_KEY = bytes(range(32))

# Each maker gives a new object with the same key material at every call.
REBUILT: dict[str, Callable[[], Stream]] = {
    "system": lambda: SystemStream._from_attempt_key(RUN_KEY),
    "test": lambda: TestStream(11),
}

steps = st.integers(0, 2**64 - 1) | st.integers(0, 300)
addresses = st.tuples(st.sampled_from(Purpose), steps)


def every_stream(function: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("make", REBUILT.values(), ids=REBUILT)(function)


def head(stream: Stream, address: tuple[Purpose, int]) -> tuple[int, ...]:
    return tuple(stream.substream(*address).words(2).tolist())


@every_stream
@given(st.lists(addresses, min_size=2, max_size=20, unique=True))
def test_different_addresses_draw_different_words(make: Callable[[], Stream], drawn: list[tuple[Purpose, int]]) -> None:
    stream = make()
    assert len({head(stream, address) for address in drawn}) == len(drawn)


@every_stream
def test_no_word_repeats_over_purposes_and_steps(make: Callable[[], Stream]) -> None:
    # 2 x 500 x 20 words: a repeated 64-bit word by chance has probability 2e8 / 2^64 = 1e-11
    stream = make()
    words = [stream.substream(*address).words(20) for address in itertools.product(Purpose, range(500))]
    assert len(np.unique(np.concatenate(words))) == len(Purpose) * 500 * 20


@every_stream
@given(addresses)
def test_one_address_is_handed_out_once(make: Callable[[], Stream], address: tuple[Purpose, int]) -> None:
    stream = make()
    stream.substream(*address)
    for _ in range(2):
        with pytest.raises(RandomnessReuse, match="already"):
            stream.substream(*address)


@every_stream
def test_a_race_of_threads_is_served_once(make: Callable[[], Stream]) -> None:
    class Slow(set[tuple[Purpose, int]]):
        """Lets the other threads run between looking up an address and taking it."""

        def __contains__(self, address: object) -> bool:
            found = super().__contains__(address)
            time.sleep(1e-3)
            return found

    stream, served, start = make(), [], threading.Barrier(4)
    stream._addresses._taken = Slow()

    def ask() -> None:
        start.wait()
        for step in range(20):
            try:
                stream.substream(Purpose.NOISE, step)
            except RandomnessReuse:
                continue
            served.append(step)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served) == list(range(20))


@every_stream
@given(addresses, st.integers(0, 50))
def test_the_same_address_redraws_bit_for_bit(
    make: Callable[[], Stream], address: tuple[Purpose, int], count: int
) -> None:
    first, second = make(), make()
    second.substream(Purpose.NOISE if address[0] is Purpose.SAMPLING else Purpose.SAMPLING, 0)  # order is irrelevant
    assert np.array_equal(first.substream(*address).words(count), second.substream(*address).words(count))


@every_stream
@given(st.lists(st.integers(0, 40), max_size=8))
def test_words_do_not_depend_on_the_division_of_requests(make: Callable[[], Stream], counts: list[int]) -> None:
    whole = make().substream(Purpose.NOISE, 0).words(sum(counts))
    substream = make().substream(Purpose.NOISE, 0)
    parts = [substream.words(count) for count in counts]
    assert np.array_equal(np.concatenate([np.empty(0, np.uint64), *parts]), whole)


@given(addresses, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_two_starts_never_agree(address: tuple[Purpose, int], first: int, second: int) -> None:
    # `first == second` included: a ledger restored from a backup gives the same attempt number again.
    starts = [SystemStream.start(RUN_KEY, attempt) for attempt in (first, second, first)]
    assert len({head(stream, address) for stream in starts}) == 3


def test_attempt_and_run_key_matter_even_if_the_fresh_bytes_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    address = (Purpose.NOISE, 0)
    starts = [SystemStream.start(key, attempt) for key in (RUN_KEY, RUN_KEY[::-1]) for attempt in (0, 1, 256)]
    assert len({head(stream, address) for stream in starts}) == 6


@given(st.lists(st.integers(0), min_size=2, max_size=6, unique=True))
def test_test_seeds_differ(seeds: list[int]) -> None:
    assert len({head(TestStream(seed), (Purpose.NOISE, 0)) for seed in seeds}) == len(seeds)


@given(st.text(max_size=40), steps)
def test_the_encoding_of_addresses_is_injective(purpose: str, step: int) -> None:
    assert decode_address(_encode_address(purpose, step)) == (purpose, step)


def decode_address(encoded: bytes) -> tuple[str, int]:
    """A left inverse: where it exists, no two addresses share an encoding."""
    end = 2 + int.from_bytes(encoded[:2], "big")
    assert len(encoded) == end + 8
    return encoded[2:end].decode(), int.from_bytes(encoded[end:], "big")
