"""The section of a center: `center: {noise: 20}`, the mean of the features of a table's rows, bought before the first
step."""

from __future__ import annotations

from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.data.tables import Schema, columns_bought
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Positive


class RecipeCenter(Frozen):
    """The noise multiplier of the sum of features, of which each row has norm 1. The model sees features less their
    mean."""

    noise: Positive

    @property
    def event(self) -> Gaussian:
        """The event of the query that the run answers first."""
        return Gaussian(self.noise, Query.CLIPPED_SUM)

    def check(self, table: Schema | None, model: str) -> None:
        """`ValueError` for a recipe that has no such features before its first query."""
        if table is None or model != "tabular":
            raise ValueError("center is of tables, with the model tabular; leave it out")
        if columns_bought(table):
            raise ValueError("center needs all ranges and categories declared, and some are bought; leave it out")
