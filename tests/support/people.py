"""Runs that protect people with several rows, on the tiny problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from problems import tiny_plan, tiny_training

from discreet import Plan
from discreet.training import Training

IDS = np.repeat([30, 10, 20, 40], [1, 3, 8, 12])
"""Of 24 rows, one person has one, others three, eight and twelve."""


SHUFFLED = np.random.Generator(np.random.PCG64(1)).permutation(IDS)


def user_plan(rows: int = 3, **changes: Any) -> Plan:
    return tiny_plan(**({"population": 4, "batch": 2, "unit": "user", "rows_per_unit": rows} | changes))


def user_training(folder: Path, rows: int = 3, **changes: Any) -> Training:
    changes.setdefault("units", SHUFFLED)
    return tiny_training(folder, plan=changes.pop("plan", None) or user_plan(rows), **changes)
