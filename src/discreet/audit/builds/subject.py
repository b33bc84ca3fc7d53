"""What is audited: a training that can be made again, on made-up rows, from copies of all that it was made of."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from discreet.audit.builds.made_up import MadeUp, Maker
from discreet.audit.builds.watched_rows import watched
from discreet.clipping import Criterion, Findings
from discreet.clipping.geometry import Geometry
from discreet.clipping.separation import KnownResults
from discreet.clipping.separation.copies import copied
from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.data import Augmented, PrivateData, Sites, as_private
from discreet.data.private.augmented import Transform
from discreet.methods import NoiseAware
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import Stream
from discreet.training import EngineOptions, PublicBatches, PublicData, RunOptions, Training
from discreet.training.preflight.engine_check import CHECKED, Preflight
from discreet.training.preflight.model_check import TRIED_MODELS

Pipeline = Callable[[MadeUp], object]
"""What a user's own code makes of raw rows, for `Training`."""

_MOST_SITES = 3
"""The sites of an audit, at most: what a site draws depends on its number alone, and made-up rows are few."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A plan, a model, a loss and an optimizer, with what else a training takes.

    `maker` makes rows of the shape of the private ones. `transform`, `views`: as in `Augmented`. `beside`: public rows
    that join every step. `pipeline`: as it is by default. `lanes`: those of a run that several processes may take; one
    process takes all of them here. `sites`: those at which made-up units lie, each with a lane of its own. `checked`,
    `tried`: remembered results of the checks on random rows, used again while nothing that they depend on has changed.
    """

    plan: Plan | AdaptivePlan
    model: nn.Module
    criterion: Criterion
    optimizer: torch.optim.Optimizer
    maker: Maker
    engine: EngineOptions
    geometry: Geometry | None = None
    transform: Transform | None = None
    views: int = 1
    beside: PublicBatches | None = None
    pipeline: Pipeline | None = None
    lanes: int | None = None
    sites: int | None = None
    checked: KnownResults[Preflight] = field(default_factory=KnownResults)
    tried: KnownResults[Findings] = field(default_factory=KnownResults)

    @classmethod
    def of(cls, training: Training, pipeline: Pipeline | None = None) -> Subject:
        """From a training that is set up; it is neither run nor charged. Of its first row the shape is looked at."""
        given = training.made_of
        if training.team.ranks.size > 1:
            raise InputError("an audit takes one process; start it without torchrun, with the lanes of the run")
        model, criterion = copied(training.copy.model, training.copy.criterion, own=True)
        live, twin = dict(given.model.named_parameters()), dict(model.named_parameters())
        memo: dict[int, Any] = {id(one): twin[name] for name, one in live.items()}
        optimizer, geometry = copy.deepcopy((stand_in(given.optimizer), given.geometry), memo)
        data, sites = as_private(given.data), training.team.sites
        example = data.first()
        maker = Maker.like(example, model, given.plan.rows_per_unit, users=given.plan.unit is Unit.USER)
        maker = maker if data.transform is None else replace(maker, model=None)
        return cls(
            plan=given.plan,
            model=model,
            criterion=criterion,
            optimizer=optimizer,
            maker=maker,
            engine=given.engine,
            geometry=geometry,
            transform=data.transform,
            views=data.views,
            beside=given.public.beside,
            pipeline=pipeline,
            lanes=None if sites is not None else training.team.lane_count,
            sites=None if sites is None else min(sites, _MOST_SITES),
        )

    @property
    def sizes(self) -> dict[str, int]:
        """The number of entries of each trained parameter, in the order of the model."""
        return {name: one.numel() for name, one in self.model.named_parameters() if one.requires_grad}

    @property
    def numbers(self) -> int:
        """The number of entries that are trained."""
        return sum(self.sizes.values())

    @property
    def spans(self) -> dict[str, slice]:
        """Where each trained parameter is among all numbers, by name."""
        found, start = {}, 0
        for name, size in self.sizes.items():
            found[name] = slice(start, start + size)
            start += size
        return found

    @property
    def classes(self) -> int | None:
        """The number of labels; None where targets are numbers."""
        return None if self.maker.example[1].is_floating_point() else self.maker.classes

    @property
    def draws(self) -> bool:
        """Whether the model or the transform draws random numbers, so that a row's depend on the rows of its chunk."""
        if self.transform is not None:
            return True
        model, inputs = copied(self.model, self.criterion, own=True)[0].train(), self.maker.rows(4, 0)[0]
        device = next(model.parameters()).device
        with torch.no_grad(), torch.random.fork_rng():
            return not torch.equal(model(inputs.to(device)), model(inputs.to(device)))

    @contextmanager
    def checks_once(self) -> Iterator[None]:
        """Inside, the checks of a training on random rows are taken once for all that have the same parts."""
        with CHECKED.in_(self.checked), TRIED_MODELS.in_(self.tried):
            yield

    @contextmanager
    def training(
        self, plan: Plan, rows: MadeUp, *, stream: Stream | None = None, chunk: int | None = None, watch: bool = True
    ) -> Iterator[Training]:
        """A new training of copies of all parts on made-up rows, in a folder that is gone at the end.

        `chunk`: rows at a time. `watch`: note which rows are read; a front end is then not computed beforehand.
        """
        parts = copy.deepcopy((self.model, self.criterion, self.optimizer, self.geometry))
        model, criterion, optimizer, geometry = parts
        engine = self.engine if chunk is None else replace(self.engine, physical_batch=chunk)
        beside = None if plan.sampling.strategy != (1,) else self.beside
        data, units = self._data(rows, watch=watch)
        with tempfile.TemporaryDirectory(dir=memory()) as folder:
            with self.checks_once():
                made = Training(
                    plan,
                    model,
                    criterion,
                    optimizer,
                    data,
                    units=units,
                    public=PublicData(beside=beside),
                    run=RunOptions(Path(folder) / "run", stream=stream, lanes=self.lanes),
                    shard=None if self.lanes is None and self.sites is None else "replicate",
                    engine=engine,
                    geometry=geometry,
                )
            yield made

    def _data(self, rows: MadeUp, *, watch: bool) -> tuple[object, object]:
        """The rows as a training takes them, and whose each is."""
        made = as_private((rows.inputs, rows.targets) if self.pipeline is None else self.pipeline(rows))
        users = None if rows.users is None else list(rows.users)
        if self.sites is not None:
            return self._at_sites(made, rows, min(self.sites, rows.units), watch=watch)
        if watch:
            made = PrivateData(watched(made.dataset), transform=made.transform, views=made.views)
        if made.transform is not None or self.transform is None:
            return made, users
        return as_private(Augmented(made.dataset, self.transform, self.views)), users

    def _at_sites(self, made: PrivateData, rows: MadeUp, count: int, *, watch: bool) -> tuple[object, object]:
        """The same with units at so many sites in turn, so that one more is the last at its own."""
        if made.rows != len(rows.inputs):
            raise InputError(f"a pipeline makes {made.rows} rows of {len(rows.inputs)}")
        at = rows.owners() % count
        numbers = {site: np.flatnonzero(at == site) for site in range(count)}
        parts = {site: made.only(some).dataset for site, some in numbers.items()}
        if watch:
            parts = {site: watched(part, numbers[site]) for site, part in parts.items()}
        data: object = Sites(parts, count)
        transform, views = (made.transform, made.views) if made.transform is not None else (self.transform, self.views)
        if transform is not None:
            data = Augmented(data, transform, views)
        whose = rows.users
        return data, None if whose is None else {site: [whose[i] for i in some] for site, some in numbers.items()}


def stand_in(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer; or a plain one for one that works with the noise of its own plan, as small plans have other noise
    in a mean. What an optimizer makes of releases is post-processing."""
    if not isinstance(optimizer, NoiseAware):
        return optimizer
    return torch.optim.SGD([one for group in optimizer.param_groups for one in group["params"]], lr=0.01)


def memory() -> str | None:
    """A folder in memory, as ledgers wait for the disk at every charge, and nothing here is worth keeping."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
