"""The model card: README.md of a published folder."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from discreet.certificate.described import About
from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.model_spec import ModelSpec
from discreet.core.adjacency import Unit
from discreet.plan import Plan
from discreet.publication.pages.adaptive_course import course
from discreet.publication.pages.certificate_facts import (
    certified_epsilon,
    final_metrics,
    held_out,
    plan_of,
    rate_changes,
    software,
    theorem,
    trained_tensors,
)
from discreet.publication.pages.clipping_words import how_clipped
from discreet.publication.pages.contents import INSTALL, contents, use_in_python, use_on_command_line
from discreet.publication.pages.formats import FILTERS, code, markdown
from discreet.publication.pages.front_matter import front_matter
from discreet.publication.pages.measured_words import canaries, groups
from discreet.publication.pages.public_evaluation import shown
from discreet.publication.pages.purpose import purpose, targets_of
from discreet.publication.pages.reporting import answers, tier
from discreet.publication.pages.sampling_words import how_drawn
from discreet.publication.pages.unit_words import words_for
from discreet.verification.checks.tuning import described, one_run


def model_card(facts: dict[str, Any], spec: ModelSpec | None = None) -> str:
    """Write the model card for the certificate `facts`: Markdown with YAML front matter, as Hugging Face reads it.

    `spec`: the content of model.json; without it, the card says that the model is a module of its maker. Every value is
    escaped, so that no text of a certificate can become markup. Epsilon is rounded up, the lower bound down.
    """
    epsilon, words, search = certified_epsilon(facts), words_for(facts["claim"]["unit"]), described(facts)
    plan = plan_of(facts)
    facts, spec = one_run(facts), spec or ModelSpec()
    return _template().render(
        facts=facts,
        search=search,
        claim=facts["claim"],
        epsilon=epsilon,
        plan=facts["plan"],
        drawing=how_drawn(facts["plan"]["sampling"], facts["plan"]["population"], words, changes=rate_changes(facts)),
        model=facts["model"],
        clipped=how_clipped(facts["plan"]["clipping"], facts["clipping"]),
        **_schedule(facts),
        evaluation=shown(final_metrics(facts), targets_of(spec)),
        about=spec.about or About(),
        earlier=EarlierRun.named(facts.get("warm_start")),
        measured=spec.measured,
        checks=groups(spec.measured),
        canaries=canaries(spec.language, float(facts["claim"]["epsilon"]), float(facts["claim"]["delta"])),
        purpose=purpose(spec),
        held_out=held_out(facts["plan"]),
        software=software(facts),
        tensors=trained_tensors(facts),
        front_matter=Markup(front_matter(spec, shown(final_metrics(facts)).figures)),
        tier=tier(epsilon),
        answers=answers(facts, plan, spec, words, search),
        contents=contents(facts),
        install=Markup(INSTALL),
        command=use_on_command_line(spec),
        python=Markup(use_in_python(spec)),
        words=words,
        by_person=facts["claim"]["unit"] == Unit.USER,
        neighbours=words.neighbours.get(facts["claim"]["adjacency"], facts["claim"]["adjacency"]),
        theorem=theorem(facts),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("discreet.publication.pages"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # this is Markdown: `finalize` escapes every value for it
        finalize=markdown,
    )
    environment.filters.update(FILTERS, code=code)
    return environment.get_template("card.md.j2")


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
