"""A progress bar on a terminal and in a notebook, silence elsewhere. It shows public figures only."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from discreet.core.rounding import rounded_up
from discreet.training.run.trained import Evaluation

Advance = Callable[[int, Evaluation | None, str], None]

_BETWEEN = 0.2
"""The least seconds between two updates of a bar in a notebook."""


@contextmanager
def progress_bar(steps: int, epsilon: float, done: int, show: bool | None) -> Iterator[Advance]:
    """Yields a function to call with (steps done, latest evaluation, further public figures).

    `done`: the steps at the start, of a run that is resumed. With `show` None the bar appears if stderr is a terminal,
    and in a notebook.
    """
    notebook = _in_notebook()
    if not (notebook or sys.stderr.isatty() if show is None else show):
        yield lambda _done, _evaluation, _public: None
        return
    with (_notebook_bar if notebook else _terminal_bar)(steps, rounded_up(epsilon, 4), done) as update:

        def advance(done: int, evaluation: Evaluation | None, more: str) -> None:
            public = [] if evaluation is None else [_describe(evaluation)]
            update(done, ", ".join([*public, *([more] if more else [])]))

        yield advance


@contextmanager
def _terminal_bar(steps: int, epsilon: str, done: int) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("plan epsilon {task.fields[epsilon]}"),
        TextColumn("{task.fields[public]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, completed=done, epsilon=epsilon, public="")
        yield lambda done, public: bar.update(task, completed=done, public=public)


@contextmanager
def _notebook_bar(steps: int, epsilon: str, done: int) -> Iterator[Callable[[int, str], None]]:
    """One output of the cell, which is updated and stays. It shows no time: notebooks are saved and sent around, and
    how long a step takes depends on how many rows were drawn for it."""

    def drawn(done: int, public: str) -> dict[str, str]:
        said = f"step {done:,} of {steps:,}, plan epsilon {epsilon}" + (f", {public}" if public else "")
        bar = f'<progress value="{done}" max="{steps}" aria-label="training"></progress>'
        return {"text/plain": f"training: {said}", "text/html": f"{bar} {html.escape(said)}"}

    now, shown_at = (done, ""), time.monotonic()
    output = import_module("IPython.display").display(drawn(*now), raw=True, display_id=True)

    def update(done: int, public: str) -> None:
        nonlocal now, shown_at
        now = done, public
        if time.monotonic() - shown_at >= _BETWEEN:
            output.update(drawn(*now), raw=True)
            shown_at = time.monotonic()

    try:
        yield update
    finally:
        output.update(drawn(*now), raw=True)


def _in_notebook() -> bool:
    """Whether the program runs in a Jupyter kernel. IPython is not imported for it: a kernel has loaded it."""
    ipython: Any = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


def _describe(evaluation: Evaluation) -> str:
    metrics = evaluation.metrics
    if "accuracy" in metrics:
        return f"public test accuracy {metrics['accuracy']:.1%}"
    return f"public test loss {metrics['loss']:.4g}"
