"""Transformers for scikit-learn whose `fit` is one private release. This module imports scikit-learn."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.queries.answering import Answers, release
from discreet.queries.charging import Account
from discreet.queries.pca import principal_components
from discreet.queries.rows import private_rows
from discreet.queries.sums import Count, Covariance, Sum

_SMALLEST_SCALE = 0.01


class PrivatePCA(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Principal components by "Analyze Gauss": one `Covariance` release of rows scaled down to norm `bound`.

    `center` is a public vector that is subtracted first (None: the second moment about zero). Give `noise_multiplier`,
    or the `epsilon` that one fit may cost at the account's delta. After `fit`: `components_` (n_components, columns),
    `explained_` (the noisy eigenvalues), `release_` (event, receipt and guarantee).
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        account: Account | None = None,
        noise_multiplier: float | None = None,
        epsilon: float | None = None,
        bound: float = 1.0,
        center: npt.ArrayLike | None = None,
    ) -> None:
        self.n_components = n_components
        self.account = account
        self.noise_multiplier = noise_multiplier
        self.epsilon = epsilon
        self.bound = bound
        self.center = center

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Charge the account, then release the covariance of `X`, shape (rows, columns)."""
        rows = self._centred(X)
        principal_components(np.zeros((rows.shape[1], rows.shape[1])), self.n_components)  # refuses before the charge
        self.release_ = _paid(self, rows, [Covariance(self.bound)])
        found = principal_components(self.release_[0], self.n_components)
        self.components_, self.explained_ = found.vectors, found.values
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, X: npt.ArrayLike) -> Array:
        """Project rows onto the components; shape (rows, n_components). No row affects another."""
        projected: Array = _like_fitted(self, self._centred(X)) @ self.components_.T
        return projected

    def _centred(self, X: npt.ArrayLike) -> Array:
        rows = private_rows(X)
        return rows if self.center is None else rows - _public("center", self.center, rows.shape[1])


class PrivateScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scales columns to about mean 0 and standard deviation 1, from one release: sum, sum of squares and count.

    `low` and `high` are the public range of each column (or of all); values are clipped to the range before summing.
    Noise as in `PrivatePCA`. After `fit`: `mean_`, `scale_` (at least a hundredth of half the range), `release_`.
    """

    def __init__(
        self,
        low: npt.ArrayLike = 0.0,
        high: npt.ArrayLike = 1.0,
        *,
        account: Account | None = None,
        noise_multiplier: float | None = None,
        epsilon: float | None = None,
    ) -> None:
        self.low = low
        self.high = high
        self.account = account
        self.noise_multiplier = noise_multiplier
        self.epsilon = epsilon

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Charge the account, then release the three sums of `X`, shape (rows, columns)."""
        rows = private_rows(X)
        size = rows.shape[1]
        low, high = _public("low", self.low, size), _public("high", self.high, size)
        if not (low < high).all():
            raise InputError("low and high must be finite, with low below high in every column")
        middle, half = (low + high) / 2, (high - low) / 2
        inside = np.clip((rows - middle) / half, -1, 1)
        inside[~np.isfinite(rows)] = math.nan  # clipping would turn an infinity into a number
        first, second = tuple(range(size)), tuple(range(size, 2 * size))
        bound = math.sqrt(size)
        queries = [Sum(bound, first), Sum(bound, second), Count()]
        self.release_ = _paid(self, np.hstack([inside, inside**2]), queries)
        total, squares, count = self.release_
        number = max(1.0, float(count))
        mean = np.clip(total / number, -1, 1)
        deviation = np.sqrt(np.maximum(squares / number - mean**2, _SMALLEST_SCALE**2))
        self.mean_, self.scale_ = middle + half * mean, half * np.minimum(deviation, 1.0)
        self.n_features_in_ = size
        return self

    def transform(self, X: npt.ArrayLike) -> Array:
        """(X - mean_) / scale_. No row affects another."""
        scaled: Array = (_like_fitted(self, private_rows(X)) - self.mean_) / self.scale_
        return scaled


def _public(name: str, given: npt.ArrayLike, columns: int) -> Array:
    """A public number, or one for each column, as float64; shape (columns,)."""
    try:
        with np.errstate(all="ignore"):
            found = np.broadcast_to(np.asarray(given, dtype=np.float64), (columns,))
    except (TypeError, ValueError):
        found = np.full(columns, math.nan)
    if not np.isfinite(found).all():
        raise InputError(f"{name} must be a finite number, or one for each of {columns} columns, got {given!r:.80}")
    return found


def _paid(estimator: Any, rows: Array, queries: list[Any]) -> Answers:
    if not isinstance(estimator.account, Account):
        raise InputError(f"{type(estimator).__name__} needs an account to charge: account=Account(ledger, delta)")
    return release(rows, queries, estimator.account, estimator.noise_multiplier, epsilon=estimator.epsilon)


def _like_fitted(estimator: Any, rows: Array) -> Array:
    if not hasattr(estimator, "release_"):
        raise InputError(f"this {type(estimator).__name__} is not fitted yet; call fit first")
    if rows.shape[1] != estimator.n_features_in_:
        raise InputError(f"fitted on {estimator.n_features_in_} columns, got {rows.shape[1]}")
    return rows
