"""The section of principal components: `components: {count: 60, noise: 16}`, bought before the first step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.data import Split
from discreet.data.tables import Schema
from discreet.features import precompute
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive


class RecipeComponents(Frozen):
    """How many components, and the noise multiplier of the covariance that they come from ("Analyze Gauss").

    The covariance is that of rows scaled to norm 1; the model trains on the unscaled rows, projected.
    """

    count: Count
    noise: Positive

    def check(self, table: Schema | None, _model: str) -> None:
        """`ValueError` for a recipe of a table."""
        if table is not None:
            raise ValueError("components are of arrays, not of tables; leave them out")

    @property
    def event(self) -> Gaussian:
        """The event of the query that the run answers first."""
        return Gaussian(self.noise, Query.COVARIANCE)


class OnComponents(nn.Module):
    """Rows (n, ...) projected on components (count, columns): (n, count), float32, and finite if the rows are."""

    vectors: Tensor

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors.double())

    def forward(self, rows: Tensor) -> Tensor:
        most = torch.finfo(torch.float32).max
        return (rows.flatten(1).double() @ self.vectors.T).clamp(-most, most).float()


def project(rows: Tensor, vectors: Tensor) -> Tensor:
    """Rows (n, ...) projected on a run's components (count, columns): (n, count). Exact to the last bit, row by row."""
    return precompute(OnComponents(vectors), rows)


def on_components(split: Split, vectors: Tensor) -> Split:
    """The split with all its inputs projected."""
    return split.through(lambda rows: project(rows, vectors))
