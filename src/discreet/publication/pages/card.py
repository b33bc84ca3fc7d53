"""The model card (README.md of a published folder), and the words that it shares with the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from discreet.certificate.described import About
from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.model_spec import ModelSpec
from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan
from discreet.publication.pages.adaptive_course import course
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

THEOREMS: Mapping[str, str] = {
    "pld": "Privacy-loss distribution of sampled Gaussian noise, composed over all steps, rounded upwards",
    "rdp": "Rényi differential privacy of sampled Gaussian noise, converted to epsilon and delta",
    "pld-profile": "Privacy profile of one run, from its privacy-loss distribution rounded upwards, carried over to "
    "the best of a secret number of runs",
    "disjoint-parts": "Disjoint parts of the data, of which a unit is in one: the dearer of one run, by its "
    "privacy-loss distribution rounded upwards, and one choice, by the exact profile of a release of bounded range",
    "gaussian": "Exact profile of the Gaussian mechanism; steps compose exactly",
    "rdp-curve-filter": "Privacy filter in Rényi differential privacy at several orders: its limits were fixed before "
    "the run and hold whatever was chosen on the way",
    "rdp-order-filter": "Privacy filter in Rényi differential privacy at one order: its limit was fixed before the run "
    "and holds whatever was chosen on the way",
    "zcdp-filter": "Privacy filter in zero-concentrated differential privacy: its limit was fixed before the run and "
    "holds whatever was chosen on the way",
    "gdp-filter": "Privacy filter in Gaussian differential privacy: its limit was fixed before the run and holds "
    "whatever was chosen on the way",
}


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
        drawing=how_drawn(facts["plan"]["sampling"], facts["plan"]["population"], words, changes=changes(facts)),
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
        theorem=THEOREMS.get(facts["claim"]["method"], facts["claim"]["method"]),
    )


def plan_of(facts: Mapping[str, Any]) -> Plan | AdaptivePlan:
    """The claimed plan, with its search if there was one."""
    kind = AdaptivePlan if facts["plan"].get("kind") == "adaptive" else Plan
    return kind.model_validate(facts["plan"])


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


def certified_epsilon(facts: Mapping[str, Any]) -> float:
    """The epsilon of the claim. Only a finite guarantee may be printed; estimates are refused."""
    claim = facts["claim"]
    if claim["kind"] != "guarantee":
        raise InputError(f"the claim is of kind {claim['kind']!r}; only a guarantee can be published")
    epsilon = claim["epsilon"]
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
        raise InputError(f"the certified epsilon must be finite and at least 0, got {epsilon!r}")
    return float(epsilon)


def final_metrics(facts: Mapping[str, Any]) -> dict[str, float]:
    """The last metrics on data declared public; empty if there are none."""
    evaluations = facts["public_evaluations"]
    return {name: value for name, value in evaluations[-1].items() if name != "step"} if evaluations else {}


def changes(facts: Mapping[str, Any]) -> bool:
    """Whether the sampling probability changes over the steps."""
    plan = facts["plan"]
    if plan.get("kind") == "adaptive":
        return len(set(course(facts).batches)) > 1
    return len({phase["rate"] for phase in plan.get("rates", ())}) > 1


def held_out(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """The share of held-out rows, and whether epsilon is that of the dearer part; None without a hold-out."""
    holdout = plan.get("holdout")
    return None if holdout is None else {"share": holdout["share"], "apart": _counts_apart(plan)}


def _counts_apart(plan: Mapping[str, Any]) -> bool:
    return plan.get("kind") != "adaptive" and plan["adjacency"] != "replace_one"


def software(facts: Mapping[str, Any]) -> str:
    """Names and versions in one line."""
    return ", ".join(f"{name} {release}" for name, release in facts["software"].items())


def trained_tensors(facts: Mapping[str, Any]) -> str:
    """The number of the network's tensors that were trained on private data, in words."""
    trained, total = len(facts["model"]["private"]), len(facts["model"]["initial"])
    if trained < total:
        return f"{trained:,} of the network's {total:,} tensors; the others are as declared before training"
    return f"all {total:,} tensors of the network" if total > 1 else "the network's only tensor"
