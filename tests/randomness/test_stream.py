"""The derivation of the stream, byte by byte, and what its objects refuse."""

import copy
import hashlib
import hmac
import itertools
import os
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet.core.errors import InputError, RandomnessReuse
from discreet.randomness import Purpose, Stream, Substream, SystemStream, TestStream

RUN_KEY = bytes(range(32))
STREAMS = {"system": lambda: SystemStream.start(RUN_KEY, 1), "test": lambda: TestStream(1)}


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    return STREAMS[request.param]()


def test_words_are_the_key_stream_under_the_documented_key() -> None:
    attempt_key = bytes(range(100, 132))
    words = SystemStream._from_attempt_key(attempt_key).substream(Purpose.NOISE, 258).words(5)

    address = b"\x00\x05noise" + b"\x00\x00\x00\x00\x00\x00\x01\x02"
    key = hmac.new(attempt_key, address, hashlib.sha256).digest()
    counters = b"".join(i.to_bytes(16, "big") for i in range(3))
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counters)
    assert words.tolist() == [int.from_bytes(blocks[8 * i : 8 * i + 8], "little") for i in range(5)]


def test_attempt_key_is_hkdf_of_run_key_attempt_and_fresh_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = bytes(range(50, 82))
    monkeypatch.setattr(os, "urandom", lambda n: fresh[:n])
    started = SystemStream.start(RUN_KEY, 7)

    # RFC 5869 with one block of output
    extracted = hmac.digest(fresh, RUN_KEY, "sha256")
    info = b"discreet attempt key v1" + (7).to_bytes(8, "big")
    rebuilt = SystemStream._from_attempt_key(hmac.digest(extracted, info + b"\x01", "sha256"))
    assert _head(started) == _head(rebuilt)


def test_kinds_and_types_differ() -> None:
    system, test = SystemStream.start(RUN_KEY, 0), TestStream(0)
    assert (system.kind, test.kind) == ("system", "test")
    assert not isinstance(test, SystemStream)
    assert not isinstance(system, TestStream)


def test_words_have_the_stated_shape_and_type(stream: Stream) -> None:
    substream = stream.substream(Purpose.NOISE, 0)
    words = substream.words(1000)
    assert words.shape == (1000,)
    assert words.dtype == np.uint64
    assert words.dtype.isnative
    assert substream.words(0).shape == (0,)


def test_words_are_not_visibly_biased(stream: Stream) -> None:
    bits = np.unpackbits(stream.substream(Purpose.NOISE, 0).words(20_000).view(np.uint8).reshape(-1, 8), axis=1)
    ones = bits.mean(axis=0)  # per bit position, mean of 20,000 bits: 6 standard deviations are 0.0213
    assert np.abs(ones - 0.5).max() < 0.0213


def test_system_stream_has_no_public_constructor() -> None:
    with pytest.raises(TypeError, match="start"):
        SystemStream()


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), bytearray(32), "k" * 32, None])
def test_a_key_of_the_wrong_kind_is_refused_and_not_shown(key: object) -> None:
    for make in (
        lambda: SystemStream.start(key, 1),
        lambda: SystemStream._from_attempt_key(key),
        lambda: Substream(key),
    ):
        with pytest.raises(InputError, match="32 bytes") as caught:
            make()
        assert "kkkk" not in str(caught.value)


@pytest.mark.parametrize("bad", [-1, 2**64, 1.0, float("nan"), True, "1", None])
def test_steps_and_attempts_outside_the_range_are_refused(stream: Stream, bad: object) -> None:
    with pytest.raises(InputError, match="step"):
        stream.substream(Purpose.NOISE, bad)
    with pytest.raises(InputError, match="attempt"):
        SystemStream.start(RUN_KEY, bad)


def test_the_ends_of_the_range_are_accepted(stream: Stream) -> None:
    for step in (0, np.int64(1), 2**64 - 1):
        stream.substream(Purpose.SAMPLING, step)


def test_a_numpy_step_is_the_same_address(stream: Stream) -> None:
    stream.substream(Purpose.NOISE, np.int64(3))
    with pytest.raises(RandomnessReuse):
        stream.substream(Purpose.NOISE, 3)


@pytest.mark.parametrize("bad", ["noise", "else", 0, None])
def test_only_a_purpose_is_a_purpose(stream: Stream, bad: object) -> None:
    with pytest.raises(InputError, match="purpose"):
        stream.substream(bad, 0)


@pytest.mark.parametrize("bad", [-1, 2.0, float("nan"), True, None])
def test_word_counts_are_checked(stream: Stream, bad: object) -> None:
    with pytest.raises(InputError, match="count"):
        stream.substream(Purpose.NOISE, 0).words(bad)


@pytest.mark.parametrize("bad", [-1, 1.5, None, True])
def test_seeds_are_checked(bad: object) -> None:
    with pytest.raises(InputError, match="seed"):
        TestStream(bad)


def test_nothing_can_be_copied_or_pickled(stream: Stream) -> None:
    for value in (stream, stream.substream(Purpose.NOISE, 0), stream._addresses):
        for clone in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="copied or pickled"):
                clone(value)


def test_a_forked_child_is_refused(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    substream = stream.substream(Purpose.NOISE, 0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RandomnessReuse, match="fork"):
        substream.words(1)
    with pytest.raises(RandomnessReuse, match="fork"):
        stream.substream(Purpose.NOISE, 1)


def test_representations_hold_no_key() -> None:
    key = b"0123456789abcdef0123456789abcdef"
    stream = SystemStream._from_attempt_key(key)
    for value in (stream, stream._addresses, stream.substream(Purpose.NOISE, 0)):
        assert key.decode() not in repr(value)
        assert key.hex() not in repr(value)
    assert repr(TestStream(5)) == "TestStream(5)"


def _head(stream: Stream) -> list[int]:
    return stream.substream(Purpose.NOISE, 0).words(4).tolist()


def test_parts_and_words_read_one_sequence() -> None:
    whole = _noise().words(40).tolist()
    for before, length in itertools.product(range(4), range(6)):
        substream = _noise()
        start = substream.words(before).tolist()
        part = substream.part(length)
        rest = substream.words(40 - before - length).tolist()  # the part may be read later, in any order
        inner = part.part(length // 2).words(length // 2).tolist() + part.words(length - length // 2).tolist()
        assert start + inner + rest == whole


def test_a_part_far_away_is_the_key_stream_at_that_counter() -> None:
    substream = Substream(RUN_KEY)
    substream.part(2**70 + 2)
    block = Cipher(algorithms.AES(RUN_KEY), modes.ECB()).encryptor().update((2**69 + 1).to_bytes(16, "big"))
    assert substream.words(1).tolist() == [int.from_bytes(block[:8], "little")]


def test_no_one_reads_beyond_the_end_of_a_part() -> None:
    part = _noise().part(3)
    for read in (part.words, part.part, lambda n: part.fill(np.empty(n, np.uint64))):
        with pytest.raises(RandomnessReuse, match="3 are left"):
            read(4)
    part.words(3)
    assert part.words(0).shape == (0,)
    with pytest.raises(RandomnessReuse, match="0 are left"):
        part.words(1)
    with pytest.raises(RandomnessReuse, match="left"):
        _noise().part(2**128 + 1)


@pytest.mark.parametrize("bad", [-1, 2.0, float("nan"), True, None])
def test_part_lengths_are_checked(bad: object) -> None:
    with pytest.raises(InputError, match="count"):
        _noise().part(bad)


def test_parts_refuse_copies_and_forks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    part = _noise().part(3)
    with pytest.raises(TypeError, match="copied or pickled"):
        copy.copy(part)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RandomnessReuse, match="fork"):
        part.words(1)


def test_filling_overwrites_in_place() -> None:
    out = np.ones(70_000, np.uint64)  # more than the zeros that are kept
    assert _noise().fill(out) is out
    assert np.array_equal(out, _noise().words(70_000))


def _noise() -> Substream:
    return TestStream(5).substream(Purpose.NOISE, 0)
