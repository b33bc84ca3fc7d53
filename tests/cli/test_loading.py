"""While a command loads what it needs, nothing is collected; afterwards all is as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from discreet.cli.loading import loading


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_nothing_is_collected_inside_and_garbage_is_afterwards() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    ring: list[object] = []
    ring.append(ring)
    del ring
    assert gc.collect() > 0


def test_what_the_user_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
