"""The life of a private estimator: what it refuses, charges, and publishes."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from declared_rows import DECLARED, FRAME, NEW, NEW_FRAME, NEW_Y, X, Y, classifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler, scale

import discreet
from discreet import PrivateClassifier, PrivateRegressor
from discreet.accounting.adaptive.filters import BasicFilter
from discreet.core.errors import Interrupted
from discreet.ledger import Ledger
from discreet.prediction import predict_table
from discreet.training import training as training_module


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> PrivateClassifier:
    """Fitted once on a data frame, with public rows beside it."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    return classifier(run_dir=str(folder)).fit(FRAME, Y, public_test=(NEW_FRAME, NEW_Y))


def test_it_learns_within_the_declared_epsilon(fitted: PrivateClassifier) -> None:
    assert fitted.score(NEW_FRAME, NEW_Y) > 0.8
    assert fitted.epsilon_ <= 20.0
    assert fitted.certificate_["claim"]["epsilon"] == fitted.epsilon_ == fitted.plan_.guarantee().epsilon
    assert fitted.certificate_["plan"]["population"] == 300
    assert fitted.certificate_["public_evaluations"][-1]["accuracy"] == fitted.score(NEW_FRAME, NEW_Y)
    assert list(fitted.classes_) == ["no", "yes"]
    assert list(fitted.feature_names_in_) == ["age", "height", "weight"]
    assert np.allclose(fitted.predict_proba(NEW_FRAME).sum(1), 1)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_frames_of_polars_and_tables_of_arrow_are_rows_too(kind: str, fitted: PrivateClassifier) -> None:
    package = pytest.importorskip(kind, reason=f"{kind} is not installed; it is in the extra dev")
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    rows = package.DataFrame(columns) if kind == "polars" else package.table(columns)
    targets = package.Series("y", Y) if kind == "polars" else package.array(Y)
    model = classifier().fit(rows, targets)
    assert list(model.feature_names_in_) == list(FRAME)
    new = {name: NEW_FRAME[name].to_numpy() for name in NEW_FRAME}
    asked = package.DataFrame(new) if kind == "polars" else package.table(new)
    assert np.array_equal(fitted.predict_proba(asked), fitted.predict_proba(NEW_FRAME))
    with pytest.raises(discreet.InputError, match="the rows of fit, which are private"):
        model.score(rows, targets)


@pytest.mark.parametrize("same", [(X, Y), (X[5:20], Y[5:20].copy()), (FRAME, NEW_Y)])
def test_the_rows_of_fit_are_not_public(same: Any, tmp_path: Path) -> None:
    rows = FRAME if same[0] is FRAME else X
    with pytest.raises(discreet.InputError, match="public_test is the training data itself"):
        classifier().fit(rows, Y, public_test=same)
    assert not list(tmp_path.iterdir())


def test_a_score_of_the_rows_of_fit_is_refused(fitted: PrivateClassifier) -> None:
    with pytest.raises(discreet.InputError, match="the rows of fit, which are private"):
        fitted.score(FRAME, Y)
    with pytest.raises(discreet.InputError, match="the rows of fit, which are private"):
        fitted.score(FRAME.iloc[:50], Y[:50])


def test_it_is_published_verified_and_loaded(fitted: PrivateClassifier, tmp_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.publish(tmp_path / "out") == fitted.guarantee_
    assert discreet.verify(tmp_path / "out").accepted
    NEW_FRAME.to_csv(tmp_path / "new.csv", index=False)
    _, found = predict_table(discreet.load(tmp_path / "out"), tmp_path / "new.csv")
    assert np.allclose(found, fitted.predict_proba(NEW_FRAME), atol=1e-6)


def test_what_is_not_declared_is_refused_in_one_message() -> None:
    with pytest.raises(discreet.InputError) as refused:
        PrivateClassifier().fit(X, Y)
    assert all(f"{name}=" in str(refused.value) for name in ("epsilon", "population", "bounds", "classes"))
    with pytest.raises(discreet.InputError, match="target_bounds="):
        PrivateRegressor(**DECLARED).fit(X, X[:, 0])
    assert not Path("discreet-runs").exists()


@pytest.mark.parametrize(
    ("changes", "rows", "targets", "text"),
    [
        ({"classes": ["no"]}, X, Y, "at least two labels"),
        ({"classes": ["no", "maybe"]}, X, Y, "none of the declared classes"),
        ({"bounds": [(0, 1), (0, 1)]}, X, Y, "rows of 3 columns"),
        ({"bounds": [(0, 1), (1, 1), (0, 1)]}, X, Y, "the range of x1 is 1 to 1"),
        ({"bounds": {"age": (0, 1), "height": (0, 1)}}, FRAME, Y, "bounds lacks the columns 'weight'"),
        ({"bounds": {"years": (0, 1)}}, FRAME, Y, "bounds names 'years'"),
        (
            {},
            np.where(X > 0.999, np.nan, X * np.nan),
            Y,
            "contains NaN. The first is row 0 of X, column 0, counted from 0",
        ),
        ({"population": 100, "batch": 50}, X, Y, "more rows than the"),
        ({"classes": ["no", 1]}, X, Y, "labels of one type"),
        (
            {},
            X,
            np.where(Y == "yes", 1, 0),
            "the label of row 0, counted from 0, is a number, and the declared classes",
        ),
        ({}, X, [*Y[:7], None, *Y[8:]], "the label of row 7, counted from 0, is missing"),
        ({}, X, np.array([*Y[:7], 5, *Y[8:]], object), "row 7, counted from 0, is a number"),
        ({"columns": {"age": (0, 1)}}, FRAME, Y, "give either bounds"),
    ],
)
def test_bad_input_costs_nothing(changes: dict[str, Any], rows: Any, targets: Any, text: str) -> None:
    with pytest.raises(discreet.InputError, match=text):
        classifier(**changes).fit(rows, targets)
    assert not Path("discreet-runs").exists()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (Y.astype(object), ("no", "yes")),
        (pd.Series(Y).astype("category"), {"yes", "no"}),
        (pd.Series(Y, dtype="string"), np.array(["no", "yes"], object)),
        (Y == "yes", [False, True]),
        ((Y == "yes").astype(object), [0, 1]),
    ],
)
def test_labels_of_any_kind_come_back_as_they_were_declared(labels: Any, classes: Any) -> None:
    one = classifier(classes=classes, steps=20).fit(X, labels)
    assert set(one.predict(NEW).tolist()) <= set(one.classes_.tolist()) == set(classes)
    assert one.score(NEW, np.isin(NEW_Y, ["yes"]) if True in one.classes_.tolist() else NEW_Y) > 0.7


def test_every_fit_is_a_charge(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger("team.sqlite")
    ledger.set_budget("patients", BasicFilter(5.0, 3e-4))
    ledger.close()
    one = classifier(epsilon=3.0, steps=2, ledger="team.sqlite", dataset_id="patients").fit(X, Y)
    with pytest.raises(discreet.BudgetExhausted):
        one.fit(X, Y)
    assert "this estimator was fitted before; what each fit is charged adds up" in caplog.text
    assert "second charge" not in caplog.text  # the second fit was refused, so there is none
    with pytest.raises(discreet.BudgetExhausted):
        clone(one).fit(X, Y)


def test_an_interrupted_fit_says_that_it_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stop_requests() -> Iterator[Any]:
        yield lambda: signal.SIGINT

    monkeypatch.setattr(training_module, "stop_requests", stop_requests)
    with pytest.raises(Interrupted, match=r"stopped after step 1 of 40 .*; what was charged stays charged") as stop:
        classifier().fit(X, Y)
    assert "resume" not in str(stop.value)


def test_a_pipeline_that_learns_from_private_rows_is_refused() -> None:
    for step in (
        StandardScaler(),
        ColumnTransformer([("some", StandardScaler(), [0]), ("rest", "passthrough", [1, 2])]),
        ColumnTransformer([("some", Normalizer(), [0])], remainder=StandardScaler()),
        FeatureUnion([("all", StandardScaler())]),
    ):
        for last in (classifier(), make_pipeline(classifier())):
            with pytest.raises(discreet.InputError, match=r"\(StandardScaler\) is fitted on private rows"):
                make_pipeline(step, last).fit(X, Y)
    with pytest.raises(discreet.InputError, match=r"'functiontransformer' of the pipeline .* may mix them"):
        make_pipeline(FunctionTransformer(scale), classifier()).fit(X, Y)
    chosen = ColumnTransformer([("few", "passthrough", lambda rows: [i for i in (0, 1) if rows[:, i].mean() > 0])])
    for step in (chosen, make_pipeline(chosen), FeatureUnion([("all", chosen)])):
        with pytest.raises(discreet.InputError, match="takes its columns from a function of all rows"):
            make_pipeline(step, classifier()).fit(X, Y)
    assert not Path("discreet-runs").exists()
    public = FrozenEstimator(StandardScaler().fit(NEW))
    kept = make_pipeline(public, Normalizer(), make_pipeline(classifier(bounds=(-1, 1), steps=2)))
    assert kept.fit(X, Y).predict(NEW).shape == (200,)


def test_a_search_over_settings_is_refused() -> None:
    search = GridSearchCV(classifier(), {"clip_norm": [1.0, 2.0]}, error_score="raise")
    with pytest.raises(discreet.InputError, match="GridSearchCV fits many times"):
        search.fit(X, Y)


@pytest.mark.parametrize("jobs", [None, 2])
def test_cross_validation_and_what_fits_elsewhere_are_refused(jobs: int | None) -> None:
    """Two processes see nobody but the function that they run; threads are told apart by the same."""
    with pytest.raises(discreet.InputError, match=r"_validation\._fit_and_predict of scikit-learn fits a private"):
        cross_val_predict(classifier(), X, Y, cv=2, n_jobs=jobs)
    whole = make_pipeline(Normalizer(), classifier(bounds=(-1, 1)))
    with joblib.parallel_config("threading"), pytest.raises(ValueError, match="_fit_and_score of scikit-learn fits"):
        cross_val_score(whole, X, Y, cv=2, n_jobs=jobs)
    search = GridSearchCV(classifier(), {"clip_norm": [1.0, 2.0]}, cv=2, n_jobs=jobs)
    with joblib.parallel_config("threading"), pytest.raises(ValueError, match="fits"):
        search.fit(X, Y)
    with joblib.parallel_config("threading"), pytest.raises(discreet.InputError, match="_fit_single_estimator"):
        VotingClassifier([("a", classifier(classes=[0, 1])), ("b", classifier(classes=[0, 1]))], n_jobs=2).fit(X, Y)
    assert not Path("discreet-runs").exists()


class Tuned(TunedThresholdClassifierCV):  # type: ignore[misc]
    """Of another module than scikit-learn's."""


@pytest.mark.parametrize(
    "around",
    [
        CalibratedClassifierCV(classifier(), cv=2),
        TunedThresholdClassifierCV(classifier(), cv=2),
        Tuned(classifier(), cv=2),
        StackingClassifier([("a", classifier())], cv=2),
        VotingClassifier([("a", classifier())]),
        BaggingClassifier(classifier(), n_estimators=2),
        OneVsRestClassifier(classifier()),
        make_pipeline(OneVsRestClassifier(classifier())),
        TransformedTargetRegressor(PrivateRegressor(**DECLARED), transformer=StandardScaler()),
    ],
    ids=lambda around: type(around).__name__,
)
def test_what_learns_or_chooses_around_a_fit_is_refused(around: Any) -> None:
    with pytest.raises(discreet.InputError, match="fits a private estimator within its own fit"):
        around.fit(X, X[:, 0] if isinstance(around, TransformedTargetRegressor) else Y)
    assert not Path("discreet-runs").exists()


def test_an_error_tells_where_and_never_what() -> None:
    rows = X.astype(object)
    rows[5, 1] = "Jane Doe HIV+"
    amounts = X[:, 0].astype(object)
    amounts[7] = "Jane Doe HIV+"
    one = PrivateRegressor(**{**DECLARED, "target_bounds": (0, 1)})
    for fit, said in [
        (lambda: classifier().fit(rows, Y), "row 5 of X, column 1, counted from 0, is no number"),
        (lambda: classifier().fit(pd.DataFrame(rows, columns=FRAME.columns), Y), "row 5 of X, column 'height'"),
        (lambda: one.fit(X, amounts), "row 7 of y, counted from 0, is no number"),
    ]:
        with pytest.raises(discreet.InputError, match=said) as refused:
            fit()
        assert "Jane" not in str(refused.value)
    named = Y.astype(object)
    named[9] = "Jane Doe HIV+"
    with pytest.raises(
        discreet.InputError, match="the label of row 9, counted from 0, is none of the declared"
    ) as refused:
        classifier().fit(X, named)
    assert "Jane" not in str(refused.value)


def test_people_with_several_rows() -> None:
    person = np.arange(300) // 3
    one = classifier(population=100, batch=50, steps=3, rows_per_unit=2).fit(X, Y, units=person)
    assert one.certificate_["claim"]["unit"] == "user"
    assert one.plan_.rows_per_unit == 2


def test_a_regressor_speaks_the_unit_of_its_target() -> None:
    one = PrivateRegressor(**{**DECLARED, "target_bounds": (100, 200), "learning_rate": 1.0})
    one.fit(X, 100 + 90 * X[:, 0])
    assert one.score(NEW, 100 + 90 * NEW[:, 0]) > 0.5
    assert one.predict(NEW).min() >= 100
    assert one.predict(NEW).max() <= 200
