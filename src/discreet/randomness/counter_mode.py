"""AES-256 in counter mode (NIST SP 800-38A, 6.5): by the package `cryptography`, and for many words by the OpenSSL that
Python itself uses.

`cryptography` 50 keeps Python's lock while it encrypts, so that several threads take turns, and whatever else the
process does waits: the noise of a large model would be drawn no faster by many cores, and a graphics card would stand
idle meanwhile. Called through ctypes, OpenSSL runs without the lock. Both give the same words; the second is used only
once it has given those of a test vector of the standard.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Protocol, final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

MANY = 1 << 15
"""From so many bytes on a call takes longer than its detour through ctypes."""

_ZEROS = memoryview(bytes(1 << 19))
_ZEROS_AT = np.frombuffer(_ZEROS, np.uint8).ctypes.data

_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
_COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
_STREAM = bytes.fromhex("0bdf7df1591716335e9a8b15c860c502")
"""NIST SP 800-38A, F.5.5: a key, the first counter, and the first block of the key stream."""

Bytes = npt.NDArray[np.uint8]


class KeyStream(Protocol):
    """The key stream from a counter on."""

    def fill(self, out: Bytes) -> None:
        """Overwrite `out`, contiguous, with the next bytes."""
        ...


def key_stream(key: bytes, counter: bytes, length: int) -> KeyStream:
    """The key stream of AES-256-CTR from the 16-byte block `counter` on. `length`: how many bytes will be asked for
    first."""
    if length >= MANY and (library := _library()) is not None:
        return Unlocked(library, key, counter)
    return Locked(key, counter)


@final
class Locked:
    """The key stream by `cryptography`."""

    __slots__ = ("_context",)

    def __init__(self, key: bytes, counter: bytes) -> None:
        self._context: CipherContext = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()

    def fill(self, out: Bytes) -> None:
        size = len(out)
        zeros = _ZEROS[:size] if size <= len(_ZEROS) else memoryview(bytes(size))
        self._context.update_into(zeros, out.data)


@final
class Unlocked:
    """The key stream by OpenSSL, without Python's lock."""

    __slots__ = ("_context", "_library")

    def __init__(self, library: ctypes.CDLL, key: bytes, counter: bytes) -> None:
        self._library, self._context = library, library.EVP_CIPHER_CTX_new()
        if not self._context or not library.EVP_EncryptInit_ex(
            self._context, library.EVP_aes_256_ctr(), None, key, counter
        ):
            raise MemoryError("OpenSSL cannot start a cipher")

    def fill(self, out: Bytes) -> None:
        address, written = out.ctypes.data, ctypes.c_int()
        for start in range(0, len(out), len(_ZEROS)):
            size = min(len(_ZEROS), len(out) - start)
            done = self._library.EVP_EncryptUpdate(
                self._context, address + start, ctypes.byref(written), _ZEROS_AT, size
            )
            if not done or written.value != size:
                raise OSError("OpenSSL did not encrypt what it was given")

    def __del__(self) -> None:
        if getattr(self, "_context", None):
            self._library.EVP_CIPHER_CTX_free(self._context)


@cache
def _library() -> ctypes.CDLL | None:
    """OpenSSL, if Python's own module for it leads there and it encrypts the test vector as the standard does."""
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)
        _declare(library)
        out = np.empty(len(_STREAM), np.uint8)
        Unlocked(library, _KEY, _COUNTER).fill(out)
    except (ImportError, AttributeError, OSError, MemoryError):
        return None
    return library if out.tobytes() == _STREAM else None


def _declare(library: ctypes.CDLL) -> None:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, returned, given in (
        ("EVP_CIPHER_CTX_new", pointer, []),
        ("EVP_CIPHER_CTX_free", None, [pointer]),
        ("EVP_aes_256_ctr", pointer, []),
        ("EVP_EncryptInit_ex", number, [pointer, pointer, pointer, ctypes.c_char_p, ctypes.c_char_p]),
        ("EVP_EncryptUpdate", number, [pointer, pointer, ctypes.POINTER(number), pointer, number]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = returned, given
