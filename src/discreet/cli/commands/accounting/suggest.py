"""`discreet suggest`: a plan to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.checked_numbers import number
from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.cli.options.population import population_option
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.rounding import delta_up, rounded_up

if TYPE_CHECKING:
    from discreet.plan.suggest import LanguageSuggestion, Suggestion

EpochsOption = Annotated[
    float | None,
    number("--epochs", checks.positive, "Most passes over the data there is time for [100; 10 by --task]."),
]


def suggest(
    population: Annotated[float, population_option("Declared public size of the data set.")],
    epsilon: Annotated[float, number("--epsilon", checks.positive, "The budget.")],
    delta: Annotated[
        float | None, number("--delta", checks.open_unit, "Delta of the budget [below 1 / population].")
    ] = None,
    adjacency: Annotated[
        Adjacency, typer.Option("--adjacency", help="When two data sets are neighbours.")
    ] = Adjacency.ADD_REMOVE,
    parameters: Annotated[int | None, number("--parameters", checks.count, "Numbers that the model trains.")] = None,
    epochs: EpochsOption = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Of a language model: causal-lm or classification.")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="With --task: train all weights, and no adapters.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Suggest batch, steps, delta and noise for a population and a budget, each with its reason."""
    from discreet.plan.suggest import LanguageSuggestion

    found = _found(population, epsilon, delta, adjacency, parameters, epochs, task, whole=whole)
    plan, promised = found.plan, found.plan.guarantee()
    noise = plan.noise[0].multiplier
    if as_json:
        facts = {
            "sampling": plan.sampling.model_dump(mode="json"),
            "expected_batch": plan.expected_batch,
            "steps": plan.steps,
            "clip_norm": plan.clipping.first_norm,
            "noise_multiplier": noise,
            "epsilon": promised.epsilon,
            "lower": promised.lower,
            "delta": plan.delta,
            "adjacency": adjacency.value,
            "kind": promised.kind,
            "reasons": list(found.reasons),
        }
        if isinstance(found, LanguageSuggestion):
            facts |= {"learning_rate": found.learning_rate, "rank": found.rank}
        echo_json(facts)
        return
    typer.echo(
        f"{plan.steps} steps of {plan.expected_batch:.6g} expected examples, noise multiplier {rounded_up(noise)}: "
        f"epsilon {rounded_up(promised.epsilon)} at delta {delta_up(plan.delta)}, {adjacency.value}"
    )
    for reason in found.reasons:
        typer.echo(f"- {reason}")
    if isinstance(found, LanguageSuggestion):
        typer.echo(f"discreet train TEXTS --model FOLDER ... {found.options}")


def _found(
    population: float,
    epsilon: float,
    delta: float | None,
    adjacency: Adjacency,
    parameters: int | None,
    epochs: float | None,
    task: str | None,
    *,
    whole: bool,
) -> Suggestion | LanguageSuggestion:
    """The suggestion for a model of language, if `task` says so, or for any other."""
    from discreet.plan.suggest import suggest as suggestion
    from discreet.plan.suggest.suggest_language import MOST_EPOCHS, suggest_language

    if task is None:
        if whole:
            raise InputError("--whole is for a language model; say which by --task causal-lm or classification")
        most = 100 if epochs is None else epochs
        return suggestion(population, epsilon, delta, adjacency=adjacency, parameters=parameters, most_epochs=most)
    if parameters is not None:
        raise InputError("--parameters is not for --task, whose rules do not count them; leave it out")
    most = MOST_EPOCHS if epochs is None else epochs
    return suggest_language(population, epsilon, delta, task=task, whole=whole, adjacency=adjacency, most_epochs=most)
