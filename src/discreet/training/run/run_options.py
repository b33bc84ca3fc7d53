"""Options of a run: its folder and its ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from discreet.core.errors import InputError, kind_of
from discreet.ledger import checked_name
from discreet.randomness import Stream


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The folder and the ledger of a run. The name of a folder may be given in its place.

    - `folder`: a new folder for the key of the noise, checkpoints and the ledger; nothing in it is for publishing. By
      default one in `discreet-runs`.
    - `resume`: go on with the run in `folder`, in a new attempt with fresh randomness; also after queries before the
    first step (`answered_first`).
    - `ledger`, `dataset_id`: a ledger (path or postgresql://...) shared by all runs on a data set, and the data set's
      name in it. If the data set has a budget there, the run must fit. By default the run has its own ledger.
    - `on_open`: called when the folder of a new run exists, to put something beside the run.
    - `keep_spent`: where units have budgets of their own, keep what each has spent in a file of the folder, for the
    holder of the data alone (`discreet ledger individual`). It is as private as the data.
    - `lanes`: of a run that several processes take together, the number of parts of a batch that they share out; by
    default as many as there are processes. A run keeps its lanes when it is resumed, by however many processes. Data at
    sites has a lane for each site.
    - `stream`: for tests; a run with other randomness than the system's cannot be published.
    """

    folder: str | Path | None = None
    resume: bool = False
    ledger: str | Path | None = None
    dataset_id: str = ""
    on_open: Callable[[], None] | None = None
    stream: Stream | None = None
    keep_spent: bool = False
    lanes: int | None = None

    @classmethod
    def of(cls, run: Self | str | Path | None) -> Self:
        """The options, from the name of a folder, as they are, or the default."""
        if run is None or isinstance(run, str | Path):
            return cls(run)
        if not isinstance(run, cls):
            raise InputError(f"run cannot be {kind_of(run)}; name its folder, or give RunOptions(FOLDER, ...)")
        return run

    @property
    def path(self) -> Path:
        """The folder. `InputError` if none is named."""
        if self.folder is None:
            raise InputError("name the folder of the run: RunOptions(FOLDER)")
        return Path(self.folder)

    def check(self) -> None:
        """Refuse a run that could not be opened, before any data is read for it."""
        checked_name(self.dataset_id)
        if self.ledger is not None and str(self.ledger).strip() in ("", "."):  # Path("") is "."
            raise InputError("the name of the ledger is empty; leave ledger out, or name one")
        if self.resume and self.folder is None:
            raise InputError("to resume a run, name its folder: run=RunOptions(FOLDER, resume=True)")
        if self.dataset_id and self.ledger is None and not self.resume:
            raise InputError("a data set's budget is kept in a ledger that its runs share; give ledger (--ledger)")
