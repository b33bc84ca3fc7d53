"""Private principal components against the perturbation bound, on synthetic rows and on MNIST; the transformers."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from discreet.core.adjacency import Query
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import Compose, Gaussian
from discreet.ledger import Budget, Ledger
from discreet.queries import Covariance, PrivatePCA, PrivateScaler, principal_components, release


def norm_bound(noise: float, columns: int) -> float:
    """What the spectral norm of the noise exceeds once in 10^6.

    The matrix is symmetric with N(0, noise^2) in the upper triangle. Its largest eigenvalue has mean at most
    2 noise sqrt(columns) (that of the Gaussian orthogonal ensemble, of which it is a conditional mean) and is a
    sqrt(2) noise Lipschitz function of the normals, so it is above by t sqrt(2) noise with probability at most
    e^(-t^2 / 2) (Gaussian concentration); t = 5.4, both ends of the spectrum.
    """
    return noise * (2 * math.sqrt(columns) + 5.4 * math.sqrt(2))


def sine(one: Any, other: Any) -> float:
    """Of the largest angle between the spans of two sets of orthonormal rows."""
    return math.sqrt(max(0.0, 1 - float(np.linalg.svd(one @ other.T, compute_uv=False)[-1]) ** 2))


def check_against_perturbation(rows: Any, matrix: Any, noise: float, ks: Sequence[int]) -> list[tuple[float, ...]]:
    """Davis and Kahan 1970: sin(largest angle) <= 2 ||E|| / gap. And the captured variance is at most 2 k ||E|| less
    than the best (Ky Fan, twice). For each k: the sine, its bound, the captured share, the best share."""
    exact = rows.T @ rows
    values, vectors = np.linalg.eigh(exact)
    total = float(values.sum())
    noise_norm = float(np.abs(np.linalg.eigvalsh(matrix - exact)).max())
    limit = norm_bound(noise, rows.shape[1])
    assert noise_norm <= limit
    assert noise_norm > 0.5 * limit, "less noise than charged for: the norm is near 2 noise sqrt(columns)"
    every, result = principal_components(matrix, max(ks)).vectors, []
    for k in ks:
        best, found = vectors[:, ::-1][:, :k].T, every[:k]
        angle, bound = sine(best, found), 2 * limit / (values[-k] - values[-k - 1])
        captured, most = float(np.trace(found @ exact @ found.T)), float(values[-k:].sum())
        assert angle <= bound
        assert most - 2 * k * limit <= captured <= most * (1 + 1e-12)
        result.append((angle, bound, captured / total, most / total))
    return result


def test_components_are_within_the_perturbation_bound(accounts: Any) -> None:
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(40_000, 50)) * np.array([3.0, 2.0, *[0.3] * 48])
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    (matrix,) = release(rows, [Covariance()], accounts(), 16.0)
    ((angle, bound, captured, most),) = check_against_perturbation(rows, matrix, 16.0, [2])
    assert angle < bound < 0.2
    assert captured > 0.999 * most


def mnist_rows() -> Any:
    pytest.importorskip("torch")
    from discreet.data import DATASETS

    folder = os.environ.get("DISCREET_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("needs MNIST: set DISCREET_DATA to the folder that has it")
    return DATASETS["mnist"](Path(folder)).train[0].numpy().reshape(60_000, 784).astype(np.float64)


def test_mnist_at_multiplier_16(accounts: Any) -> None:
    """60,000 images scaled to norm at most 1; the components are about zero, so the first is near the mean image."""
    rows = mnist_rows()
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    answers = release(rows, [Covariance()], accounts(delta=1e-5), 16.0)
    assert answers.event == Gaussian(16.0, Query.COVARIANCE)
    first, second, sixty = check_against_perturbation(rows, answers[0], 16.0, [1, 2, 60])
    assert first[0] < first[1] < 0.1
    assert second[2] > 0.99 * second[3]
    assert sixty[2] > 0.8 * sixty[3]  # seen: 0.738 of all variance where 0.904 could be had
    assert answers.guarantee.epsilon < 0.3


def test_pca_is_a_transformer(accounts: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 5)) * np.array([4, 3, 0.1, 0.1, 0.1])
    account = accounts()
    pca = PrivatePCA(2, account=account, noise_multiplier=4.0, bound=10.0)
    assert pca.fit(rows) is pca
    assert pca.release_.event == Gaussian(4.0, Query.COVARIANCE)
    assert np.allclose(pca.components_ @ pca.components_.T, np.eye(2))
    assert np.abs(pca.components_).argmax(axis=1).tolist() == [0, 1]
    assert (pca.explained_[:-1] >= pca.explained_[1:]).all()
    assert np.array_equal(pca.transform(rows), rows @ pca.components_.T)
    copy = clone(pca)
    assert copy.get_params() == pca.get_params()
    assert copy.account is account
    assert not hasattr(copy, "components_")
    copy.set_params(noise_multiplier=None, epsilon=0.5, center=np.ones(5)).fit(rows)
    assert 0.49 < copy.release_.guarantee.epsilon <= 0.5
    assert np.array_equal(copy.transform(rows), (rows - 1) @ copy.components_.T)
    assert account.ledger.verify().entries == 8


def test_the_scaler_standardises(accounts: Any) -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal([5, -20, 0], [1, 4, 0.5], size=(20_000, 3))
    rows[0] = math.nan
    rows[1, 0] = math.inf
    scaler = PrivateScaler([0, -40, -3], [10, 0, 3], account=accounts(), epsilon=1.0).fit(rows)
    assert isinstance(scaler.release_.event, Compose)
    assert len(scaler.release_.event.events) == 3
    assert np.allclose(scaler.mean_, [5, -20, 0], atol=0.1)
    assert np.allclose(scaler.scale_, [1, 4, 0.5], rtol=0.1)
    scaled = scaler.transform(rows[2:])
    assert np.allclose(scaled.mean(axis=0), 0, atol=0.1)
    assert np.allclose(scaled.std(axis=0), 1, atol=0.1)
    assert clone(scaler).get_params()["account"] is scaler.account


def test_a_scaler_that_drowns_in_noise_still_scales(accounts: Any) -> None:
    scaler = PrivateScaler(account=accounts(), noise_multiplier=1e4).fit(np.zeros((3, 2)))
    assert (scaler.scale_ >= 0.005).all()
    assert (scaler.scale_ <= 0.5).all()
    assert ((scaler.mean_ >= 0) & (scaler.mean_ <= 1)).all()


def test_a_pipeline_charges_each_step(accounts: Any) -> None:
    account = accounts()
    rows = np.random.default_rng(0).normal(size=(500, 4))
    made = make_pipeline(
        PrivateScaler(-3, 3, account=account, noise_multiplier=5.0),
        PrivatePCA(2, account=account, noise_multiplier=5.0, bound=2.0),
    )
    assert made.fit_transform(rows).shape == (500, 2)
    assert [entry.kind for entry in account.ledger.entries()].count("reservation") == 2


def test_fitting_stops_at_the_budget(accounts: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", Budget(0.7, 1e-5))
    pca = PrivatePCA(1, account=accounts(ledger=ledger, dataset="patients"), epsilon=0.5).fit(np.eye(3))
    with pytest.raises(BudgetExhausted):
        pca.fit(np.eye(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda account: PrivatePCA(1, noise_multiplier=1.0), "needs an account"),
        (lambda account: PrivatePCA(1, account=account), "say how much noise"),
        (lambda account: PrivatePCA(4, account=account, noise_multiplier=1.0), "at most that many"),
        (lambda account: PrivatePCA(0, account=account, noise_multiplier=1.0), "k must be"),
        (lambda account: PrivateScaler(noise_multiplier=1.0), "needs an account"),
        (lambda account: PrivateScaler(1.0, 1.0, account=account, noise_multiplier=1.0), "low below high"),
        (lambda account: PrivateScaler(0.0, math.nan, account=account, noise_multiplier=1.0), "high must be a finite"),
        (lambda account: PrivateScaler([0, 0], 1.0, account=account, noise_multiplier=1.0), "low must be a finite"),
        (lambda account: PrivatePCA(1, account=account, noise_multiplier=1.0, center=[1, 2]), "each of 3 columns"),
        (lambda account: PrivatePCA(1, account=account, noise_multiplier=1.0, center="a"), "center must be a finite"),
        (lambda account: PrivatePCA(1, account=account, noise_multiplier=1.0, center=math.nan), "center must be"),
    ],
)
def test_bad_transformers_charge_nothing(accounts: Any, make: Any, message: str) -> None:
    account = accounts()
    with pytest.raises(InputError, match=message):
        make(account).fit(np.eye(3))
    assert account.ledger.verify().entries == 0


def test_transforming_needs_a_fit_of_that_width(accounts: Any) -> None:
    pca = PrivatePCA(1, account=accounts(), noise_multiplier=1.0)
    with pytest.raises(InputError, match="not fitted"):
        pca.transform(np.eye(3))
    with pytest.raises(InputError, match="fitted on 3 columns, got 2"):
        pca.fit(np.eye(3)).transform(np.eye(2))
