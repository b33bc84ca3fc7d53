"""The job of `discreet audit build`: what is audited, of a recipe, a table, or a Python file that makes a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from discreet.audit.builds.factory import subject_from
from discreet.audit.builds.made_up import Maker
from discreet.audit.builds.small_plans import adding_one, small
from discreet.audit.builds.subject import Subject, stand_in
from discreet.clipping import Criterion
from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.jobs.audits.own_file import own_function
from discreet.jobs.random_example import Example, example_of
from discreet.jobs.tune import KINDS, Wanted, tried
from discreet.plan import PartsSearch, Search
from discreet.recipes import Recipe
from discreet.recipes.assemble import criterion_for, engine_of
from discreet.training import Training

_MAKES = "training"
"""The function of a Python file that makes the training."""

_ROWS, _STEPS = 24, 12


def subject_of_recipe(recipe: Recipe, data: Path | None) -> Subject:
    """The training of a recipe on made-up rows, set up under a small plan of its kind. Of private data at most the
    shape of a row is read, if the recipe does not tell it."""
    example, criterion = _example(recipe, data)
    plan, model = recipe.plan(), recipe.build_model()
    maker = Maker.like(example, model, plan.rows_per_unit, users=plan.unit is Unit.USER)
    rows = maker.units(_ROWS)
    few = small(plan, adding_one(plan, _ROWS, 0.5), _ROWS, _STEPS)
    beside = None if recipe.public is None else recipe.public.batches(maker.rows(_ROWS, 7), plan, model)
    with TemporaryDirectory() as folder:
        made = Training(
            few,
            model,
            criterion,
            stand_in(recipe.build_optimizer(model)),
            recipe.augmented((rows.inputs, rows.targets)),
            units=None if rows.users is None else list(rows.users),
            public=beside,
            run=Path(folder) / "run",
            engine=engine_of(recipe),
            geometry=recipe.build_geometry(model),
        )
    return replace(Subject.of(made), plan=plan)


def search_of(
    kind: str, grid: Sequence[str] | None, trials: float | None, law: str | None, recipe: Recipe | None
) -> Search | PartsSearch | None:
    """The search that the command line asks for; None without a grid. Its score does not matter to an audit. `recipe`:
    takes its candidates, or refuses them; None of a Python file, which knows its settings alone."""
    if not grid:
        if trials is not None or law is not None or kind != KINDS[0]:
            raise InputError("--kind, --trials and --law are of a search; give its --grid, as in discreet tune")
        return None
    search = Wanted(kind, grid, trials, law).search(lambda: "validation_accuracy")
    return search if recipe is None else tried(search, recipe)


def is_module(name: str) -> bool:
    """Whether a name is that of a Python file, with a function of it after a colon or without."""
    return name.partition(":")[0].endswith(".py")


def subject_of_module(name: str) -> Subject:
    """The training that a Python file makes, by its function `training` or the one named after a colon.

    If the function has a parameter `data`, it is called again with made-up rows as a pair of tensors (and, where users
    are protected, `units`), so that its own code for data is audited too.
    """
    file, _, function = name.partition(":")
    name = function or _MAKES
    return subject_from(own_function(Path(file), name), f"{name}() of {file}")


def _example(recipe: Recipe, data: Path | None) -> tuple[Example, Criterion]:
    found = example_of(recipe)
    if found is not None:
        return found
    if recipe.table is not None:
        raise InputError("the schema does not tell how many features the model sees; give model.inputs")
    split = recipe.load_data(data)
    inputs, targets = split.train[0][:1], split.train[1][:1]
    return (inputs, targets), criterion_for(targets.is_floating_point(), split.values)
