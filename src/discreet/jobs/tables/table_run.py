"""The parts of a run on a table beside its recipe: private rows, public rows, a loss, and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from discreet.certificate.described import OnPublicRows
from discreet.clipping import evaluation_mode
from discreet.core.adjacency import Unit
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data import Sites
from discreet.data.sets.splits import cut
from discreet.data.tables import Encoder, PublicTable, Schema, metrics_of, named, private_table
from discreet.jobs.on_public_rows import on_public_rows
from discreet.jobs.tables.table_loss import loss_of
from discreet.recipes import Recipe
from discreet.recipes.assemble import Ready
from discreet.recipes.sections.fixed_features import seen_as
from discreet.training import Trained
from discreet.training.run.trained import Evaluation

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class TableReady(Ready):
    """The parts of a run on a table. `encoder`: encodes new rows. `shown`: the public rows of `validation` and `test`,
    in this order."""

    encoder: Encoder = field(kw_only=True)
    shown: PublicTable | None = field(kw_only=True)

    def judged(self, trained: Trained) -> tuple[Trained, OnPublicRows | None]:
        """`trained` with all metrics of the final model on the test rows, by subgroup too; and its curves."""
        public, first = self.shown, 0 if self.validation is None else len(self.validation[1])
        if public is None:
            return trained, None
        inputs, targets = public.inputs[first:], public.targets[first:].numpy()

        def outputs_of(rows: Tensor) -> Array:
            device = next(trained.model.parameters()).device
            with torch.no_grad(), evaluation_mode(trained.model):
                parts = [trained.model(part.to(device)).cpu() for part in torch.split(rows, _AT_ONCE)]
            return torch.cat(parts).double().numpy()

        groups = {name: rows[first:] for name, rows in public.groups.items()}
        found: Mapping[str, Any] = metrics_of(self.encoder, outputs_of(inputs), targets, groups, public.clipped[first:])
        known = dict(trained.evaluations[-1].metrics) if trained.evaluations else {}
        for name in ("rmse", "validation_rmse"):
            known.pop(name, None)  # of encoded numbers, beside which those of the target's unit would stand
        last = Evaluation(
            trained.evaluations[-1].step if trained.evaluations else trained.charged_steps, {**known, **found}
        )
        seen = on_public_rows(
            self.encoder, lambda rows: self.encoder.decode(outputs_of(torch.from_numpy(rows))), inputs, targets
        )
        return replace(trained, evaluations=(*trained.evaluations[:-1], last)), seen


@contextmanager
def of_table(
    recipe: Recipe,
    tables: tuple[Mapping[int, Path], int | None],
    encoder: Encoder,
    public_tables: tuple[PublicTable | None, PublicTable | None],
    folder: Path,
    *,
    by_name: bool = False,
) -> Iterator[TableReady]:
    """A private table, encoded to a file in `folder` that is gone at the end.

    `tables`: its path; or those of the sites that this process holds, by their numbers, and how many sites there are.
    `public_tables`: one to test on, and one whose rows join every step. `by_name`: people are identified by name, which
    is needed where names decide the part of the data that a row is in.
    """
    public, joined = public_tables
    if public is not None and recipe.validation:
        public = public.mixed()
    test, validation = cut(None if public is None else (public.inputs, public.targets), recipe.validation)
    paths, sites = tables
    by_name = by_name or recipe.holdout is not None
    if by_name:
        _refuse_numbers_that_move(recipe, encoder.schema)
    by_name = by_name or sites is not None  # numbers of two tables mean other people
    with ExitStack() as kept:
        seen = seen_as(recipe.features, encoder.shape)
        held = {
            site: kept.enter_context(private_table(path, encoder, folder, seen, whole=sites is None))
            for site, path in paths.items()
        }
        units = {site: table.owners(by_name=by_name) for site, table in held.items()}
        ids = {site: named(table.ids) for site, table in held.items()}
        yield TableReady(
            held[0].rows if sites is None else Sites({site: table.rows for site, table in held.items()}, of=sites),
            loss_of(encoder),
            test,
            validation,
            _of_rows(units, sites) if recipe.unit is Unit.USER else None,
            _of_rows(ids, sites) if recipe.unit is Unit.EXAMPLE else None,
            None if joined is None else (joined.inputs, joined.targets),
            encoder=encoder,
            shown=public,
        )


def _refuse_numbers_that_move(recipe: Recipe, schema: Schema) -> None:
    """Refuse rows without names, some of which may be dropped, where names decide the part of the data that a row is
    in: a dropped row changes the numbers of all later ones."""
    if recipe.unit is Unit.EXAMPLE and schema.row_id is None and schema.drops:
        raise InputError(
            f"the part of the data that a row is in would follow from its number, which changes if {schema.drops[0]!r} "
            "drops a row above; say which column names the rows (row_id in the schema), or treat such values otherwise"
        )


def _of_rows(found: Mapping[int, object], sites: int | None) -> object:
    """Identifiers as `Training` takes them: of one table, or by the number of each site; None where rows have none."""
    if sites is None:
        return found[0]
    return None if all(one is None for one in found.values()) else found
