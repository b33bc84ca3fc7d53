"""Measures the missing cells of an experiment."""

from __future__ import annotations

import time
from collections.abc import Callable

from discreet_papers.experiment import Experiment
from discreet_papers.measure.store import Measured, Store
from discreet_papers.part import Cell, Setting

BeforeCell = Callable[[int, int, Cell], None]
"""Called before a cell is measured, with the number of finished cells, the number of all, and the next cell."""


def measure(experiment: Experiment, store: Store, setting: Setting, seeds: int | None, before: BeforeCell) -> int:
    """Measure every missing cell, and store each before the next begins; returns their number."""
    cells = experiment.cells(seeds)
    missing = [(part, cell) for part, cell in cells if cell not in store]
    for done, (part, cell) in enumerate(missing):
        before(len(cells) - len(missing) + done, len(cells), cell)
        began = time.process_time()
        result = part.measure(cell, setting)
        store.add(Measured.now(cell, result, time.process_time() - began))
    return len(missing)
