"""A plan for notebooks."""

from __future__ import annotations

from discreet.core.html import fact_table, rounded_up
from discreet.plan.fixed import FixedPlan


def as_html(plan: FixedPlan) -> str:
    """The figures of a plan, and what all of it costs."""
    multipliers = [phase.multiplier for phase in plan.noise]
    low, high = min(multipliers), max(multipliers)
    facts = {
        "protected": f"one {plan.unit.value}, {plan.adjacency.value}",
        "population": f"{plan.population:,g}",
        "sampling": plan.sampling.kind,
        "expected batch": f"{plan.expected_batch:,.6g}",
        "steps": f"{plan.steps:,} ({plan.epochs:.3g} epochs)",
        "clipping": plan.clipping.kind,
        "noise multiplier": f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}",
        "metrics bought": ", ".join(metric.name for metric in plan.metrics) or None,
        "epsilon": rounded_up(plan.guarantee().epsilon),
        "delta": f"{plan.delta:g}",
    }
    return fact_table("Plan", facts)
