"""The releases and the price of a planned run, as facts and in sentences, for `discreet plan` and `discreet train
--dry-run`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from discreet.cli.show import prices, public_rows, wall_time
from discreet.core.rounding import delta_up, rounded_up
from discreet.plan.plan_facts import large_delta

if TYPE_CHECKING:
    from discreet.jobs.tables.table_source import TableSource
    from discreet.plan import AdaptivePlan, Plan
    from discreet.recipes import Recipe

_SHOWN = 12


def facts_of(recipe: Recipe, table: TableSource | None, *, probe: bool) -> dict[str, Any]:
    """The plan of a run and its price; with `probe`, its expected time. No private row is read."""
    found = recipe.plan()
    facts = _fixed(found) if found.policy is None else _adaptive(found)
    facts["public"] = public_rows.joining(recipe, table, found)
    facts["wall_seconds"] = wall_time.expected(recipe, found, facts["public"]) if probe else None
    return facts | {"plan": found.model_dump(mode="json")}


def say(recipe: Recipe, facts: Mapping[str, Any]) -> None:
    """Print the facts in sentences."""
    from discreet.jobs.tables.image_or_text_schema import declared

    said = prices.before_steps(recipe, recipe.plan()), public_rows.lines(facts["public"]), declared(recipe)
    for line in itertools.chain(_lines(facts), *said):
        typer.echo(line)
    if facts["wall_seconds"] is not None:
        typer.echo(
            f"about {wall_time.in_words(facts['wall_seconds'])} on this machine, from a few steps on random data"
        )


def _fixed(plan: Plan) -> dict[str, Any]:
    """The facts of a fixed plan."""
    from discreet.publication.pages.report import epsilon_curve

    promised = plan.guarantee()
    claim = {"epsilon": promised.epsilon, "lower": promised.lower, "method": promised.method}
    curve = epsilon_curve({"claim": claim}, plan) if math.isfinite(promised.epsilon) else []
    return _common(plan) | {
        "kind": promised.kind,
        "lower": promised.lower,
        "steps": plan.steps,
        "epochs": plan.epochs,
        "batches": [list(phase) for phase in plan.batches],
        "epsilon_without_metrics": prices.without_metrics(plan),
        "noise": [list(phase) for phase in plan.multipliers],
        "epsilon_over_steps": [[plan.step_at(point.step), point.upper] for point in curve],
    }


def _adaptive(plan: AdaptivePlan) -> dict[str, Any]:
    """The fixed facts of an adaptive plan: its filter, and how far it reaches with the first controls."""
    from discreet.accounting.adaptive import filters

    price = plan.price(plan.start)
    period = plan.draw_of(plan.event(plan.start)).sampler.period
    reach = min(limit / cost for limit, cost in zip(plan.filter.limits, price, strict=True))
    count = None if plan.counts is None else prices.part_of_the_budget(plan.filter, plan.counts)
    return _common(plan) | {
        "kind": plan.guarantee().kind,
        "most_steps": plan.most_steps,
        "most_epochs": plan.most_steps / plan.sampling.epoch(plan.population),
        "noise": [[plan.noise, plan.most_steps]],
        "policy": plan.policy.model_dump(mode="json"),
        "filter": filters.as_dict(plan.filter),
        "steps_as_it_starts": math.floor(reach) * period,
        "decides_every_steps": plan.phase_steps(plan.start),
        "part_of_the_budget_for_a_count": count,
    }


def _common(plan: Plan | AdaptivePlan) -> dict[str, Any]:
    promised = plan.guarantee()
    return {
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "adjacency": promised.adjacency.value,
        "unit": promised.unit.value,
        "method": promised.method,
        "sampling": plan.sampling.model_dump(mode="json"),
        "population": plan.population,
        "expected_batch": plan.expected_batch,
        "clip_norm": plan.clipping.first_norm,
        "clipping": plan.clipping.model_dump(mode="json"),
        "metrics": prices.metrics_of(plan),
        "odometer": prices.reading_of(plan),
        "holdout": None if plan.holdout is None else plan.holdout.share,
    }


def _lines(facts: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    sizes = sorted(size for size, _ in facts.get("batches", [[facts["expected_batch"], 0]]))
    size = f"{sizes[0]:.6g}" if sizes[0] == sizes[-1] else f"{sizes[0]:.6g} to {sizes[-1]:.6g}"
    batch = f"batches of {size} expected {facts['unit']}s out of {facts['population']:.6g}"
    below = ", below 1 / population" if facts["delta"] < 1 / facts["population"] else ""
    below += large_delta(facts["delta"], facts["population"])
    promised = (
        f"epsilon {rounded_up(facts['epsilon'])} at delta {delta_up(facts['delta'])}{below}, {facts['adjacency']}"
    )
    if "filter" in facts:
        lines = [
            f"at most {facts['most_steps']} steps ({facts['most_epochs']:.4g} epochs), {batch}",
            f"{promised}, whatever is chosen on the way ({facts['method']})",
            f"starts with noise multiplier {rounded_up(facts['noise'][0][0])}: the budget lasts for "
            f"{facts['steps_as_it_starts']} such steps",
            f"policy {facts['policy']['kind']}, decides every {facts['decides_every_steps']} steps",
        ]
        share = facts["part_of_the_budget_for_a_count"]
        lines += [] if share is None else [f"each count costs {share:.2%} of the budget"]
        return [*lines, *prices.lines(facts)]
    lines = [f"{facts['steps']} steps ({facts['epochs']:.4g} epochs), {batch}", f"{promised} ({facts['method']})"]
    lines += prices.lines(facts)
    noise, step = facts["noise"], 0
    every = math.ceil(len(noise) / _SHOWN)
    for index, (multiplier, count) in enumerate(noise):
        if index % every == 0 or index == len(noise) - 1:
            lines.append(f"  noise multiplier {rounded_up(multiplier)} from step {step + 1}")
        step += count
    return lines + [
        f"  epsilon {rounded_up(upper)} {f'after step {count}' if count else 'before step 1'}"
        for count, upper in facts["epsilon_over_steps"][::3]
    ]
