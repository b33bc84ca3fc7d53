"""Loading what a command needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Inside, Python looks for no garbage: modules make none, but torch's so many objects that looking takes a second.

    What was loaded is not looked at again afterwards either.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
