"""The prices of what a run buys beside its steps, for people, before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.core.guarantee import Guarantee
from discreet.core.rounding import delta_up, places_up, rounded_up

if TYPE_CHECKING:
    from discreet.accounting.adaptive.filters import Filter
    from discreet.data.tables import Schema
    from discreet.jobs.tables.table_source import TableSource
    from discreet.plan import AdaptivePlan, Counts, Metric, Plan
    from discreet.recipes import Recipe
    from discreet.training.run.trained import Bought


_MOST_NAMED = 8


def metrics_of(plan: Plan | AdaptivePlan) -> list[dict[str, Any]]:
    """Each private metric of a plan: how often, how exact, and in an adaptive plan its part of the budget."""
    found = []
    for metric in plan.metrics:
        facts = {"metric": metric.name, "noise": metric.noise, "standard_deviation": deviation(plan, metric)}
        if plan.filter is None:
            facts["times"] = plan.purchases(metric)
        else:
            facts["part_of_the_budget"] = part_of_the_budget(plan.filter, metric)
        found.append(facts)
    return found


def deviation(plan: Plan | AdaptivePlan, metric: Metric) -> float:
    """The standard deviation of a metric."""
    from discreet.plan.metrics import size_for

    return metric.deviation(*plan.units_of(metric), size_for(metric, plan.metrics))


def part_of_the_budget(budget: Filter, bought: Metric | Counts) -> float:
    """The largest part of a limit of the filter that one purchase takes."""
    return max(amount / limit for amount, limit in zip(budget.cost(bought.event), budget.limits, strict=True))


def without_metrics(plan: Plan | AdaptivePlan) -> float | None:
    """Epsilon of the steps alone, with the same noise; None if nothing is bought, or one filter covers everything."""
    if not plan.metrics or plan.filter is not None:
        return None
    return plan.model_copy(update={"metrics": (), "holdout": None}).guarantee().epsilon


def reading_of(plan: Plan | AdaptivePlan) -> dict[str, Any] | None:
    """The reading of a plan's odometer, ex post: for a fixed plan, at its end; None without an odometer."""
    rule = plan.odometer
    if rule is None:
        return None
    facts: dict[str, Any] = {"odometer": rule.odometer.kind, "stop_at": rule.most, "kind": "ex_post"}
    if plan.policy is None:
        facts["reading_of_all_steps"] = rule.read(rule.after(rule.start(), plan.event())).epsilon
    return facts


def lines(facts: Mapping[str, Any]) -> Sequence[str]:
    """The same for people: from the facts of `discreet plan`."""
    found = []
    for metric in facts["metrics"]:
        name, exact = metric["metric"].replace("_", " "), f"+/- {metric['standard_deviation']:.2g}"
        if "times" in metric:
            times = f"{metric['times']} times, each" if metric["times"] > 1 else "once,"
            found.append(f"buys {name} {times} {exact} of noise (one standard deviation)")
        else:
            found.append(f"buys {name} after each phase, {exact}, for {metric['part_of_the_budget']:.2%} of the budget")
    alone = facts.get("epsilon_without_metrics")
    if alone is not None:
        whole = facts["epsilon"]
        found.append(f"epsilon {rounded_up(whole)} with these metrics, {rounded_up(alone)} without them")
    reading = facts.get("odometer")
    if reading is not None:
        found.append(_odometer(reading))
    return found


def _odometer(reading: Mapping[str, Any]) -> str:
    text = f"odometer {reading['odometer']}, ex post and no guarantee"
    if "reading_of_all_steps" in reading:
        text += f": reads {rounded_up(reading['reading_of_all_steps'])} if all steps are taken"
    if reading["stop_at"] is not None:
        text += f"; the run ends before it reads more than {reading['stop_at']:g}"
    return text


def of_recipe(recipe: Recipe) -> Sequence[str]:
    """The prices of a recipe's ranges, categories and private metrics; empty if it buys none."""
    if not recipe.bought and recipe.table is None:
        return ()
    plan = recipe.plan()
    first = before_steps(recipe, plan) if recipe.table is not None and recipe.center is None else ()
    if not recipe.bought:
        return first
    alone = without_metrics(plan)
    whole = plan.guarantee().epsilon
    return [*first, *lines({"metrics": metrics_of(plan), "epsilon": whole, "epsilon_without_metrics": alone})]


def before_steps(recipe: Recipe, plan: Plan | AdaptivePlan) -> Sequence[str]:
    """A line on what is bought before the first step, with its epsilon; no line if nothing is bought."""
    from discreet.accounting.account import guarantee
    from discreet.core.events import Compose

    said = _first(recipe, plan.delta)
    if not said:
        return ()
    alone = guarantee(Compose(plan.before), plan.delta, plan.adjacency).epsilon
    return (f"buys {said}, for epsilon {rounded_up(alone)} by itself; the noise of the steps leaves room",)


def _first(recipe: Recipe, delta: float) -> str:
    """Names what is bought before the first step: a center, components, or columns of a table; "" if nothing is."""
    if recipe.center is not None:
        return "the mean of the features, which the model subtracts"
    if recipe.components is not None:
        return f"{recipe.components.count} principal components of the rows"
    return "" if recipe.table is None else _of_columns(recipe.table, delta)


def _of_columns(table: Schema, delta: float) -> str:
    from discreet.core.events import SparseHistogram
    from discreet.data.tables import columns_bought, events_bought, what_of

    bought, kinds = columns_bought(table), dict[str, list[str]]()
    for name, events in events_bought(table, delta).items() if bought else ():
        above = [f" (of more than {event.threshold:g} rows)" for event in events if isinstance(event, SparseHistogram)]
        kinds.setdefault(what_of(bought[name]), []).append("".join([name, *above]))
    return " and ".join(f"the {kind} of {_listed(names)}" for kind, names in kinds.items())


def unmeasured(recipe: Recipe, table: TableSource | None) -> Sequence[str]:
    """A hint how to measure a table's model, if nothing does, or the subgroups that are declared."""
    if table is None or table.test is not None:
        return ()
    if recipe.bought:
        groups = ", ".join(() if recipe.table is None else recipe.table.subgroups)
        said = f"the subgroups by {groups} are not measured: what is bought is of all rows; --test TABLE shows them"
        return (said,) if groups else ()
    kept = "on private rows that are kept back, for no more epsilon"
    named = recipe.unit.value == "user" or (recipe.table is not None and recipe.table.row_id is not None)
    rows = "--holdout 20%" if named else "--holdout 20% (with row_id in a schema)"
    classes = "" if _predicts_numbers(recipe) else f"; {rows}, {kept}"
    test = "--test FOLDER does, on images" if table.path.is_dir() else "--test TABLE does, on rows"
    return (f"nothing measures the model: {test} that may be public{classes}",)


def _predicts_numbers(recipe: Recipe) -> bool:
    from discreet.data.tables import Encoder, provisional

    return recipe.table is not None and Encoder(provisional(recipe.table)).task != "classes"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} columns"


def certified(guarantee: Guarantee) -> str:
    """The end of a run, in words: what is certified of its model."""
    return f"certified epsilon {places_up(guarantee.epsilon)} at delta {delta_up(guarantee.delta)}"


def results(bought: Sequence[Bought]) -> Sequence[str]:
    """The last bought value of every metric, one line each."""
    return [
        f"{one.metric.replace('_', ' ')} {one.value:.4g} +/- {one.deviation:.2g} of noise, bought on private rows"
        for one in {one.metric: one for one in bought}.values()
    ]
