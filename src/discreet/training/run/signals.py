"""Ctrl-C and SIGTERM as requests to stop between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from discreet.core.errors import Interrupted
from discreet.training.run.run_folder import RunFolder


@contextmanager
def stop_requests() -> Iterator[Callable[[], int | None]]:
    """Yields a function that returns the signal that asked to stop, or None. A second Ctrl-C interrupts at once.

    Outside the main thread signals cannot be caught, and the function always returns None.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    previous = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def stopped(position: int, charges: int, lost: int, folder: RunFolder, signal: int) -> Interrupted:
    """The end of a run that was interrupted after `position` of its `charges`, and loses `lost` paid ones, with what a
    script does then."""
    paid = f" (charged with it and lost: {lost} more)" if lost else ""
    first = f", with torch.manual_seed({folder.seed}) before its model is made," if folder.seed is not None else ""
    options = f"run=RunOptions({str(folder.path)!r}, resume=True)"
    return Interrupted(
        f"stopped after step {position} of {charges}{paid}",
        signal,
        f"make the Training again, as at the start{first} but with {options}: its run() goes on; or publish what "
        "there is: with training.session() as session: publish(training.result(session), FOLDER)",
    )
