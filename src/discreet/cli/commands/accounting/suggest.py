"""`discreet suggest`: a plan to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.cli.options.json_output import echo_json
from discreet.cli.show.digits import rounded_up
from discreet.core.adjacency import Adjacency


def suggest(
    population: Annotated[float, typer.Option("--population", help="Declared public size of the data set.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The budget.")],
    delta: Annotated[float | None, typer.Option("--delta", help="Delta of the budget [below 1 / population].")] = None,
    adjacency: Annotated[
        Adjacency, typer.Option("--adjacency", help="When two data sets are neighbours.")
    ] = Adjacency.ADD_REMOVE,
    parameters: Annotated[int | None, typer.Option("--parameters", help="Numbers that the model trains.")] = None,
    epochs: Annotated[float, typer.Option("--epochs", help="Most passes over the data that there is time for.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Suggest batch, steps, delta and noise for a population and a budget, each with its reason."""
    from discreet.plan.suggest import suggest as suggestion

    found = suggestion(population, epsilon, delta, adjacency=adjacency, parameters=parameters, most_epochs=epochs)
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
        echo_json(facts)
        return
    typer.echo(
        f"{plan.steps} steps of {plan.expected_batch:.6g} expected examples, noise multiplier {rounded_up(noise)}: "
        f"epsilon {rounded_up(promised.epsilon)} at delta {plan.delta:g}, {adjacency.value}"
    )
    for reason in found.reasons:
        typer.echo(f"- {reason}")
