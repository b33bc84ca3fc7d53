"""Principal components from a noisy covariance ("Analyze Gauss", Dwork, Talwar, Thakurta, Zhang 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.core import checks
from discreet.core.array_types import Array
from discreet.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Components:
    """`vectors`, shape (k, columns): orthonormal, the largest eigenvalue first; `values`, shape (k,): of X^T X."""

    vectors: Array
    values: Array


def principal_components(covariance: Array, k: int) -> Components:
    """The top `k` eigenvectors of a released covariance: post-processing. The sign makes the largest entry positive."""
    number = checks.count("k", k)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise InputError(f"a covariance is a square matrix, got shape {covariance.shape}")
    if number > len(covariance):
        raise InputError(f"there are {len(covariance)} columns, so at most that many components, not {number}")
    values, vectors = np.linalg.eigh(covariance)
    top = vectors[:, ::-1][:, :number].T
    largest = np.take_along_axis(top, np.abs(top).argmax(axis=1)[:, np.newaxis], axis=1)
    return Components(top * np.where(largest < 0, -1.0, 1.0), values[::-1][:number].copy())
