"""What of scikit-learn is around a fit: steps of a pipeline that learn from private rows, and searches.

An estimator is not told who calls it, so this looks at the callers of `fit`, on this thread. What runs elsewhere, or
was done to the rows before, is not seen: the page on estimators says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from discreet.core.errors import InputError
from discreet.queries.transformers import PrivatePCA, PrivateScaler

_PAID = (PrivatePCA, PrivateScaler, FrozenEstimator)
"""Steps whose `fit` is a private release, or does nothing."""

_INNER = ("steps", "transformers", "transformer_list")
"""Where composite steps have their parts: tuples of a name, a part, and sometimes columns."""


def refuse_leaks(estimator: object) -> None:
    """Refuse a fit of `estimator` whose callers learn from private rows without paying, or fit to choose.

    `InputError` for a pipeline with a step before that has to be fitted, unless that is a private release
    (`PrivateScaler`) or frozen, and for a search over settings.
    """
    for caller in _callers():
        if isinstance(caller, BaseSearchCV):
            raise InputError(
                f"{type(caller).__name__} fits many times and compares scores on private rows, which nobody paid for; "
                "fit with settings chosen on public rows, or search privately with `discreet tune`"
            )
        if isinstance(caller, Pipeline) and caller.steps[-1][1] is estimator:
            for name, step in caller.steps[:-1]:
                for learns in _learning(step):
                    raise InputError(
                        f"step {name!r} of the pipeline ({type(learns).__name__}) is fitted on private rows, and what "
                        "it learns leaves unpaid; leave it out (declared bounds scale the features), fit it on public "
                        "rows and wrap it in sklearn.frozen.FrozenEstimator, or use discreet.queries.PrivateScaler"
                    )


def _callers() -> Iterator[object]:
    """Whose methods are being called, from the inside out; none of this module."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames[:1] else None
        if owner is not None:
            yield owner
        frame = frame.f_back


def _learning(step: Any) -> Iterator[object]:
    """The parts of a step that would learn from the rows."""
    if step is None or isinstance(step, (str, *_PAID)):  # "passthrough" and "drop" are texts
        return
    inner = [part for name in _INNER for part in getattr(step, name, ())]
    for part in inner:
        yield from _learning(part[1])
    if not inner and get_tags(step).requires_fit:
        yield step
