"""Silence lasts until the last who asked for it is done, and then logging is as it was."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import pytest

from discreet.core.silence import unlogged


def test_the_first_who_leaves_does_not_end_the_silence_of_another(caplog: pytest.LogCaptureFixture) -> None:
    """Two searches in two threads: a trial of the second that was heard would be counted."""
    log, first, second = logging.getLogger("elsewhere"), ExitStack(), ExitStack()
    first.enter_context(unlogged())
    second.enter_context(unlogged())
    first.close()
    log.critical("heard while the second goes on")
    second.close()
    assert not caplog.messages
    log.warning("heard afterwards")
    assert caplog.messages == ["heard afterwards"]


def test_no_level_is_too_high(caplog: pytest.LogCaptureFixture) -> None:
    with unlogged():
        logging.getLogger("elsewhere").log(2 * logging.CRITICAL, "an audit, say")
    assert not caplog.messages


def test_what_was_switched_off_before_stays_off() -> None:
    logging.disable(logging.INFO)
    try:
        with pytest.raises(ValueError, match="inside"), unlogged():
            raise ValueError("inside")
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(logging.NOTSET)
