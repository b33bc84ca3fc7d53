"""One private run of an experiment: from the facts of a cell to its result. Loads torch."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.accounting.account import Method
from discreet.core.adjacency import Query
from discreet.core.errors import Interrupted
from discreet.core.events import Epoch, Event, FixedSize, Gaussian, Poisson, TruncatedPoisson, flatten, steps_of
from discreet.core.events.event_json import from_json
from discreet.data import Split
from discreet.ledger import Entry
from discreet.plan import Plan
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe
from discreet.recipes.assemble import Run, assemble, carry_out
from discreet_papers.measure.readings import Charge, budget, readings
from discreet_papers.part import Cell, Facts, Setting


def recipe_of(facts: Facts, seed: int | None, where: str) -> Recipe:
    """The recipe of a cell; a model with a key `seed` gets that of the run."""
    content = json.loads(json.dumps(facts["recipe"]))
    if isinstance(content.get("model"), dict) and "seed" in content["model"]:
        content["model"]["seed"] = seed or 0
    return validate(Recipe, content, where)


def take(cell: Cell, setting: Setting) -> dict[str, Any]:
    """Train; returns the certified epsilon, the accuracy on public data over time, and the charges."""
    recipe = recipe_of(cell.facts, cell.seed, cell.name)
    return take_on(recipe, data_of(recipe, setting), cell, setting)


def take_on(recipe: Recipe, split: Split, cell: Cell, setting: Setting) -> dict[str, Any]:
    """`take` on these rows."""
    with tempfile.TemporaryDirectory(prefix="discreet-reproduce-") as folder:
        training = assemble(recipe, split, Run(Path(folder) / "run", device=setting.device))
        with _taken_anew(cell):
            trained = carry_out(recipe, training, progress=setting.progress)
    proved = trained.plan.guarantee()
    phases = charged(trained.entries)
    result: dict[str, Any] = {
        "epsilon": proved.epsilon,
        "lower": proved.lower,
        "delta": proved.delta,
        "adjacency": proved.adjacency.value,
        "steps": sum(steps for steps, _, _ in phases),
        "epochs": round(sum(steps * rate for steps, _, rate in phases), 6),
        "noise": phases,
        "metrics": {name: round(value, 6) for name, value in trained.last_metrics.items()},
        "curve": [
            [one.step, round(one.metrics[cell.facts.get("metric", "accuracy")], 5)] for one in trained.evaluations
        ],
    }
    if trained.ended is not None:
        result["ended"] = trained.ended
    at = [one.step for one in trained.evaluations]
    if "readings" in cell.facts:
        result["readings"] = readings(_charges(trained.entries), at, cell.facts["readings"], proved.adjacency)
    if "budget" in cell.facts:
        result["budget"] = budget(_charges(trained.entries), at, proved.delta, proved.adjacency)
    points = cell.facts.get("spending", 0)
    if points and isinstance(trained.plan, Plan):
        result["spending"] = _spending(trained.plan, points)
    return result


def seconds_of(cell: Cell, setting: Setting, steps: int) -> float:
    """Processor seconds of a run of `steps` steps, from the checks of the data to its last evaluation."""
    content = json.loads(json.dumps(cell.facts["recipe"])) | {"steps": steps}
    recipe = validate(Recipe, content, cell.name)
    split = data_of(recipe, setting)
    with tempfile.TemporaryDirectory(prefix="discreet-reproduce-") as folder:
        training = assemble(recipe, split, Run(Path(folder) / "run", device=setting.device))
        began = time.process_time()
        with _taken_anew(cell):
            carry_out(recipe, training, progress=False)
        return time.process_time() - began


@contextmanager
def _taken_anew(cell: Cell) -> Iterator[None]:
    """Turns an interruption into a message that fits here: the run's folder is gone."""
    try:
        yield
    except Interrupted as stop:
        words = f"interrupted; the same command goes on, and takes {cell.name} anew"
        raise Interrupted(words, stop.signal) from None


def charged(entries: Sequence[Entry]) -> list[list[float]]:
    """[steps, noise multiplier, sampling probability of a row] of the charged steps, in order."""
    found: list[list[float]] = []
    for event, count in _events(entries):
        for noise, rate, steps in _steps(event):
            if found and found[-1][1:] == [noise, rate]:
                found[-1][0] += count * steps
            else:
                found.append([count * steps, noise, rate])
    return found


def _events(entries: Sequence[Entry]) -> list[tuple[Event, int]]:
    """The charged events in order, with how often each occurs in a row."""
    return [pair for entry in entries if entry.kind == "reservation" for pair in flatten(from_json(entry.content))]


def _charges(entries: Sequence[Entry]) -> list[Charge]:
    return [(event, count, len(_steps(event))) for event, count in _events(entries)]


def _steps(event: Event) -> list[tuple[float, float, int]]:
    """(noise, rate, steps) of training in an event; 0 steps for queries and metrics."""
    match event:
        case Epoch():
            inner = [one for one in steps_of(event) if isinstance(one, Gaussian)]
            return [(one.noise_multiplier, 1 / len(inner), 1) for one in inner]
        case Poisson(rate, Gaussian(noise, Query.CLIPPED_SUM)) | TruncatedPoisson(rate, _, _, Gaussian(noise)):
            return [(noise, rate, 1)]
        case FixedSize(population, batch, Gaussian(noise)):
            return [(noise, batch / population, 1)]
        case Gaussian(noise, Query.CLIPPED_SUM):
            return [(noise, 1.0, 1)]
        case _:
            return []


def _spending(plan: Plan, points: int) -> list[list[float]]:
    """[steps, epsilon of a plan with only these first steps], denser at first."""
    counts = sorted({max(1, round(plan.charges * (k / points) ** 2)) for k in range(1, points + 1)})
    delta, found = plan.delta, []
    for count in counts:
        epsilon = plan.first_guarantee(count, delta, Method.PLD, lambda at: max(0.01 * at, 1e-3)).epsilon
        found.append([float(count), epsilon])
    return found


def data_of(recipe: Recipe, setting: Setting) -> Split:
    """The data of a recipe. The last run's data is kept, because the next run usually has the same."""
    wanted = recipe.model_dump(mode="json", include={"data", "features", "validation", "unit"})
    key = json.dumps(wanted, sort_keys=True)
    if key not in setting.kept:
        setting.kept.clear()
        setting.kept[key] = recipe.load_data(setting.data)
    found: Split = setting.kept[key]
    return found
