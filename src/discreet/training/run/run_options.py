"""Where a run is, and who pays for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from discreet.core.errors import InputError
from discreet.core.processes import refuse_several_processes
from discreet.ledger import checked_name
from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where a run is, and who pays for it; a folder alone may be given by its name.

    - `folder`: a new folder for the key of the noise, checkpoints and the ledger; nothing in it is for publishing. By
      default one in `discreet-runs`.
    - `resume`: go on with the run in `folder`, in a new attempt with randomness of its own; also with one that has
      answered the queries before its first step (`answered_first`).
    - `ledger`, `dataset_id`: a ledger (path or postgresql://...) shared by all runs on a data set, and the data set's
      name in it; if it has a budget there, the run must fit. By default the run has a ledger of its own.
    - `on_open`: called once the folder of a new run is there, to put something beside the run.
    - `stream`: for tests; with randomness that is not the system's nothing is published.
    """

    folder: str | Path | None = None
    resume: bool = False
    ledger: str | Path | None = None
    dataset_id: str = ""
    on_open: Callable[[], None] | None = None
    stream: Stream | None = None

    @classmethod
    def of(cls, run: Self | str | Path | None) -> Self:
        """The options that are meant by the name of a folder."""
        return cls(run) if run is None or isinstance(run, str | Path) else run

    @property
    def path(self) -> Path:
        """The folder. `InputError` if none is named."""
        if self.folder is None:
            raise InputError("name the folder of the run: RunOptions(FOLDER)")
        return Path(self.folder)

    def check(self) -> None:
        """Refuse a run that could not be opened, before anything is read for it."""
        refuse_several_processes()
        checked_name(self.dataset_id)
        if self.resume and self.folder is None:
            raise InputError("to resume a run, name its folder: run=RunOptions(FOLDER, resume=True)")
        if self.dataset_id and self.ledger is None and not self.resume:
            raise InputError("a data set's budget is kept in a ledger that its runs share; give ledger (--ledger)")
