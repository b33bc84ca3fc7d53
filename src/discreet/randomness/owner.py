"""Refusals shared by all objects that hold words of a stream: any copy of one would repeat noise."""

from __future__ import annotations

import os
from typing import NoReturn

from discreet.core.errors import RandomnessReuse


def require_owner(process: int) -> None:
    """Raise `RandomnessReuse` unless the calling process is `process`, the one that made the object."""
    if os.getpid() != process:
        raise RandomnessReuse("a random stream was carried into a forked process, where it would repeat noise")


def refuse_copy(name: str) -> NoReturn:
    """Raise the `TypeError` of an object that cannot be copied or pickled."""
    raise TypeError(f"{name} cannot be copied or pickled: a copy would repeat noise")
