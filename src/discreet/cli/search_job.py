"""What `discreet tune` was asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.data import Split
from discreet.plan import PartsSearch, Plan, Search
from discreet.prediction import spec_of
from discreet.publication.folder import check_target, publish
from discreet.recipes import Recipe, load_recipe
from discreet.recipes.assemble import criterion_for, engine_of
from discreet.recipes.searched import default_score, parse_grid, parts_search, search_plan, with_settings
from discreet.training import EarlyStopping, Setup, Trained, Tuning

KINDS = ("random_stopping", "parts")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for and how, as the options say it; `trials` is the mean number of runs, `law` its law."""

    kind: str
    grid: Sequence[str]
    trials: float | None = None
    law: str | None = None
    score: str | None = None

    def over(self, recipe: Recipe) -> Search | PartsSearch:
        """The search over runs of this recipe."""
        if self.kind not in KINDS:
            raise InputError(f"unknown kind of search {self.kind!r}; known: {', '.join(KINDS)}")
        if self.kind == "parts":
            if self.trials is not None or self.law is not None:
                raise InputError(
                    "a search over parts of the data makes one run for each candidate; leave out --trials and --law"
                )
            return parts_search(parse_grid(self.grid), self.score)
        if self.trials is None:
            raise InputError("give --trials, how many runs to make on average; or --kind parts, one for each candidate")
        score = self.score or default_score(recipe)
        return Search.make(parse_grid(self.grid), self.trials, score=score, law_of_trials=self.law or "geometric")


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A recipe, the plan of a search over its runs, its data, and the folder to publish to."""

    recipe: Recipe
    plan: Plan
    data: Path | None
    target: Path

    @classmethod
    def new(
        cls,
        name: str,
        paths: tuple[Path | None, Path | None],
        settings: Sequence[str],
        overrides: Mapping[str, object],
        wanted: Wanted,
    ) -> SearchJob:
        """A job from the options of the command line; `paths`: of the data, and to publish to."""
        recipe, (data, out) = load_recipe(name, settings, overrides), paths
        target = out or Path(f"{Path(name).stem}-private")
        check_target(target)
        search = wanted.over(recipe)
        for candidate in search.candidates:
            with_settings(recipe, candidate)
        return cls(recipe, search_plan(recipe, search), data, target)

    def run(self, *, ledger: str | None, dataset_id: str) -> tuple[Guarantee, Trained]:
        """Search, publish, and return the guarantee with the winning run."""
        split = self.recipe.load_data(self.data)
        trained = self.tuning(split, ledger=ledger, dataset_id=dataset_id).run()
        best = with_settings(self.recipe, trained.winner or {})
        return publish(trained, self.target, spec_of(best, split)), trained

    def tuning(self, split: Split, *, ledger: str | None, dataset_id: str) -> Tuning:
        """The search over the data of the recipe, checked; nothing is charged."""
        recipe = self.recipe
        criterion = criterion_for(split.train[1].is_floating_point(), split.values)

        def build(settings: Mapping[str, Any]) -> Setup:
            candidate = with_settings(recipe, settings)
            model = candidate.build_model()
            optimizer = candidate.build_optimizer(model)
            return Setup(model, criterion, optimizer, candidate.build_scheduler(optimizer), candidate.averaging)

        return Tuning(
            self.plan,
            build,
            recipe.augmented(split.train),
            units=split.units,
            ids=split.ids if recipe.unit is Unit.EXAMPLE else None,
            public_test=split.test,
            public_validation=split.validation,
            run_dir=self.target.with_name(self.target.name + ".run"),
            ledger=ledger,
            dataset_id=dataset_id,
            engine=engine_of(recipe),
            noise=recipe.noise,
            early=None if recipe.patience is None else EarlyStopping(recipe.watch, recipe.patience),
            evaluate_every=recipe.evaluate_every,
        )
