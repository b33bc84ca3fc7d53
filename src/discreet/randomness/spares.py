"""Spare words: further words that belong to one word of a sub-stream, for rejection sampling.

A sampler that rejects does not know beforehand how many words it needs. If it took the next words of the sub-stream,
each value would depend on the rejections before it, and blocks could not be filled independently. So every word has
spares of its own, at counters that the sub-stream itself never reaches:

    words 2 i and 2 i + 1        the encryption of the counter i, below 2^127
    spares of word p, round j    the encryption of the counter 2^127 + 2^64 p + j: two words

Words and spares are encryptions of different counters under the same key, so all of them are words of AES-256-CTR.
"""

from __future__ import annotations

import os
from typing import NoReturn, final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from discreet.core.errors import RandomnessReuse
from discreet.randomness.owner import refuse_copy, require_owner

_FIRST_SPARE = 2**63  # in the upper half of the counter
_ALL_OWNERS = 2**63

Words = npt.NDArray[np.uint64]
"""Words of a stream, in an array."""


@final
class Spares:
    """The spares of a run of words that starts at word `first` of the sub-stream. Made by `Substream.spares`."""

    __slots__ = ("_aes", "_encrypt", "_first", "_process", "_round", "_run")

    _encrypt: CipherContext | None

    def __init__(self, aes: algorithms.AES, first: int, count: int) -> None:
        if not first + count <= _ALL_OWNERS:
            raise RandomnessReuse(f"words from 2^63 on have no spares, words up to {first + count} were asked for")
        self._aes, self._encrypt = aes, None  # few words of a short run need spares, so most runs need no cipher
        self._first, self._run, self._round = np.uint64(_FIRST_SPARE + first), count, 0
        self._process = os.getpid()

    def next_round(self, places: npt.NDArray[np.int64]) -> Words:
        """Return the two words of the next round for the owners at `places` of the run; shape (len(places), 2).

        The owners must be in the run and in ascending order, so that none is served twice; `RandomnessReuse` if not,
        and in a forked child. The round is one number for all owners, so no two calls return the same word.
        """
        require_owner(self._process)
        if not (places[1:] > places[:-1]).all():
            raise RandomnessReuse("spare words of one owner were asked for twice in a round")
        if len(places) and not 0 <= places[0] <= places[-1] < self._run:
            raise RandomnessReuse("spare words were asked for outside the run that owns them")
        counters = np.empty((len(places), 2), ">u8")
        counters[:, 0], counters[:, 1] = self._first + places.view(np.uint64), self._round
        self._round += 1
        # ECB encrypts each counter by itself, as counter mode does with consecutive counters.
        encrypt = self._encrypt = self._encrypt or Cipher(self._aes, modes.ECB()).encryptor()
        words = np.frombuffer(encrypt.update(counters.tobytes()), "<u8")
        return words.astype(np.uint64).reshape(counters.shape)

    def __reduce__(self) -> NoReturn:
        refuse_copy("Spares")
