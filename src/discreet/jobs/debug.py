"""The job of `discreet debug`: the debug ladder of a recipe, a table or a folder of images."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.data.tables import Encoder, refuse_bought
from discreet.jobs.source import Work
from discreet.jobs.tables.table_loss import loss_of
from discreet.recipes.ladder import Rung, climb


def ladder(work: Work, *, all_public: bool) -> Iterator[Rung]:
    """The rungs in order. Of a table, only public rows are read: those of `--test`, and the table itself with
    `all_public`."""
    if work.table is None:
        return climb(work.recipe, work.recipe.load_data(work.data), all_public=all_public)
    schema = work.recipe.table
    assert schema is not None
    refuse_bought(schema, "would be bought, and the debug ladder buys nothing")
    encoder = Encoder(schema)
    split = work.table.public_split(work.recipe, encoder, all_public=all_public)
    return climb(work.recipe, split, loss_of(encoder), all_public=all_public)
