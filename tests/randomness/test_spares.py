"""Where spare words come from, and that none is read twice."""

import copy
import os
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.core.errors import RandomnessReuse
from discreet.randomness import Purpose, Substream, TestStream
from discreet.randomness.spares import Spares

KEY = bytes(range(32))


def fill_first(stream: Substream, out: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Spares:
    """The spares of words that are read at once."""
    spares = stream.spares(len(out))
    stream.fill(out)
    return spares


def spares_of(count: int, after: int = 0) -> Spares:
    stream = Substream(KEY)
    stream.words(after)
    return fill_first(stream, np.empty(count, np.uint64))


def places(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_spares_are_the_documented_counters_under_the_key_of_the_words() -> None:
    encrypt = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor().update
    spares = spares_of(1000, after=7)
    for number in range(3):
        expected = [encrypt((2**127 + 2**64 * (7 + place) + number).to_bytes(16, "big")) for place in (0, 5, 999)]
        drawn = spares.next_round(places(0, 5, 999))
        assert drawn.tolist() == [[int.from_bytes(b[:8], "little"), int.from_bytes(b[8:], "little")] for b in expected]


def test_spares_belong_to_the_word_whoever_reads_it() -> None:
    whole, stream = spares_of(100), Substream(KEY)
    first, second = stream.part(60), stream.part(40)
    at_60 = fill_first(second, np.empty(40, np.uint64)).next_round(places(0, 39))
    at_10 = fill_first(first, np.empty(60, np.uint64)).next_round(places(10))
    assert np.array_equal(whole.next_round(places(10, 60, 99)), np.concatenate([at_10, at_60]))


def test_filling_reads_the_words_that_any_other_call_reads() -> None:
    one, other = Substream(KEY), Substream(KEY)
    out = np.empty(11, np.uint64)
    fill_first(one, out)
    assert np.array_equal(out, other.words(11))
    assert np.array_equal(one.words(3), other.words(3))


def test_no_word_is_a_spare_and_no_spare_comes_twice() -> None:
    # 4e5 words: a repeat by chance has probability 5e-9
    stream = TestStream(1).substream(Purpose.NOISE, 0)
    words, drawn = np.empty(20_000, np.uint64), []
    for _ in range(4):
        spares = fill_first(stream, words)
        drawn += [words.copy(), *(spares.next_round(np.arange(20_000)).ravel() for _ in range(2))]
    assert len(np.unique(np.concatenate(drawn))) == 4 * 5 * 20_000


@pytest.mark.parametrize("twice", [(3, 3), (1, 4, 4, 5), (5, 4)])
def test_an_owner_is_served_once_in_a_round(twice: tuple[int, ...]) -> None:
    with pytest.raises(RandomnessReuse, match="twice"):
        spares_of(10).next_round(places(*twice))


def test_a_place_outside_the_run_is_refused() -> None:
    for outside in (-1, 10):
        with pytest.raises(RandomnessReuse, match="outside"):
            spares_of(10).next_round(places(outside))


def test_words_that_have_no_spares_are_refused_before_they_are_read() -> None:
    stream = Substream(KEY)
    stream.part(2**63 - 5)
    last, beyond = stream.part(5), np.zeros(1, np.uint64)
    assert fill_first(last, np.empty(5, np.uint64)).next_round(places(4)).shape == (1, 2)
    with pytest.raises(RandomnessReuse, match="no spares"):
        fill_first(stream, beyond)
    assert beyond[0] == 0
    expected = Substream(KEY)
    expected.part(2**63)
    assert np.array_equal(stream.words(2), expected.words(2))


def test_a_part_has_only_its_own_words() -> None:
    with pytest.raises(RandomnessReuse, match="left in this part"):
        fill_first(Substream(KEY).part(3), np.empty(4, np.uint64))


def test_copies_and_other_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spares = spares_of(10)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="would repeat noise"):
            duplicate(spares)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RandomnessReuse, match="forked"):
        spares.next_round(places(1))
