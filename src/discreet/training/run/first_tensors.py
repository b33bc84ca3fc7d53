"""Tensors that a run buys before its first step, kept beside the run until it is published: principal components of
rows, or the center of their features."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.distributed.ranks import Ranks
from discreet.plan import AdaptivePlan, Plan
from discreet.queries import Covariance, Mean, release
from discreet.queries.pca import principal_components
from discreet.training.run.answered_queries import answered_first
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.run_options import RunOptions

COMPONENTS, CENTER = "components", "center"
"""Names of the tensors in the run folder and in the published folder."""


def placeholder(columns: int, count: int) -> Tensor:
    """`count` orthonormal vectors that do not depend on data, for checks before the run; shape (count, columns)."""
    if checks.count("count", count) > columns:
        raise InputError(f"components: rows have {columns} columns, so at most that many components, not {count}")
    generator = np.random.Generator(np.random.PCG64(0))
    return torch.from_numpy(np.linalg.qr(generator.normal(size=(columns, count)))[0].T.copy()).float()


def buy_components(
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    rows: Tensor,
    count: int,
    multiplier: float,
    run: RunOptions,
    noise: str = "fast",
) -> Tensor:
    """Open the run of `plan` and answer its first query: the top `count` components of `rows`; (count, columns).

    `plan.before` is one covariance with this multiplier. Rows (n, ...) are scaled to norm 1 each, zero and non-finite
    ones count as zero. The vectors are written to the run folder before they are returned, so that the run can go on
    with them; `kept_tensor` reads them. `run` and `noise` are those of `answered_first`.
    """
    flat = rows.flatten(1).double()
    flat = flat / flat.norm(dim=1, keepdim=True).clamp(min=1e-9)
    with answered_first(plan, model, run, noise=noise) as account:
        (covariance,) = release(flat.numpy(), [Covariance(1.0)], account, multiplier)
        vectors = torch.from_numpy(principal_components(covariance, count).vectors).float()
        RunFolder(run.path).keep_released({COMPONENTS: vectors})
    return vectors


def buy_center(
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    features: Tensor,
    multiplier: float,
    run: RunOptions,
    noise: str = "fast",
) -> Tensor:
    """Open the run of `plan` and answer its first query: the mean of `features` (n, width); shape (width,).

    `plan.before` is one clipped sum with this multiplier. Each row of features must follow from its own row of data; a
    longer one is scaled down to norm 1. The mean is `shrunk`, and kept like components.
    """
    population = float(plan.population)
    with answered_first(plan, model, run, noise=noise) as account:
        (mean,) = release(features.double().numpy(), [Mean(1.0, population)], account, multiplier)
        center = torch.from_numpy(shrunk(mean, multiplier / population)).float()
        RunFolder(run.path).keep_released({CENTER: center})
    return center


def shrunk(mean: Array, std: float) -> Array:
    """A mean with noise of `std` in each entry, pulled to zero by as much of its squared length as noise brings (the
    estimator of James and Stein 1961, its positive part): a mean that is all noise becomes zero."""
    length, noise = float(mean @ mean), std**2 * len(mean)
    return mean * max(0.0, 1 - noise / max(length, math.ulp(0.0)))


def kept_tensor(folder: Path, name: str) -> Tensor:
    """The tensor of this name that the run in a folder has bought. `InputError` if it is missing."""
    released = RunFolder(folder).released()
    if name not in released:
        raise InputError(
            f"{folder} has no {name}: the run was interrupted while it bought that. It stays charged and is not given "
            "again; start a new run"
        )
    return released[name]


def told_tensor(folder: Path, name: str, *, together: bool) -> Tensor:
    """The tensor of this name, float32, in each of the processes that take the steps `together`: the first reads it and
    tells the others, which may not see the folder."""
    ranks = Ranks.joined() if together else Ranks()
    return torch.tensor(ranks.from_first(f"the {name} of the run", lambda: kept_tensor(folder, name).tolist()))
