"""The model card: README.md of a published folder."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from discreet.certificate.model_spec import ModelSpec
from discreet.plan import Plan
from discreet.publication.pages.adaptive_course import course
from discreet.publication.pages.certificate_facts import final_metrics, plan_of
from discreet.publication.pages.contents import use_in_python
from discreet.publication.pages.formats import markdown, template
from discreet.publication.pages.front_matter import front_matter
from discreet.publication.pages.public_evaluation import shown
from discreet.publication.pages.reporting import in_common


def model_card(facts: dict[str, Any], spec: ModelSpec | None = None) -> str:
    """Write the model card for the certificate `facts`: Markdown with YAML front matter, as Hugging Face reads it.

    `spec`: the content of model.json; without it, the card says that the model is a module of its maker. Every value is
    escaped, so that no text of a certificate can become markup. Epsilon is rounded up, the lower bound down.
    """
    spec = spec or ModelSpec()
    told = in_common(facts, plan_of(facts), spec)
    facts = told["facts"]
    blocks = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    # this is Markdown: `finalize` escapes every value for it
    return template("card.md.j2", escaped=False, finalize=markdown, **blocks).render(
        **told,
        plan=facts["plan"],
        model=facts["model"],
        **_schedule(facts),
        front_matter=Markup(front_matter(spec, shown(final_metrics(facts)).figures)),
        python=Markup(use_in_python(spec)),
    )


def _schedule(facts: dict[str, Any]) -> dict[str, Any]:
    """The schedule that the plan fixed, or that an adaptive run chose."""
    plan = facts["plan"]
    if plan.get("kind") == "adaptive":
        found = course(facts)
        return {
            "course": found,
            "steps": plan["most_steps"],
            "multipliers": [noise for noise, _ in found.phases],
            "batches": found.batches,
        }
    phases = plan["noise"]
    return {
        "course": None,
        "steps": sum(phase["steps"] for phase in phases),
        "multipliers": [phase["multiplier"] for phase in phases],
        "batches": [batch for batch, _ in Plan.model_validate(plan).batches],
    }
