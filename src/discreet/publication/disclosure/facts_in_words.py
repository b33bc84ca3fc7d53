"""What the certificate of a verified folder says about its deployment, in short texts for statement and record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.certificate.described import About
from discreet.certificate.files import CERTIFICATE, read, read_certificate
from discreet.certificate.model_spec import ModelSpec
from discreet.core.errors import VerificationFailed
from discreet.plan import AdaptivePlan, Plan
from discreet.publication.pages.adaptive_course import course
from discreet.publication.pages.certificate_facts import (
    certified_epsilon,
    final_metrics,
    plan_of,
    rate_changes,
    software,
    theorem,
)
from discreet.publication.pages.clipping_words import how_clipped
from discreet.publication.pages.formats import metric, number, percent_up
from discreet.publication.pages.public_evaluation import shown
from discreet.publication.pages.purpose import Purpose, purpose
from discreet.publication.pages.report import attack_risk, attacks
from discreet.publication.pages.reporting import answers, queries, tier
from discreet.publication.pages.sampling_words import how_drawn
from discreet.publication.pages.unit_words import Words, words_for
from discreet.verification.checks.tuning import described, one_run


@dataclass(frozen=True, slots=True)
class Certified:
    """A verified folder: the certificate's facts, its plan and its model.json. `digest`: SHA-256 of the certificate."""

    facts: dict[str, Any]
    plan: Plan | AdaptivePlan
    spec: ModelSpec
    digest: str

    @property
    def words(self) -> Words:
        """Words for the protected unit."""
        return words_for(self.facts["claim"]["unit"])

    @property
    def purpose(self) -> Purpose:
        """The model's title, target and columns."""
        return purpose(self.spec)

    @property
    def about(self) -> About:
        """The publisher's words in model.json."""
        return self.spec.about or About()


def certified(folder: Path) -> Certified:
    """The facts of `folder`, if it is accepted. `VerificationFailed` if it is rejected, `InputError` if unreadable."""
    from discreet.publication.pages.again import verify

    verification = verify(folder)
    if not verification.accepted:
        failed = next(check for check in verification.checks if not check.passed)
        raise VerificationFailed(f"{folder} was rejected, so nothing is said about it: {failed.name}: {failed.detail}")
    facts = read_certificate(folder)
    spec = ModelSpec.from_json(read(folder / "model.json"))
    return Certified(facts, plan_of(facts), spec, hashlib.sha256(read(folder / CERTIFICATE)).hexdigest())


def neighbours(one: Certified) -> str:
    """When two data sets are neighbours."""
    adjacency = one.facts["claim"]["adjacency"]
    return f"Two data sets are neighbours if {one.words.neighbours.get(adjacency, adjacency)} ({adjacency})"


def size(one: Certified) -> str:
    """The sentence that says whether the number of units is private; empty for an unknown adjacency."""
    return one.words.size.get(one.facts["claim"]["adjacency"], "").rstrip(".")


def meaning(one: Certified) -> str:
    """Tier, and the best attack at one wrong accusation in a hundred."""
    which, name = tier(certified_epsilon(one.facts))
    best = attacks(attack_risk(one.facts["claim"], one.plan))[1]["best"]
    out, used = f"whose {one.words.was} not used", f"whose {one.words.was} used"
    if one.facts["claim"]["adjacency"] == "replace_one":
        out, used = one.words.replaced
    return (
        f"tier {which} of 3 ({name}). An attack that wrongly accuses 1 in 100 of those {out} finds at most "
        f"{percent_up(best)} of those {used}"
    )


def algorithm(one: Certified) -> str:
    """What was asked before the first step, sampling, clipping and noise, a sentence each."""
    run = one_run(one.facts)
    clipped = how_clipped(run["plan"]["clipping"], run["clipping"])
    drawn = how_drawn(run["plan"]["sampling"], one.plan.population, one.words, changes=rate_changes(run))
    steps, chosen = one.plan.step_at(run["charged_steps"]), ""
    if isinstance(one.plan, AdaptivePlan):
        taken = course(run)
        steps = sum(segment.steps for segment in taken.segments)
        chosen = ". How far a step goes is chosen in private, by losses that are clipped" if taken.choices else ""
    asked = f" Before the first, {queries(one.plan)} on the same data, answered with noise." if one.plan.before else ""
    return (
        f"DP-SGD in {number(steps)} steps.{asked} {drawn} Each {one.words.one}'s gradient {clipped.gradient}; Gaussian "
        f"noise is added to their sum{chosen}"
    )


def accounting(one: Certified) -> str:
    """The theorem that the claim rests on, and what is counted."""
    return f"{theorem(one.facts)}. Every look at private rows is counted; events and ledger are in the folder"


def implementation(one: Certified) -> str:
    """Software, and how noise is drawn."""
    made = one.facts["mechanism"]
    return (
        f"{software(one.facts)}. Noise: {made['noise']}, on a grid of whole numbers; randomness: {made['randomness']}; "
        f"gradients by engine {made['engine']}"
    )


def accuracy(one: Certified) -> str | None:
    """The figures on public rows; None if there are none."""
    figures = shown(final_metrics(one_run(one.facts))).figures
    of_all = {name: value for name, value in figures.items() if ": " not in name}
    return ", ".join(f"{name} {metric(value, name)}" for name, value in of_all.items()) or None


def by_subgroup(one: Certified) -> str | None:
    """Accuracy by subgroup of the public rows, with 95 % intervals; None if no subgroups were declared."""
    found = []
    for group in shown(final_metrics(one_run(one.facts))).groups:
        text = f"{group.name}: {group.measure} {metric(group.value, group.measure)}"
        if group.low is not None and group.high is not None:
            text += f" ({metric(group.low, 'accuracy')} to {metric(group.high, 'accuracy')})"
        found.append(f"{text} of {number(group.rows)} rows")
    return "; ".join(found) or None


def answered(one: Certified) -> Mapping[str, str]:
    """The answers of the report, by question."""
    facts = one_run(one.facts)
    return dict(answers(facts, one.plan, one.spec, one.words, described(one.facts)))
