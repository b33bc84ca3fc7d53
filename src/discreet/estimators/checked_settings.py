"""Settings of an estimator that are of the wrong type, refused before anything is computed from them."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.core.errors import InputError

_ABOVE_0 = ("epsilon", "delta", "population", "batch", "clip_norm", "learning_rate")
_WHOLE = {"steps": 1, "rows_per_unit": 1, "seed": 0}
_PATHS = ("ledger", "run_dir")


def refuse_ill_typed(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are no numbers, counts, widths or paths. None stands for one that is not given, and what is
    above its largest value is refused where it is used."""
    for name in _ABOVE_0:
        if settings[name] is not None and not _is_positive(settings[name]):
            raise InputError(f"{name} must be a finite number greater than 0, got {_shown(settings[name])}")
    for name, least in _WHOLE.items():
        optional = name == "steps" and settings[name] is None
        if not optional and not _is_whole(settings[name], least):
            raise InputError(f"{name} must be a whole number of at least {least}, got {_shown(settings[name])}")
    hidden = settings["hidden"]
    listed = isinstance(hidden, Sequence | np.ndarray) and not isinstance(hidden, str | bytes)
    if hidden is not None and not (listed and all(_is_whole(width, 1) for width in hidden)):
        raise InputError(f"hidden must list widths, for example hidden=(64, 32), or () for none, got {_shown(hidden)}")
    for name in _PATHS:
        if settings[name] is not None and not isinstance(settings[name], str | os.PathLike):
            raise InputError(f"{name} must be a path, got {_shown(settings[name])}")


def _is_positive(value: Any) -> bool:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and math.isfinite(value) and value > 0


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def _shown(value: object) -> str:
    """A value in one line."""
    return " ".join(repr(value).split())[:60]
