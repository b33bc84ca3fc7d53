"""The figures of a plan for people: what is protected, how batches are drawn, the noise, and what all of it costs."""

from __future__ import annotations

from discreet.core.html import rounded_up
from discreet.plan.fixed import FixedPlan


def facts_of(plan: FixedPlan) -> dict[str, str | None]:
    """Names and values; None for what the plan does not have. Its epsilon is computed here."""
    multipliers = [multiplier for multiplier, _ in plan.multipliers]
    low, high = min(multipliers), max(multipliers)
    return {
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
