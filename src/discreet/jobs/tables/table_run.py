"""The parts of a run on a table beside its recipe, and what its model is worth on public rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from discreet.certificate.described import OnPublicRows
from discreet.clipping import evaluation_mode
from discreet.core.array_types import Array
from discreet.data.tables import Encoder, PublicTable
from discreet.jobs.evaluation.on_public_rows import on_public_rows
from discreet.jobs.evaluation.public_metrics import metrics_of
from discreet.recipes.assemble import Ready
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
        known = dict(trained.last_metrics)
        for name in ("rmse", "validation_rmse"):
            known.pop(name, None)  # of encoded numbers, beside which those of the target's unit would stand
        last = Evaluation(
            trained.evaluations[-1].step if trained.evaluations else trained.charged_steps, {**known, **found}
        )
        seen = on_public_rows(
            self.encoder,
            lambda rows: self.encoder.decode(outputs_of(torch.from_numpy(rows))),
            inputs,
            targets,
            public.clipped[first:],
        )
        return replace(trained, evaluations=(*trained.evaluations[:-1], last)), seen
