"""The public rows that join every step of a run, for people, before anything is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.jobs.tables.table_source import TableSource
    from discreet.plan import AdaptivePlan, Plan
    from discreet.recipes import Recipe


def joining(recipe: Recipe, table: TableSource | None, plan: Plan | AdaptivePlan) -> dict[str, Any] | None:
    """The number of public rows that join every step, and their weight; None if none do.

    Rows of a table are read and tried. Those of a data set are not: their share is reported, and no weight if it
    follows from their number.
    """
    from discreet.data.tables import provisional

    public = recipe.public
    if public is None:
        return None
    if table is None:
        return {"share": public.share, "weight": public.weight, "batch": public.batch}
    assert recipe.table is not None
    found = table.joining(recipe, provisional(recipe.table))
    assert found is not None
    declared = public.batches((found.inputs, found.targets), plan, recipe.build_model()).declared
    return {name: declared[name] for name in ("rows", "weight", "batch")}


def lines(facts: dict[str, Any] | None) -> list[str]:
    """The same for people."""
    if facts is None:
        return []
    rows = f"{facts['rows']} rows" if "rows" in facts else f"{100 * facts['share']:.3g} % of the public test rows"
    some = f", {facts['batch']} at a time" if facts["batch"] not in (None, facts.get("rows")) else ""
    weight = "a weight that follows from their number" if facts["weight"] is None else f"weight {facts['weight']:g}"
    return [f"{rows}, declared public, join every step{some}, with {weight}; they are not protected"]
