"""Principal components that a run buys before its first step, kept beside the run until it is published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan
from discreet.queries import Covariance, release
from discreet.queries.pca import principal_components
from discreet.training.run.answered_queries import answered_first
from discreet.training.run.run_folder import RunFolder
from discreet.training.run.run_options import RunOptions

NAME = "components"
"""Name of the tensor of components in the run folder and in the published folder."""


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
    with them; `kept_components` reads them. `run` and `noise` are those of `answered_first`.
    """
    flat = rows.flatten(1).double()
    flat = flat / flat.norm(dim=1, keepdim=True).clamp(min=1e-9)
    with answered_first(plan, model, run, noise=noise) as account:
        (covariance,) = release(flat.numpy(), [Covariance(1.0)], account, multiplier)
        vectors = torch.from_numpy(principal_components(covariance, count).vectors).float()
        RunFolder(run.path).keep_released({NAME: vectors})
    return vectors


def kept_components(folder: Path) -> Tensor:
    """The components that the run in this folder has bought. `InputError` if they are missing."""
    released = RunFolder(folder).released()
    if NAME not in released:
        raise InputError(
            f"{folder} has no components: the run was interrupted while it bought them. They stay charged and are not "
            "given again; start a new run"
        )
    return released[NAME]
