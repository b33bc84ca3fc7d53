"""Attention masks that depend on no other row of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from discreet.core.imports.extras import extra


@contextmanager
def masks_for_all() -> Iterator[None]:
    """A context in which `transformers` always makes attention masks. By default it leaves them out if no row of the
    batch has padding, so the program for a row would depend on the other rows."""
    module: Any = getattr(extra("transformers", "hf", "a model of transformers"), "masking_utils", None)
    looks = getattr(module, "is_tracing", None)
    if looks is None:
        yield
        return
    module.is_tracing = lambda tensor=None: True
    try:
        yield
    finally:
        module.is_tracing = looks
