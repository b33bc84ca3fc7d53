"""The checks that scikit-learn has for estimators, on the real ones.

The checks make up rows with labels of all kinds. What is declared of these is declared here, for each check anew; the
estimators themselves read nothing off the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from discreet import PrivateClassifier, PrivateRegressor
from discreet.estimators import NOT_KEPT
from discreet.plan import pricing
from discreet.training import checklist

SETTINGS: dict[str, Any] = {
    "epsilon": 150.0,  # so that the scores that the checks ask for are many standard deviations away
    "delta": 1e-3,
    "population": 400,
    "bounds": (-3, 3),
    "hidden": (),
    "batch": 200,
    "steps": 12,
    "clip_norm": 4.0,
    "learning_rate": 2.0,
    "engine": "bookkeeping",
}


class OfMadeUpClasses(PrivateClassifier):
    """Declares, for one fit, the labels that a check made up; a second one where there is but one."""

    def fit(self, X: Any, y: Any) -> OfMadeUpClasses:
        found = np.unique(np.ravel(np.asarray(y)).astype(str) if np.asarray(y).dtype.kind == "O" else np.ravel(y))
        more = np.array(["another"]) if found.dtype.kind == "U" else np.array([998])
        return declared(self, "classes", np.r_[found, more] if len(found) == 1 else found, PrivateClassifier, X, y)


class OfMadeUpNumbers(PrivateRegressor):
    """Declares, for one fit, the range of the numbers that a check made up."""

    def fit(self, X: Any, y: Any) -> OfMadeUpNumbers:
        found = np.ravel(np.asarray(y, np.float64))
        found = found[np.isfinite(found)]
        return declared(self, "target_bounds", (found.min() - 1, found.max() + 1), PrivateRegressor, X, y)


def declared(estimator: Any, name: str, value: Any, kind: Any, X: Any, y: Any) -> Any:
    before = getattr(estimator, name)
    setattr(estimator, name, value)
    try:
        return kind.fit(estimator, X, y)
    finally:
        setattr(estimator, name, before)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Fits with one plan are calibrated once, and models of one shape compared once: the checks make many."""

    def once(module: Any, name: str, key: Callable[..., object]) -> None:
        answers: dict[object, Any] = {}
        real = getattr(module, name)

        def remembered(*question: Any) -> Any:
            if (asked := key(*question)) not in answers:
                answers[asked] = real(*question)
            return answers[asked]

        monkeypatch.setattr(module, name, remembered)

    once(pricing, "calibrated", lambda plan, epsilon: f"{plan!r} {epsilon}")
    once(checklist, "try_engines", lambda _, model, loss, *rest: f"{model} {loss} {rest[1]}")
    monkeypatch.chdir(tmp_path)
    logging.getLogger("discreet").setLevel(logging.ERROR)
    yield
    logging.getLogger("discreet").setLevel(logging.NOTSET)


CHECKS: dict[str, list[tuple[Any, Callable[..., Any]]]] = {}
for made in (OfMadeUpClasses(**SETTINGS), OfMadeUpNumbers(**SETTINGS | {"steps": 60, "learning_rate": 1.0})):
    for one, check in estimator_checks.estimator_checks_generator(made):
        CHECKS.setdefault(type(made).__name__, []).append((one, check))


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


def of(kind: type, own: bool) -> list[tuple[Any, Any]]:
    """The checks of one kind; only its `own` ones, if the other has run those of every estimator already."""
    others = {name_of(check) for name, pairs in CHECKS.items() if name != kind.__name__ for _, check in pairs}
    return [(one, check) for one, check in CHECKS[kind.__name__] if not (own and name_of(check) in others)]


@pytest.mark.parametrize(("kind", "own"), [(OfMadeUpClasses, False), (OfMadeUpNumbers, True)])
@pytest.mark.filterwarnings("ignore")
def test_only_what_the_table_names_is_not_kept(kind: type, own: bool) -> None:
    failed = {}
    for estimator, check in of(kind, own):
        try:
            check(estimator)
        except SkipTest:  # what does not concern a kind of estimator
            continue
        except Exception as error:
            failed[name_of(check)] = str(error)
    assert {name: text for name, text in failed.items() if name not in NOT_KEPT} == {}
    if not own:
        assert set(failed) >= {"check_fit_score_takes_y", "check_dtype_object", "check_fit_idempotent"}


def test_the_table_names_checks_that_there_are() -> None:
    known = {name_of(check) for pairs in CHECKS.values() for _, check in pairs}
    assert set(NOT_KEPT) <= known
    assert all(NOT_KEPT.values())


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text()
    assert [f"| `{name}` | {reason} |" in page for name, reason in NOT_KEPT.items()] == [True] * len(NOT_KEPT)
