"""`Recipe`: everything `discreet train` needs, validated field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field, ValidationInfo, field_validator, model_validator
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.accounting import schedules
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.data import AUGMENTATIONS, Augmented, Split
from discreet.data.tables import Schema, events_bought
from discreet.methods import Averaging, ReleasedScales
from discreet.plan import (
    AdaptivePlan,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
    Sampling,
    ShuffleSampling,
)
from discreet.plan.clipping import AnyClipping, Clipping
from discreet.plan.plan import Delta
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive, Rate
from discreet.recipes.models.models import MODELS
from discreet.recipes.named import OPTIMIZERS, SCHEDULERS, Named, one_of
from discreet.recipes.sections.adaptive import Adaptive
from discreet.recipes.sections.bands import Bands, in_turns
from discreet.recipes.sections.center import RecipeCenter, check_first
from discreet.recipes.sections.components import RecipeComponents
from discreet.recipes.sections.data import Source
from discreet.recipes.sections.fixed_features import Features, build_front_end, named, with_features
from discreet.recipes.sections.geometry import RecipeGeometry, refuse_without_scales
from discreet.recipes.sections.private_metrics import RecipeMetric, Share, priced
from discreet.recipes.sections.public import RecipePublic, parted


class Recipe(Frozen):
    """A training run in one file. `data` is a data set by name, or with arguments: `{name: cancer, split: 3}`.

    `population`, `rate` (of Poisson sampling) or `sampling` (any other kind), `steps`, `clip_norm`, `adjacency`,
    `unit` and `rows_per_unit` describe the plan; its noise is calibrated to (`epsilon`, `delta`). Under add/remove
    none of them is read off the data. Instead of `clip_norm`, `clip_schedule` (like `schedule`) is the norm over time,
    and `clipping` any other way to clip: `{per_layer: 0.5}`, or `kind: adaptive` with its settings. `geometry` names a
    method that shapes the noise, with its settings: `{name: adadp, kind: box}`; it goes with `clip_norm`.

    `bands` correlates the noise of so many steps with Poisson batches of this `rate`, so that it partly cancels; `auto`
    takes the number whose noise in sums of gradients is least.

    `schedule` (`exponential:initial=10,rate=0.01`) is the noise over time: its shape, scaled to `epsilon`, or all of it
    if there is no epsilon. `batches` is the expected batch over time: a schedule as well
    (`linear:initial=60,end=600,period=10`), or a list of [batch, steps]; then `rate` is left out. `adaptive` leaves the
    noise to a policy, within `epsilon` and at most `steps`. `scheduler` changes the learning rate after every step, as
    torch does.

    `validation` is the share of the public test rows that policies and `patience` look at; metrics of the test are on
    the others. Data may bring rows for it instead: `{name: mnist, public: 5000}`. `patience` stops after so many
    evaluations without a better validation accuracy, and keeps the best; `watch` names another metric for it. `metrics`
    are bought on private rows; `holdout` (10%) is the share of all rows that is never trained on, for metrics with
    `rows: holdout`. Their noise may be left out: then they are as exact as they can be without a higher epsilon.
    `odometer` is read at the end, ex post; `stop_at` ends the run before it would read more.

    `augment` changes inputs at random at every step (`{name: shift, pixels: 2}`), each in as many `views`, whose mean
    gradient is clipped.

    `features` are fixed front ends (`scattering`, or a list of names with arguments and shares); the model is what
    stands behind them, and their features are computed once. Bought before the first step, and covered by the plan, are
    `components` (`{count: 60, noise: 16}`), on which rows are projected, and of a table's features the `center`
    (`{noise: 20}`), which is subtracted. `averaging` (`start`, `decay`) publishes the average of iterates. `public`
    (`{share: 20%, weight: 0.3}`) joins the exact gradient of rows declared public to every step. `engine`, `autocast`
    and `fixed_rows` are those of `discreet.EngineOptions`. `block`: steps charged at a time. `keep_spent`: what units
    with budgets of their own (`sampling: {kind: individual, period: 200, full: 50}`) have spent is kept in a file.
    """

    data: Source
    table: Schema | None = None
    features: tuple[Features, ...] = ()
    components: RecipeComponents | None = None
    center: RecipeCenter | None = None
    model: Annotated[Named, one_of(MODELS)]
    optimizer: Annotated[Named, one_of(OPTIMIZERS)]
    scheduler: Annotated[Named, one_of(SCHEDULERS)] | None = None
    population: Positive
    rate: Rate | None = None
    bands: Bands | None = None
    sampling: Sampling | None = None
    steps: Annotated[int, Field(ge=1, le=10**7)]
    clip_norm: Positive | None = None
    clip_schedule: str | None = None
    clipping: Clipping | None = None
    geometry: RecipeGeometry | None = None
    epsilon: Positive | None = None
    delta: Delta
    schedule: str | None = None
    batches: str | tuple[tuple[float, int], ...] | None = None
    adaptive: Adaptive | None = None
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    odometer: Literal["renyi", "doubling"] | None = None
    stop_at: Positive | None = None
    patience: Count | None = None
    watch: str = "validation_accuracy"
    metrics: tuple[RecipeMetric, ...] = ()
    holdout: Share | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE
    rows_per_unit: Count = 1
    engine: str = "auto"
    autocast: Literal["bfloat16"] | None = None
    fixed_rows: bool = False
    noise: str = "fast"
    augment: Annotated[Named, one_of(AUGMENTATIONS)] | None = None
    views: Count = 1
    evaluate_every: Annotated[int | None, Field(ge=1)] = None
    averaging: Averaging | None = None
    public: RecipePublic | None = None
    block: Count | None = None
    keep_spent: bool = False

    @field_validator("features", mode="before")
    @classmethod
    def _known_features(cls, value: object) -> object:
        return named(value)

    @field_validator("public")
    @classmethod
    def _rows_of_its_own(cls, value: RecipePublic | None, info: ValidationInfo) -> RecipePublic | None:
        if value is not None:
            value.check(of_table=info.data.get("table") is not None)
        return value

    @model_validator(mode="after")
    def _one_way_to_draw(self) -> Recipe:
        if [self.rate, self.sampling, self.batches].count(None) != 2:
            raise ValueError("give one of rate (for Poisson sampling), sampling, or batches")
        if self.bands is not None and (self.rate is None or self.adaptive is not None):
            raise ValueError("bands goes with rate, for Poisson batches, in a plan that is fixed beforehand")
        if self.batches is not None and self.adaptive is not None:
            raise ValueError("batches that are fixed beforehand go with schedule; in an adaptive run a policy decides")
        if sum(way is not None for way in (self.clip_norm, self.clip_schedule, self.clipping)) != 1:
            raise ValueError("give one of clip_norm, clip_schedule and clipping")
        refuse_without_scales(self.clipping)
        if self.geometry is not None and self.clip_norm is None:
            raise ValueError("geometry goes with clip_norm, which stays what it is")
        if self.epsilon is None and (self.schedule is None or self.adaptive is not None):
            raise ValueError("give epsilon (only a schedule does without)")
        watched = self.watch in {metric.name for metric in self.bought}
        if self.patience is not None and not (self.validation or watched):
            raise ValueError("patience needs validation, the share of the public test rows that it looks at")
        check_first(self._bought_first, self.table, self.model)
        if self.table is not None and self._sampling.SIZE_IS_PUBLIC and self.table.drops:
            raise ValueError(
                f"with this sampling the number of rows is public, but some are dropped by {self.table.drops[0]!r}, so "
                "that it depends on them; treat them otherwise, or use rate, for Poisson sampling"
            )
        if self.views > 1 and self.augment is None:
            raise ValueError("views needs augment: equal views count once")
        if self.scheduler is not None and self.optimizer.name == "sgld":
            raise ValueError("sgld has no learning rate for a scheduler: its step sizes follow from the noise")
        if self.schedule is not None and self.adaptive is not None:
            raise ValueError("give either schedule (fixed beforehand) or adaptive (chosen on the way)")
        return self

    @model_validator(mode="after")
    def _optimizer_can_be_built(self) -> Recipe:
        """Its arguments are tried on one number, so that a wrong one is refused before data is read."""
        try:
            self.build_scheduler(self.optimizer.build(OPTIMIZERS, [nn.Parameter(torch.zeros(1))]))
        except InputError as error:
            raise ValueError(str(error).removeprefix("recipe: ")) from None
        return self

    def plan(self) -> Plan | AdaptivePlan:
        """The plan, its noise calibrated to the budget; an adaptive one has a filter for it."""
        return self.fixed_plan() if self.adaptive is None else self._adaptive_plan(self.adaptive)

    def fixed_plan(self, *, sizes: bool = True) -> Plan:
        """The plan of a recipe without a policy. `sizes`: see `priced`."""
        plan = Plan.make(
            self._sampling,
            population=self.population,
            steps=self.steps,
            clip_norm=self._clip_norm,
            clipping=self._clipping,
            delta=self.delta,
            adjacency=self.adjacency,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            noise_multiplier=1.0 if self.schedule is None else schedules.parse(self.schedule),
            batches=schedules.parse(self.batches) if isinstance(self.batches, str) else self.batches,
            metrics=self._priced(self.epsilon, sizes=sizes),
            before=self._before,
            holdout=self.holdout,
            odometer=self.odometer,
            stop_at=self.stop_at,
            block=self.block,
        )
        return plan if self.epsilon is None else plan.calibrate(self.epsilon)

    @property
    def bought(self) -> tuple[RecipeMetric, ...]:
        """The private metrics; where rows are held out and none is named, the accuracy of the final model on them."""
        return self.metrics or (() if self.holdout is None else (RecipeMetric(rows="holdout"),))

    def _priced(self, epsilon: float | None, *, sizes: bool = True) -> tuple[Metric, ...]:
        return priced(
            self.bought,
            steps=self.steps,
            epsilon=epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            sizes=sizes,
            before=self._before,
        )

    @property
    def _before(self) -> tuple[Event, ...]:
        bought = {} if self.table is None else events_bought(self.table, self.delta)
        return (*(event for events in bought.values() for event in events), *(one.event for one in self._bought_first))

    @property
    def _bought_first(self) -> tuple[RecipeComponents | RecipeCenter, ...]:
        return tuple(one for one in (self.components, self.center) if one is not None)

    @property
    def _sampling(self) -> Sampling:
        if self.bands is not None and self.rate is not None:
            return in_turns(self.bands, self.rate, self.steps, self.epsilon, self.delta, self.adjacency)
        return self.sampling or PoissonSampling(rate=self.rate or 1.0)  # `batches` sets the rates

    @property
    def _clipping(self) -> AnyClipping | Mapping[str, object] | None:
        if self.geometry is None or self.clip_norm is None:
            return self.clipping
        return self.geometry.clipping(self.clip_norm)

    @property
    def _clip_norm(self) -> float | schedules.Schedule | None:
        if self.geometry is not None:
            return None
        return self.clip_norm if self.clip_schedule is None else schedules.parse(self.clip_schedule)

    def _adaptive_plan(self, chosen: Adaptive) -> AdaptivePlan:
        sampling = self._sampling
        if not isinstance(sampling, PoissonSampling | ShuffleSampling | NoSampling):
            raise InputError(f"recipe: {sampling.kind} sampling has no filter; use poisson, shuffle or none")
        if (self.unit, self.rows_per_unit) != (Unit.EXAMPLE, 1):
            raise InputError("recipe: a run that is chosen on the way protects single rows; use a schedule for users")
        assert self.epsilon is not None
        return AdaptivePlan.make(
            sampling,
            epsilon=self.epsilon,
            delta=self.delta,
            population=self.population,
            clip_norm=self._clip_norm,
            clipping=self._clipping,
            policy=chosen.policy,
            noise_multiplier=chosen.noise_multiplier,
            most_steps=self.steps,
            course=chosen.expected(sampling, self.population),
            filter_kind=chosen.filter,
            adjacency=self.adjacency,
            counts=chosen.counts,
            every=chosen.every,
            metrics=self._priced(None),
            before=self._before,
            holdout=self.holdout,
            odometer=self.odometer,
            stop_at=self.stop_at,
            **({} if self.block is None else {"block": self.block}),
        )

    def load_data(self, path: Path | None) -> Split:
        """The data set, from `path` if it needs one, with fixed features computed if the recipe has any."""
        split = self.data.load(path, self.unit)
        if self.features:
            split = with_features(split, build_front_end(self.features, split.train[0].shape[1:]))
        return parted(split, self.public, self.validation)

    def augmented(self, data: object) -> object:
        """The private data with the recipe's augmentation."""
        return data if self.augment is None else Augmented(data, self.augment.build(AUGMENTATIONS), self.views)

    def build_model(self) -> nn.Module:
        """A new model with its public initial weights."""
        built: nn.Module = self.described_model.build(MODELS)
        return built

    @property
    def described_model(self) -> Named:
        """The model's name with its arguments."""
        return self.model if self.center is None else self.model.model_copy(update={"centered": True})

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer over the model's trained parameters."""
        trained = [one for one in model.parameters() if one.requires_grad]
        optimizer: torch.optim.Optimizer = self.optimizer.build(OPTIMIZERS, trained)
        return optimizer

    def build_geometry(self, model: nn.Module) -> ReleasedScales | None:
        """The source of the scales that shape the noise, if any."""
        if self.geometry is None or self.clip_norm is None:
            return None
        return self.geometry.over(model, self.clip_norm)

    def build_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
        """The scheduler of the learning rate, if any."""
        if self.scheduler is None:
            return None
        scheduler: LRScheduler = self.scheduler.build(SCHEDULERS, optimizer)
        return scheduler
