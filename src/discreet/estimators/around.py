"""Looks for parts of scikit-learn around a fit that would learn from private rows: pipeline steps, searches and the
like.

An estimator does not know its caller, so this inspects the call stack of `fit`. In other threads and processes
(`n_jobs`) the stack begins with the function of scikit-learn that runs there. Other libraries around a fit, and earlier
processing of the rows, are not noticed; the page on estimators says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from discreet.core.errors import InputError
from discreet.queries.transformers import PrivatePCA, PrivateScaler

_PAID = (PrivatePCA, PrivateScaler, FrozenEstimator)
"""Steps whose `fit` is a private release, or does nothing."""

_COMPOSED = (Pipeline, FeatureUnion, ColumnTransformer, FrozenEstimator)
"""Allowed callers of a fit, which learn nothing themselves. The steps before the estimator are checked one by one."""

_NEUTRAL = ("sklearn.base", "sklearn.pipeline", "sklearn.compose", "sklearn.utils")
"""Modules of scikit-learn whose functions pass a fit on, or check estimators."""

_INNER = ("steps", "transformers", "transformer_list")
"""Attributes in which composite steps hold their parts: tuples of a name, a part, and sometimes columns."""


def refuse_leaks(estimator: object) -> None:
    """Refuse a fit of `estimator` whose callers learn from private rows without paying, or fit to choose.

    `InputError` for a pipeline with a step that has to be fitted, unless that is a private release (`PrivateScaler`)
    or frozen, for a step that runs a function of the user's on all rows, and for whatever else of scikit-learn fits
    other estimators: searches, cross-validation, calibration, ensembles, transformed targets.
    """
    for caller in _callers():
        if caller is estimator or isinstance(caller, _COMPOSED):
            continue
        if isinstance(caller, BaseSearchCV):
            raise InputError(
                f"{type(caller).__name__} fits many times and compares scores on private rows, which nobody paid for; "
                "fit with settings chosen on public rows, or search privately with `discreet tune`"
            )
        raise InputError(
            f"{type(caller).__name__} fits a private estimator within its own fit, and what it learns or chooses "
            "itself on private rows leaves unpaid; fit the private estimator by itself, or at the end of a Pipeline"
        )
    for function in _functions():
        raise InputError(
            f"{function} of scikit-learn fits a private estimator, as cross-validation and searches do: each fit would "
            "be a charge, and scores of private rows are paid for by nobody; fit once, and score public rows"
        )
    for caller in _callers():
        if isinstance(caller, Pipeline):
            for name, step in caller.steps[:-1]:
                _refuse_step(name, step)


def _refuse_step(name: str, step: Any) -> None:
    if any(_chooses_columns(step)):
        raise InputError(
            f"step {name!r} of the pipeline takes its columns from a function of all rows, so which there are may "
            "depend on private ones; name the columns, or give their places"
        )
    for part in _learning(step):
        if isinstance(part, FunctionTransformer):
            raise InputError(
                f"step {name!r} of the pipeline runs a function on all rows at once, which may mix them, as "
                "sklearn.preprocessing.scale does; apply it to the rows before fit if it treats each by itself"
            )
        raise InputError(
            f"step {name!r} of the pipeline ({type(part).__name__}) is fitted on private rows, and what it learns "
            "leaves unpaid; leave it out (declared bounds scale the features), fit it on public rows and wrap it in "
            "sklearn.frozen.FrozenEstimator, or use discreet.queries.PrivateScaler"
        )


def _callers() -> Iterator[object]:
    """Estimators whose scikit-learn methods are on the call stack, from the inside out, and pipelines of any origin."""
    for frame in _frames():
        owner = _owner(frame)
        if isinstance(owner, Pipeline) or (_module(frame).startswith("sklearn.") and isinstance(owner, BaseEstimator)):
            yield owner


def _functions() -> Iterator[str]:
    """Functions of scikit-learn around a fit that belong to no estimator and are not neutral."""
    for frame in _frames():
        module = _module(frame)
        if module.startswith("sklearn.") and not module.startswith(_NEUTRAL) and _owner(frame) is None:
            yield f"{module}.{frame.f_code.co_name}"


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _owner(frame: FrameType) -> object:
    """The object of a method call."""
    return frame.f_locals.get("self") if "self" in frame.f_code.co_varnames[:1] else None


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _chooses_columns(step: Any) -> Iterator[bool]:
    """Whether a step, or a part of it, chooses its columns by a function, which scikit-learn calls with the rows."""
    for part in _inside(step):
        yield len(part) > 2 and callable(part[2])
        yield from _chooses_columns(part[1])


def _learning(step: Any) -> Iterator[object]:
    """The parts of a step that would learn from the rows, or mix them."""
    if step is None or isinstance(step, (str, *_PAID)):  # "passthrough" and "drop" are texts
        return
    inner = _inside(step)
    for part in inner:
        yield from _learning(part[1])
    if not inner and (get_tags(step).requires_fit or isinstance(step, FunctionTransformer)):
        yield step


def _inside(step: Any) -> list[Any]:
    """The parts of a composite step, and what a `ColumnTransformer` does to all other columns."""
    found = [part for name in _INNER for part in getattr(step, name, ())]
    return [*found, ("remainder", step.remainder)] if isinstance(step, ColumnTransformer) else found
