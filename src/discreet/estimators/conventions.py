"""Conventions of scikit-learn that a private estimator does not keep, and why."""

from __future__ import annotations

from collections.abc import Mapping

_NO_SEED = "two fits on the same rows draw other batches and other noise, and neither can be seeded"

NOT_KEPT: Mapping[str, str] = {
    "check_fit_score_takes_y": "it scores the rows of `fit`: they are private, and a score of them is not paid for",
    "check_dtype_object": "a cell that is no number is an InputError, which is a ValueError and not a TypeError",
    "check_estimators_empty_data_messages": "errors do not tell how many rows there are, which is private",
    "check_fit_idempotent": _NO_SEED,
    "check_supervised_y_2d": _NO_SEED,
    "check_classifier_data_not_an_array": _NO_SEED,
    "check_regressor_data_not_an_array": _NO_SEED,
    "check_regressors_int": _NO_SEED,
}
"""Names of checks in `sklearn.utils.estimator_checks` that may fail, each with the reason."""
