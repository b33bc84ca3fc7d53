"""The keyed stream: every random bit of a run has an address (purpose, step), and no address is used twice.

    run key (32 bytes) ── HKDF-SHA256(attempt, 32 fresh bytes) ──> attempt key
    attempt key ── HMAC-SHA256(purpose, step) ──> sub-stream key ── AES-256-CTR ──> 64-bit words

The fresh bytes come from the operating system at each start, so a run that is restored from a backup, with the same
run key and the same attempt number, still draws other noise. Step t needs no draws of the steps before it.

`SystemStream` and `TestStream` are different types on purpose: a certificate accepts only the first. Objects
here cannot be copied or pickled, and refuse to work in a forked child, because a copy would repeat noise.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
import threading
from enum import StrEnum
from typing import ClassVar, NoReturn, Protocol, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from discreet.core import checks
from discreet.core.errors import InputError, RandomnessReuse
from discreet.randomness.counter_mode import KeyStream, key_stream
from discreet.randomness.owner import refuse_copy, require_owner
from discreet.randomness.spares import Spares, Words

KEY_BYTES = 32
_WORD_BYTES = 8
_WORDS_PER_BLOCK = 2
_ALL_WORDS = 2**128  # half of what the 16-byte counter reaches: it never wraps, and spares.py uses the other half
_ATTEMPT_LABEL = b"discreet attempt key v1"
_TEST_LABEL = b"discreet test stream v1"


class Purpose(StrEnum):
    """The purpose of a sub-stream. Values are part of the key derivation and never change meaning."""

    SAMPLING = "sampling"
    """Which units take part in a step."""
    NOISE = "noise"
    """The noise that is added to the sums of a step."""
    MODEL = "model"
    """Random numbers of the model itself, such as dropout."""
    LANES = "lanes"
    """The same, for each lane of a batch that several processes share."""
    PARTS = "parts"
    """Which part of the data a unit is in, where parts take turns."""
    ROWS = "rows"
    """Which rows of a unit take part, where the unit has more rows than a step may use."""


class Stream(Protocol):
    """A source of sub-streams, each handed out at most once."""

    @property
    def kind(self) -> str:
        """`"system"` or `"test"`."""
        ...

    def substream(self, purpose: Purpose, step: int) -> Substream:
        """Return the sub-stream at (purpose, step); `RandomnessReuse` if this object gave it out before."""
        ...


@final
class Substream:
    """The words at one address, read in order: `words(3)` then `words(5)` are together `words(8)`.

    `part` sets words aside for another thread; a sub-stream or a part itself belongs to one thread at a time.
    """

    __slots__ = ("_aes", "_cipher", "_end", "_position", "_process", "_reading")
    _cipher: KeyStream | None

    def __init__(self, key: bytes) -> None:
        # Every address has its own key, so all sub-streams may start from the same counter.
        self._aes = algorithms.AES(_checked_key("key", key))
        self._process = os.getpid()
        self._move(0, _ALL_WORDS)

    def words(self, count: int) -> Words:
        """Return the next `count` words, independent and uniform on 0 .. 2^64 - 1; shape (count,).

        The words are the AES-256-CTR key stream, eight bytes each, least significant first: words 2 i and
        2 i + 1 are the encryption of the counter i. `InputError` if `count` is not a whole number of at least
        0, `RandomnessReuse` in a forked child or beyond the end of a part.
        """
        return self.fill(np.empty(self._checked_count(count), np.uint64))

    def fill(self, out: Words) -> Words:
        """Overwrite `out`, a contiguous array, with the next `len(out)` words and return it; errors as `words`."""
        if not (out.flags.writeable and out.flags.c_contiguous):
            raise InputError("words are written to contiguous memory that may be written to")
        if not self._reading.acquire(blocking=False):
            raise RandomnessReuse("two threads read one sub-stream at the same time; give each a part of its own")
        try:
            count = self._checked_count(len(out))
            self._cipher = self._cipher or self._cipher_here(count)
            self._position += count  # before they are read: what fails now is never read again
            self._cipher.fill(out.view(np.uint8))
        finally:
            self._reading.release()
        return out if sys.byteorder == "little" else out.byteswap(inplace=True)

    def spares(self, count: int) -> Spares:
        """The spare words of the next `count` words, which are still to be read.

        Errors as `words`; `RandomnessReuse` too for words beyond the first 2^63, which have no spares.
        """
        return Spares(self._aes, self._position, self._checked_count(count))

    def part(self, count: int) -> Substream:
        """Set the next `count` words aside as a sub-stream of their own, which ends after them.

        The words are those that `words(count)` would have returned, and this sub-stream continues after them,
        so no word has two owners: `part(3)` and then `words(5)` read what `words(8)` reads. A part costs the
        same wherever it starts and however long it is, since AES-CTR starts at any counter. Errors as `words`.
        """
        number = self._checked_count(count)
        part = Substream.__new__(Substream)
        part._aes, part._process = self._aes, self._process
        part._move(self._position, self._position + number)
        self._move(self._position + number, self._end)
        return part

    def _checked_count(self, count: int) -> int:
        require_owner(self._process)
        number = checks.count("count", count, least=0)
        if not number <= self._end - self._position:
            raise RandomnessReuse(f"{number} words were asked for, {self._end - self._position} are left in this part")
        return number

    def _move(self, position: int, end: int) -> None:
        """Make the words at `position` .. `end` - 1 the ones that are left."""
        self._position, self._end = position, end
        self._reading = threading.Lock()
        self._cipher = None  # made when words are first read: some parts are only divided further

    def _cipher_here(self, count: int) -> KeyStream:
        """The key stream from here on, of which `count` words are read first."""
        counter, odd = divmod(self._position, _WORDS_PER_BLOCK)
        cipher = key_stream(bytes(self._aes.key), counter.to_bytes(16, "big"), _WORD_BYTES * count)
        if odd:
            cipher.fill(np.empty(_WORD_BYTES, np.uint8))
        return cipher

    def __reduce__(self) -> NoReturn:
        refuse_copy("Substream")


def attempt_key(run_key: bytes, attempt: int) -> bytes:
    """A new key for attempt number `attempt` of the run whose 32-byte key is `run_key`; secret, and kept in memory.

    Two calls never give the same key, since fresh bytes enter it. `InputError` for a key that is not 32 bytes or an
    attempt outside 0 .. 2^64 - 1.
    """
    fresh = os.urandom(KEY_BYTES)
    info = _ATTEMPT_LABEL + _eight_bytes("attempt", attempt)
    kdf = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=fresh, info=info)
    return kdf.derive(_checked_key("run_key", run_key))


@final
class SystemStream:
    """The stream of one attempt of a run, keyed by the operating system. Made by `start`, or by `shared` where several
    processes are one attempt."""

    __slots__ = ("_addresses",)
    _addresses: _Addresses

    def __init__(self) -> None:
        raise TypeError("use SystemStream.start(run_key, attempt)")

    @classmethod
    def start(cls, run_key: bytes, attempt: int) -> SystemStream:
        """Start attempt number `attempt` of the run whose 32-byte key is `run_key`.

        Two calls never give the same stream, whatever their arguments: fresh bytes enter the key.
        `InputError` for a key that is not 32 bytes or an attempt outside 0 .. 2^64 - 1.
        """
        return cls._from_attempt_key(attempt_key(run_key, attempt))

    @classmethod
    def shared(cls, key: bytes) -> SystemStream:
        """The stream with this `attempt_key`, in each of the processes that take the steps of an attempt together.

        All draw the same batches from it, and each the noise of its own share of a release. A key is for one attempt:
        a second stream with it in another attempt would repeat noise.
        """
        return cls._from_attempt_key(key)

    @classmethod
    def _from_attempt_key(cls, attempt_key: bytes) -> SystemStream:
        """Build a stream from its attempt key."""
        stream = cls.__new__(cls)
        stream._addresses = _Addresses(_checked_key("attempt_key", attempt_key))
        return stream

    @property
    def kind(self) -> str:
        """`"system"`."""
        return "system"

    def substream(self, purpose: Purpose, step: int) -> Substream:
        """Return the sub-stream at (purpose, step), once.

        `RandomnessReuse` on a second request or in a forked child; `InputError` for a step outside 0 .. 2^64 - 1.
        """
        return self._addresses.take(purpose, step)

    def __repr__(self) -> str:
        return "SystemStream()"

    def __reduce__(self) -> NoReturn:
        refuse_copy("SystemStream")


@final
class TestStream:
    """A reproducible stream for tests, keyed by a public seed. It protects nobody; certificates refuse it."""

    __test__: ClassVar[bool] = False  # pytest collects classes by this name otherwise
    __slots__ = ("_addresses", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = checks.count("seed", seed, least=0)
        self._addresses = _Addresses(hashlib.sha256(_TEST_LABEL + str(self._seed).encode()).digest())

    @property
    def kind(self) -> str:
        """`"test"`."""
        return "test"

    def substream(self, purpose: Purpose, step: int) -> Substream:
        """Return the sub-stream at (purpose, step), once; errors as in `SystemStream.substream`."""
        return self._addresses.take(purpose, step)

    def __repr__(self) -> str:
        return f"TestStream({self._seed})"

    def __reduce__(self) -> NoReturn:
        refuse_copy("TestStream")


@final
class _Addresses:
    """Turns addresses into sub-streams under one secret, each address once."""

    __slots__ = ("_begun", "_lock", "_process", "_taken")

    def __init__(self, secret: bytes) -> None:
        self._begun = hmac.new(secret, digestmod="sha256")  # to copy it takes less time than to begin again
        self._taken: set[tuple[Purpose, int]] = set()
        self._lock = threading.Lock()  # two threads that ask at once must not both be served
        self._process = os.getpid()

    def take(self, purpose: Purpose, step: int) -> Substream:
        require_owner(self._process)
        if not isinstance(purpose, Purpose):
            raise InputError(f"purpose must be a Purpose, got {purpose!r}")
        message = _encode_address(purpose, step)
        address = purpose, int(step)
        with self._lock:
            if address in self._taken:
                raise RandomnessReuse(f"the sub-stream ({purpose}, step {step}) was already handed out")
            self._taken.add(address)
        keyed = self._begun.copy()
        keyed.update(message)
        return Substream(keyed.digest())

    def __reduce__(self) -> NoReturn:
        refuse_copy("_Addresses")


def _encode_address(purpose: str, step: int) -> bytes:
    """Encode an address so that different addresses have different encodings: length, purpose, step."""
    text = purpose.encode()
    return len(text).to_bytes(2, "big") + text + _eight_bytes("step", step)


def _eight_bytes(name: str, value: object) -> bytes:
    result = checks.count(name, value, least=0)
    if not result < 2**64:
        raise InputError(f"{name} must be below 2^64, got {value!r}")
    return result.to_bytes(8, "big")


def _checked_key(name: str, key: object) -> bytes:
    # The message must not show the key, even a malformed one.
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InputError(f"{name} must be {KEY_BYTES} bytes (new_run_key() makes one)")
    return key
