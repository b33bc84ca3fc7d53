"""The figures of a plan for people: what is protected, how batches are drawn, the noise, and what all of it costs."""

from __future__ import annotations

from discreet.core.rounding import delta_up, places_up
from discreet.plan.fixed import FixedPlan
from discreet.plan.run_plan import RunPlan


def facts_of(plan: FixedPlan) -> dict[str, str | None]:
    """Names and values; None for what the plan does not have. Its epsilon is computed here."""
    multipliers = [multiplier for multiplier, _ in plan.multipliers]
    low, high = min(multipliers), max(multipliers)
    noise = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return named_facts(plan, f"{plan.steps:,} ({plan.epochs:.3g} epochs)", noise)


def named_facts(plan: RunPlan, steps: str, noise: str, **more: str) -> dict[str, str | None]:
    """Names and values for any plan, from the words for its steps and its noise; `more` comes behind these."""
    return {
        "protected": f"one {plan.unit.value}, {plan.adjacency.value}",
        "population": f"{plan.population:,g}",
        "sampling": plan.sampling.kind,
        "expected batch": f"{plan.expected_batch:,.6g}",
        "steps": steps,
        "clipping": plan.clipping.kind,
        "noise multiplier": noise,
        **more,
        "metrics bought": ", ".join(metric.name for metric in plan.metrics) or None,
        "odometer": _odometer(plan),
        "epsilon": places_up(plan.guarantee().epsilon),
        "delta": f"{delta_up(plan.delta)}{large_delta(plan.delta, plan.population)}",
    }


def _odometer(plan: RunPlan) -> str | None:
    """The kind of odometer and where it ends the run, in words; None without one."""
    if plan.odometer is None:
        return None
    ends = f"ends the run before it reads more than {plan.odometer.most:.6g}" if plan.odometer.most else "read only"
    return f"{plan.odometer.odometer.kind}, {ends}"


def large_delta(delta: float, population: float) -> str:
    """The warning that follows a delta above 1 / population; empty for any other."""
    most = 1 / population
    return f" (above 1 / population = {most:.2g}: one unit could be given away whole)" if delta > most else ""
