"""A progress bar on a terminal, silence elsewhere. It shows public figures only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from discreet.training.run.trained import Evaluation

Advance = Callable[[int, Evaluation | None, str], None]


@contextmanager
def progress_bar(steps: int, epsilon: float, *, show: bool | None) -> Iterator[Advance]:
    """Yields a function to call with (steps done, latest evaluation, further public figures).

    With `show` None the bar appears if stderr is a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _done, _evaluation, _public: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("plan epsilon {task.fields[epsilon]:.4g}"),
        TextColumn("{task.fields[public]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, epsilon=epsilon, public="")

        def advance(done: int, evaluation: Evaluation | None, more: str) -> None:
            public = [] if evaluation is None else [_describe(evaluation)]
            bar.update(task, completed=done, public=", ".join([*public, *([more] if more else [])]))

        yield advance


def _describe(evaluation: Evaluation) -> str:
    metrics = evaluation.metrics
    if "accuracy" in metrics:
        return f"public test accuracy {metrics['accuracy']:.1%}"
    return f"public test loss {metrics['loss']:.4g}"
