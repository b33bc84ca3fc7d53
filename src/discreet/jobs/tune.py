"""The job of `discreet tune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from discreet.core.errors import InputError
from discreet.core.guarantee import Guarantee
from discreet.core.processes import refuse_several_processes
from discreet.data.tables import refuse_bought
from discreet.jobs.baseline import with_baseline
from discreet.jobs.command_line import CommandLine
from discreet.jobs.run_folders import run_folder
from discreet.jobs.source import Work
from discreet.jobs.tables.table_source import TableSource
from discreet.plan import PartsSearch, Plan, Search
from discreet.plan.tuning.random_stopping import law
from discreet.prediction import spec_of, spec_of_table
from discreet.publication.publishing import publish
from discreet.recipes import Recipe
from discreet.recipes.assemble import Ready, engine_of, on_device, public_of, ready_of
from discreet.recipes.sections.search import default_score, parse_grid, parts_search, search_plan, with_settings
from discreet.training import EarlyStopping, PublicData, RunOptions, Setup, Trained, Tuning
from discreet.training.run.opening import check_room

KINDS = ("random_stopping", "parts")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a search. `trials`: the mean number of runs; `law`: its law."""

    kind: str
    grid: Sequence[str]
    trials: float | None = None
    law: str | None = None
    score: str | None = None

    def over(self, recipe: Recipe) -> Search | PartsSearch:
        """The search over runs of this recipe, which takes all candidates."""
        return tried(self.search(lambda: default_score(recipe)), recipe)

    def search(self, default: Callable[[], str]) -> Search | PartsSearch:
        """The search, with the `default` score of runs if none is wanted."""
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
        score = self.score or default()
        grid = parse_grid(self.grid)
        return Search.make(grid, law(self.law or "geometric", self.trials, "--trials"), score=score)


def tried(search: Search | PartsSearch, recipe: Recipe) -> Search | PartsSearch:
    """The search; `InputError` for a candidate that the recipe does not take."""
    for candidate in search.candidates:
        with_settings(recipe, candidate)
    return search


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A recipe, the plan of a search over its runs, its data or table, the folder to publish to, and the device."""

    recipe: Recipe
    plan: Plan
    data: Path | None
    target: Path
    table: TableSource | None = None
    device: str = "cpu"

    @classmethod
    def new(cls, line: CommandLine, wanted: Wanted, device: str = "cpu") -> SearchJob:
        """A job from the options of the command line."""
        work = Work.of(line, queries=False)
        work.check_columns()
        target, recipe = work.target(line), work.recipe
        if recipe.table is not None:  # a run buys before its steps, but a search is charged as a whole
            why = "would be bought, and a search cannot do that"
            refuse_bought(recipe.table, why, ", or train without a search (discreet train)")
        search = wanted.over(recipe)
        return cls(recipe, search_plan(recipe, search), work.data, target, work.table, device)

    def run(self, *, ledger: str | None, dataset_id: str) -> tuple[Guarantee, Trained]:
        """Search, publish, and return the guarantee with the winning run."""
        refuse_several_processes(shared=False)  # this and the next before the data is read
        on_device(nn.Module(), self.device)
        check_room(ledger, dataset_id, lambda: self.plan)
        if self.table is not None:
            return self._run_on_table(self.table, ledger, dataset_id)
        split = self.recipe.load_data(self.data)
        trained = self.tuning(ready_of(self.recipe, split), ledger=ledger, dataset_id=dataset_id).run()
        trained = with_baseline(trained, split.test)
        return publish(trained, self.target, spec_of(self._best(trained), split)), trained

    def _run_on_table(self, table: TableSource, ledger: str | None, dataset_id: str) -> tuple[Guarantee, Trained]:
        assert self.recipe.table is not None
        by_name = isinstance(self.plan.search, PartsSearch)
        with table.opened(self.recipe, self.recipe.table, self._folder, by_name=by_name) as ready:
            trained, seen = ready.judged(self.tuning(ready, ledger=ledger, dataset_id=dataset_id).run())
            spec = spec_of_table(self._best(trained), ready.encoder, public_rows=seen)
            return publish(trained, self.target, spec), trained

    def _best(self, trained: Trained) -> Recipe:
        return with_settings(self.recipe, trained.winner or {})

    @property
    def _folder(self) -> Path:
        return run_folder(self.target)

    def tuning(self, ready: Ready, *, ledger: str | None, dataset_id: str) -> Tuning:
        """The checked search over prepared parts; nothing is charged yet."""
        recipe = self.recipe

        def build(settings: Mapping[str, Any]) -> Setup:
            candidate = with_settings(recipe, settings)
            model = on_device(candidate.build_model(), self.device)
            optimizer = candidate.build_optimizer(model)
            return Setup(model, ready.criterion, optimizer, candidate.build_scheduler(optimizer), candidate.averaging)

        beside = public_of(recipe, ready, self.plan, on_device(recipe.build_model(), self.device))
        return Tuning(
            self.plan,
            build,
            ready.data,
            units=ready.units,
            ids=ready.ids if self.plan.holdout is not None or isinstance(self.plan.search, PartsSearch) else None,
            public=PublicData(ready.test, ready.validation, beside),
            run=RunOptions(self._folder, ledger=ledger, dataset_id=dataset_id),
            engine=engine_of(recipe),
            early=None if recipe.patience is None else EarlyStopping(recipe.watch, recipe.patience),
            evaluate_every=recipe.evaluate_every,
        )
