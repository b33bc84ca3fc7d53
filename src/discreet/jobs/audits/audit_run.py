"""The job of `discreet audit run`: one whole training of a recipe or table, on rows that are public or made up."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from discreet.audit.builds.made_up import Maker
from discreet.audit.one_run.canary_rows import Rows
from discreet.audit.one_run.one_run_game import Audited, play, steps_alone
from discreet.audit.one_run.one_run_report import OneRunReport, report
from discreet.clipping import Criterion
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.data import Split
from discreet.data.tables import Encoder, refuse_bought
from discreet.jobs.random_example import example_of
from discreet.jobs.source import Work
from discreet.jobs.tables.table_loss import loss_of
from discreet.plan import Plan
from discreet.recipes import Recipe
from discreet.recipes.assemble import criterion_for, engine_of, on_device
from discreet.recipes.sections.components import on_components
from discreet.training.run.first_tensors import placeholder

_USUAL, _ROOM = 1000, 0.8
"""Canaries of each kind, unless others are asked for or they would take more than this share of the population."""

_MADE_UP = 2000

_DECLARED = "rows that --all-public declares public"


@dataclass(frozen=True, slots=True, eq=False)
class OneRunAudit:
    """A training to be audited in one run. `of`: what its rows are. `whole`: the epsilon that the recipe's whole plan
    claims. `white`, `black`: canaries of each kind."""

    subject: Audited
    of: str
    whole: float
    white: int
    black: int

    @classmethod
    def new(
        cls,
        work: Work,
        *,
        all_public: bool = False,
        made_up: bool = False,
        box: str = "both",
        canaries: int | None = None,
        device: str = "cpu",
    ) -> OneRunAudit:
        """The audit of a recipe or table. Rows are those of `--test` or of a recipe's public part; all of
        them where they are declared public; else made-up ones. Of private rows nothing is used but their shape and
        type."""
        recipe = work.recipe
        whole = recipe.plan()
        plan = steps_alone(whole)
        rows, criterion, of = _rows(work, all_public=all_public, made_up=made_up)
        model = on_device(recipe.build_model(), device)
        classes = None
        if not rows.targets.is_floating_point():
            maker = Maker.like((rows.inputs[:1], rows.targets[:1]), model, 1, users=False)
            classes = maker.classes
        subject = Audited(
            plan,
            model,
            criterion,
            recipe.build_optimizer,
            rows,
            classes,
            engine=engine_of(recipe),
            geometry=recipe.build_geometry,
            scheduler=recipe.build_scheduler,
            averaging=recipe.averaging,
            augmented=recipe.augmented,
        )
        white, black = numbers_of_canaries(plan, len(rows.targets), box, canaries)
        return cls(subject, of, whole.guarantee().epsilon, white, black)

    def run(self, failure: float, guesses: tuple[int, ...] = (), progress: bool | None = None) -> OneRunReport:
        """Train once, and bound what the run gave away."""
        played = play(self.subject, self.white, self.black, seed=secrets.randbits(63), progress=progress)
        return report(played, self.subject.plan, failure=failure, guesses=guesses)


def numbers_of_canaries(plan: Plan, rows: int, box: str, asked: int | None) -> tuple[int, int]:
    """(with a place, mislabelled): as many as asked for; by default up to a thousand each, as far as the population has
    room. Mislabelled ones are different rows, so there are at most as many as rows."""
    kinds = {"white": (1, 0), "black": (0, 1), "both": (1, 1)}
    if box not in kinds:
        raise InputError(f"--box is white, black or both, not {box!r}")
    white, black = kinds[box]
    slots = plan.population * _ROOM * (2 if plan.adjacency is Adjacency.ADD_REMOVE else 1)
    each = min(_USUAL, int(slots / (white + black))) if asked is None else asked
    if each < 2:
        raise InputError(f"an audit needs two canaries at least; {each} were asked for, or have room in the population")
    return white * each, black * min(each, rows)


def _rows(work: Work, *, all_public: bool, made_up: bool) -> tuple[Rows, Criterion, str]:
    """Rows with their loss, and what they are."""
    recipe = work.recipe
    if recipe.table is not None:
        return _of_table(work, all_public=all_public, made_up=made_up)
    if made_up:
        return _made_up(recipe)
    try:
        split = recipe.load_data(work.data)
    except InputError:
        if work.data is not None or all_public or example_of(recipe) is None:
            raise
        return _made_up(recipe)  # data that needs a path, and none is given
    if recipe.components is not None:
        columns = split.train[0][0].numel()
        split = on_components(split, placeholder(columns, recipe.components.count))
    return _public(split, criterion_for(split.train[1].is_floating_point(), split.values), all_public=all_public)


def _of_table(work: Work, *, all_public: bool, made_up: bool) -> tuple[Rows, Criterion, str]:
    schema = work.recipe.table
    assert schema is not None
    assert work.table is not None
    refuse_bought(schema, "would be bought, and an audit buys nothing")
    if made_up or (work.table.test is None and not all_public):
        return _made_up(work.recipe)
    encoder = Encoder(schema)
    if work.table.test is None:
        whole = work.table.itself(work.recipe, encoder)
        return Rows(whole.inputs, whole.targets), loss_of(encoder), _DECLARED
    split = work.table.public_split(work.recipe, encoder, all_public=all_public)
    return _public(split, loss_of(encoder), all_public=all_public)


def _public(split: Split, criterion: Criterion, *, all_public: bool) -> tuple[Rows, Criterion, str]:
    rows = split.train if all_public else split.test
    if rows is None:
        raise InputError(
            "an audit in one run trains on public rows, and this data has none: give public test rows, or --made-up"
        )
    said = _DECLARED if all_public else "rows declared public, of the test"
    return Rows(*rows), criterion, said


def _made_up(recipe: Recipe) -> tuple[Rows, Criterion, str]:
    found = example_of(recipe)
    if found is None:
        raise InputError("this recipe does not tell the shape of its rows; give --data with public rows")
    (inputs, targets), criterion = found
    maker = Maker.like((inputs, targets), recipe.build_model(), recipe.rows_per_unit, users=False)
    return Rows(*maker.rows(_MADE_UP, seed=0)), criterion, "made-up rows"
