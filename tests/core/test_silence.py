"""Silence lasts until the last who asked for it is done, and then logging and warnings are as they were."""

from __future__ import annotations

import logging
import warnings
from contextlib import ExitStack
from threading import Thread

import pytest

from discreet.core.silence import unlogged, unrepeated, unwarned, warned_once


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


def test_the_first_who_leaves_lets_no_warning_of_another_through() -> None:
    """Two runs in two threads: torch would name the number of units that a step of the second has drawn."""
    first, second = ExitStack(), ExitStack()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        before = warnings.filters
        first.enter_context(unwarned())
        second.enter_context(unwarned())
        first.close()
        warnings.warn("the second has drawn 7 rows", stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # as a loss might
            warnings.warn("7 rows again", stacklevel=1)
        second.close()
        assert not shown
        assert warnings.filters is before
        warnings.warn("heard afterwards", stacklevel=1)
    assert [str(one.message) for one in shown] == ["heard afterwards"]


@pytest.mark.parametrize("first", ["checks", "step"])
def test_checks_of_a_run_in_another_thread_end_no_silence_and_leave_none(first: str) -> None:
    """One thread takes a step while another makes a `Training`, keeping warnings; the first to come leaves first."""
    contexts = {"checks": warned_once, "step": unwarned}
    second = next(name for name in contexts if name != first)
    stacks = {name: ExitStack() for name in contexts}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        before = warnings.filters
        for name in (first, second):
            stacks[name].enter_context(contexts[name]())
        warnings.warn("a step has drawn 7 rows", stacklevel=1)
        stacks[first].close()
        said = "a step has drawn 7 rows" if second == "step" else "the checks say"
        for _ in range(2):
            warnings.warn(said, stacklevel=1)
        stacks[second].close()
        assert warnings.filters is before
        warnings.warn("heard afterwards", stacklevel=1)
    heard = [] if second == "step" else ["the checks say"]
    assert [str(one.message) for one in shown] == [*heard, "heard afterwards"]


def test_no_line_is_logged_twice_but_by_another_thread(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("discreet")
    with unrepeated():
        for line in ("one", "one", "two"):
            log.warning(line)
        other = Thread(target=log.warning, args=("one",))
        other.start()
        other.join()
    assert caplog.messages == ["one", "two", "one"]
