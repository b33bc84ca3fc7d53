"""What `discreet tune` was asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from discreet.cli.ready import criterion_for
from discreet.core.adjacency import Unit
from discreet.core.guarantee import Guarantee
from discreet.plan import Plan, Search
from discreet.publication.folder import check_target, publish
from discreet.recipes import Recipe, load_recipe
from discreet.recipes.searched import default_score, parse_grid, search_plan, with_settings
from discreet.training import EarlyStopping, EngineOptions, Setup, Trained, Tuning

Wanted = tuple[Sequence[str], float, str, str | None]
"""Settings to try, the mean number of trials, its law and the score."""


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
        grid, trials, law, score = wanted
        recipe, (data, out) = load_recipe(name, settings, overrides), paths
        target = out or Path(f"{Path(name).stem}-private")
        check_target(target)
        values = parse_grid(grid)
        search = Search.make(values, trials, score=score or default_score(recipe), law_of_trials=law)
        for candidate in search.candidates:
            with_settings(recipe, candidate)
        return cls(recipe, search_plan(recipe, search), data, target)

    def run(self, *, ledger: str | None, dataset_id: str) -> tuple[Guarantee, Trained]:
        """Search, publish, and return the guarantee with the best run."""
        recipe, split = self.recipe, self.recipe.load_data(self.data)
        criterion = criterion_for(split.train[1].is_floating_point())

        def build(settings: Mapping[str, Any]) -> Setup:
            candidate = with_settings(recipe, settings)
            model = candidate.build_model()
            optimizer = candidate.build_optimizer(model)
            return Setup(model, criterion, optimizer, candidate.build_scheduler(optimizer), candidate.averaging)

        autocast = None if recipe.autocast is None else torch.bfloat16
        tuning = Tuning(
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
            engine=EngineOptions(recipe.engine, autocast=autocast, fixed_rows=recipe.fixed_rows),
            noise=recipe.noise,
            early=None if recipe.patience is None else EarlyStopping(recipe.watch, recipe.patience),
            evaluate_every=recipe.evaluate_every,
        )
        trained = tuning.run()
        return publish(trained, self.target), trained
