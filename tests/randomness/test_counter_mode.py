"""AES-256 in counter mode, with Python's lock and without: the published vectors, and the same bytes from both."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.errors import InputError, RandomnessReuse
from discreet.randomness import Purpose, TestStream, counter_mode, normals
from discreet.randomness.counter_mode import MANY, Bytes, KeyStream, Locked, Unlocked, key_stream

# NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
ENCRYPTED = bytes.fromhex(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)

Made = Callable[[bytes, bytes], KeyStream]


def unlocked(key: bytes, counter: bytes) -> KeyStream:
    library = counter_mode._library()
    if library is None:
        pytest.skip("Python here is built without an OpenSSL of its own")
    return Unlocked(library, key, counter)


@pytest.fixture(params=[Locked, unlocked], ids=["locked", "unlocked"])
def made(request: pytest.FixtureRequest) -> Made:
    return request.param


@pytest.fixture
def _forgotten() -> Iterator[None]:
    """The library is looked for again, in the test and after it."""
    counter_mode._library.cache_clear()
    yield
    counter_mode._library.cache_clear()


def read(stream: KeyStream, sizes: list[int]) -> Bytes:
    parts = [np.empty(size, np.uint8) for size in sizes]
    for part in parts:
        stream.fill(part)
    return np.concatenate([np.empty(0, np.uint8), *parts])


def test_the_published_vector(made: Made) -> None:
    found = read(made(KEY, COUNTER), [1, 16, 40, 7])
    assert (found ^ np.frombuffer(PLAIN, np.uint8)).tobytes() == ENCRYPTED


@given(
    key=st.binary(min_size=32, max_size=32),
    counter=st.binary(min_size=16, max_size=16)
    | st.integers(1, 40).map(lambda left: b"\xff" * 15 + bytes([256 - left])),
    sizes=st.lists(st.sampled_from([0, 1, 8, 15, 16, 17, 1000, MANY, (1 << 19) + 24]), max_size=4),
)
def test_both_give_the_same_bytes_also_where_the_counter_begins_anew(
    key: bytes, counter: bytes, sizes: list[int]
) -> None:
    assert (read(unlocked(key, counter), sizes) == read(Locked(key, counter), sizes)).all()


def test_long_requests_run_without_the_lock_and_short_ones_at_once() -> None:
    unlocked(KEY, COUNTER)
    kinds = [type(key_stream(KEY, COUNTER, length)) for length in (8, MANY - 1, MANY)]
    assert kinds == [Locked, Locked, Unlocked]


@pytest.mark.usefixtures("_forgotten")
def test_a_library_that_encrypts_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def flipped(self: Unlocked, out: Bytes) -> None:
        real(self, out)
        out ^= 1

    real = Unlocked.fill
    monkeypatch.setattr(Unlocked, "fill", flipped)
    assert counter_mode._library() is None
    assert isinstance(key_stream(KEY, COUNTER, MANY), Locked)


@pytest.mark.usefixtures("_forgotten")
def test_without_the_library_words_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> np.ndarray:
        return normals(TestStream(3).substream(Purpose.NOISE, 1), 70_000)

    wanted = drawn()

    def refused(*_: object) -> ctypes.CDLL:
        raise OSError("there is no such library")

    monkeypatch.setattr(ctypes, "CDLL", refused)
    counter_mode._library.cache_clear()
    assert counter_mode._library() is None
    assert (drawn() == wanted).all()


def test_two_threads_that_read_one_sub_stream_are_refused_before_words_come_twice() -> None:
    """OpenSSL runs without the lock, so nothing else keeps them apart. A thread that is refused has read nothing."""
    unlocked(KEY, COUNTER)
    stream, found, refused = TestStream(4).substream(Purpose.NOISE, 1), [], []

    def work() -> None:
        for _ in range(40):
            try:
                found.append(stream.words(1 << 16))
            except RandomnessReuse as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    words = np.sort(np.concatenate(found))
    assert (words[1:] > words[:-1]).all()  # 5e6 words: a repeat by chance has probability 7e-7
    assert len(found) + len(refused) == 80
    assert all("two threads" in one for one in refused)


def test_memory_that_may_not_be_written_to_is_refused() -> None:
    stream = TestStream(4).substream(Purpose.NOISE, 2)
    for size in (4, 1 << 16):
        with pytest.raises(InputError, match="written to"):
            stream.fill(np.frombuffer(bytes(8 * size), np.uint64))
