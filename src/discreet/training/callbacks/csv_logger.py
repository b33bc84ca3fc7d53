"""Metrics of a run in a CSV file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import TracebackType
from typing import Self

from discreet.core.errors import InputError
from discreet.training.callbacks.base import Opening, Told


class CSVLogger:
    """Writes a line `step, metric, value` for every new metric to the file at `path`.

    A resumed run appends to its file; any other existing file is refused.
    """

    _HEAD = "step,metric,value"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: io.TextIOWrapper | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            old = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            if old and not old.startswith(self._HEAD):
                raise InputError(f"{self._path} is another file; name one that is not there")
            self._file = self._path.open("a", newline="", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {self._path}: {error.strerror}") from None
        if not old:
            self._file.write(self._HEAD + "\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def begin(self, opening: Opening) -> None:
        """Nothing is written of the plan; it is in plan.yaml."""

    def tell(self, told: Told) -> None:
        """Write what is new."""
        assert self._file is not None
        csv.writer(self._file, lineterminator="\n").writerows(
            (told.step, name, repr(value)) for name, value in told.metrics.items()
        )
        self._file.flush()
