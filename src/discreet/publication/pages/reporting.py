"""What the report and the model card both say, with the questions that a report on a private model must answer, after
Ponomareva et al. (2023, "How to DP-fy ML", on reporting).

The questions: setting, releases, covered accesses to the data, unit, adjacency, guarantee, accounting and its
assumptions, what is not private, code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from discreet.accounting.adaptive import costs
from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.certificate.described import About
from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.model_spec import ModelSpec
from discreet.core.adjacency import Unit
from discreet.core.errors import NotProved
from discreet.core.rounding import places_down, places_up
from discreet.plan import AdaptivePlan, PartsSearch, Plan
from discreet.publication.pages.certificate_facts import (
    certified_epsilon,
    final_metrics,
    held_out,
    rate_changes,
    software,
    theorem,
    trained_tensors,
)
from discreet.publication.pages.clipping_words import how_clipped
from discreet.publication.pages.contents import INSTALL, contents, use_on_command_line
from discreet.publication.pages.formats import number, plain
from discreet.publication.pages.measured_words import canaries, groups
from discreet.publication.pages.public_evaluation import shown
from discreet.publication.pages.purpose import purpose, targets_of
from discreet.publication.pages.sampling_words import how_drawn
from discreet.publication.pages.unit_words import Words, words_for
from discreet.verification.checks import public_rows
from discreet.verification.checks.tuning import described, one_run

_QUANTUM = 2.0**-40

_TIERS = ((1.0, 1, "strong"), (10.0, 2, "reasonable"))


def tier(epsilon: float) -> tuple[int, str]:
    """Number and name of an epsilon's tier: at most 1, at most 10, above (Ponomareva et al. 2023)."""
    return next(((which, name) for most, which, name in _TIERS if epsilon <= most), (3, "weak"))


def in_common(facts: dict[str, Any], plan: Plan | AdaptivePlan, spec: ModelSpec) -> dict[str, Any]:
    """What the report and the model card both say, by its names in their templates. Of a search, `facts` there are
    those of the winner's run."""
    claim, epsilon, search = facts["claim"], certified_epsilon(facts), described(facts)
    words, facts = words_for(claim["unit"]), one_run(facts)
    return {
        "facts": facts,
        "search": search,
        "claim": claim,
        "epsilon": epsilon,
        "tier": tier(epsilon),
        "theorem": theorem(facts),
        "words": words,
        "by_person": claim["unit"] == Unit.USER,
        "neighbours": words.neighbours.get(claim["adjacency"], claim["adjacency"]),
        "drawing": how_drawn(facts["plan"]["sampling"], plan.population, words, changes=rate_changes(facts)),
        "clipped": how_clipped(facts["plan"]["clipping"], facts["clipping"]),
        "held_out": held_out(facts["plan"]),
        "evaluation": shown(final_metrics(facts), targets_of(spec)),
        "about": spec.about or About(),
        "purpose": purpose(spec),
        "earlier": EarlierRun.named(facts.get("warm_start")),
        "measured": spec.measured,
        "checks": groups(spec.measured),
        "canaries": canaries(spec.language, float(claim["epsilon"]), float(claim["delta"])),
        "software": software(facts),
        "tensors": trained_tensors(facts),
        "answers": answers(facts, plan, spec, words, search),
        "contents": contents(facts),
        "install": Markup(INSTALL),
        "command": use_on_command_line(spec),
    }


def rho(plan: Plan | AdaptivePlan) -> float | None:
    """A bound on the rho of zCDP of the whole plan; None where none is proved, as under sampling."""
    if plan.filter is not None:
        return plan.filter.rho if isinstance(plan.filter, ZcdpFilter) else None
    if plan.search is not None or plan.holdout is not None:
        return None
    try:
        return float(costs.rho(plan.event(), plan.adjacency, _QUANTUM)[0])
    except NotProved:
        return None


def answers(
    facts: dict[str, Any], plan: Plan | AdaptivePlan, spec: ModelSpec, words: Words, search: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """(question, answer) in the order of the guide; `facts` are those of the winner's run, if there was a search."""
    claim = facts["claim"]
    return [
        ("Setting", "central: one holder keeps the data, trains, and publishes this folder"),
        (
            "Released",
            "the model; the bound holds also for an adversary who sees every noisy sum of its training, so for all "
            "models on the way",
        ),
        ("Looks at the data that are covered", _covered(plan, search)),
        ("Looks at the data that are not covered", _uncovered(facts, plan)),
        ("Unit", f"{words.unit} ({claim['unit']}); {words.several[0].lower()}{words.several[1:]}"),
        ("Adjacency", f"{claim['adjacency']}: {words.neighbours.get(claim['adjacency'], '')}"),
        ("Guarantee", _guarantee(claim, plan)),
        ("Accounting", f"{claim['method']}: a proved upper bound, and no estimate"),
        (
            "Do its assumptions hold?",
            f"batches are drawn as the theorem says (sampling: {facts['plan']['sampling']['kind']}), since sampler and "
            "accounting come from one plan; the rest is listed under the assumptions",
        ),
        ("Declared public", _declared(facts, plan, words)),
        ("Not private", _not_private(facts, spec, words)),
        ("Code", software(facts)),
        ("To check it", "discreet verify FOLDER; for most plans also verify.py, with NumPy alone"),
    ]


def queries(plan: Plan | AdaptivePlan) -> str:
    """How many queries come before the first step of a plan."""
    return f"{number(len(plan.before))} {'query' if len(plan.before) == 1 else 'queries'}"


def _covered(plan: Plan | AdaptivePlan, search: Mapping[str, Any] | None) -> str:
    parts = [f"{'' if plan.policy is None else 'at most '}{number(plan.steps)} steps of training"]
    if plan.before:
        parts.append(f"{queries(plan)} before the first step")
    if plan.metrics:
        parts.append("metrics on private rows that were bought")
    if plan.policy is not None:
        parts.append("whatever was decided on the way")
    if search is not None:
        parts.append(f"the search for settings among {number(search['candidates'])} candidates")
    return ", ".join(parts)


def _uncovered(facts: Mapping[str, Any], plan: Plan | AdaptivePlan) -> str:
    others = "anything else that was computed from the same data and released, other models for example"
    if earlier := EarlierRun.named(facts.get("warm_start")):
        lines = ", ".join(one.line for one in earlier)
        others = f"the private runs that released the weights at the start: {lines}; {others}"
    if plan.search is not None:
        return f"settings that were chosen before the search by looking at this data, if there are any; {others}"
    return f"settings that were chosen by looking at this data, in earlier runs for example, if there are any; {others}"


def _guarantee(claim: Mapping[str, Any], plan: Plan | AdaptivePlan) -> str:
    text = f"epsilon {places_up(claim['epsilon'])} at delta {plain(claim['delta'])}"
    if claim["lower"] is not None:
        text += f" (for worst-case data at least {places_down(claim['lower'])})"
    found = rho(plan)
    if found is None:
        return f"{text}; no rho: zero-concentrated privacy is not proved of this plan"
    return f"{text}; zero-concentrated rho {places_up(found, 6)}"


def _declared(facts: dict[str, Any], plan: Plan | AdaptivePlan, words: Words) -> str:
    of = "the data" if plan.holdout is None else "the data to train on"
    of = "one part of the data" if isinstance(plan.search, PartsSearch) else of
    text = f"every figure of the plan, among them the population of {of}: {number(plan.population)} {words.many}"
    if plan.delta * plan.population >= 1:
        text += "; delta is not below 1 / population"
    rows = public_rows.described(facts)
    return text if rows is None else f"{text}; {rows}"


def _not_private(facts: dict[str, Any], spec: ModelSpec, words: Words) -> str:
    trained, total = len(facts["model"]["private"]), len(facts["model"]["initial"])
    warm = ", as other private runs released it" if "warm_start" in facts else ""
    parts = [f"the state that training started from{warm}"]
    if facts["claim"]["adjacency"] != "add_remove":
        parts.append(f"the number of {words.many}")
    if trained < total:
        parts.append(f"tensors that were not trained ({number(total - trained)} of {number(total)})")
    bought = facts["released"]["tensors"] if "released" in facts else ()
    if steps := [step.name for step in spec.preprocessing if step.name not in bought]:
        parts.append(f"the steps before the model ({', '.join(steps)})")
    if spec.table is not None:
        parts.append("the schema of the table" + (", but for what was bought" if facts["plan"]["before"] else ""))
    if facts["public_evaluations"]:
        parts.append("the data of the public evaluation")
    return ", ".join(parts)
