"""The report: one self-contained page that tells a reviewer what is promised, why it holds and how to check it.

Everything on it is post-processing of the certificate and the plan, which hold public facts and releases only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from discreet.accounting.account import Method
from discreet.accounting.answers.attack_risk import SideBySide, posterior_without_delta, side_by_side
from discreet.certificate.model_spec import ModelSpec
from discreet.core.errors import InputError, NotProved
from discreet.core.events import BoundedRange, Event, Gaussian, Selection, SparseHistogram, flatten, steps_of, tally
from discreet.core.events.event_json import from_json, to_json
from discreet.core.metric_names import unit_of
from discreet.core.rounding import places_up
from discreet.plan import AdaptivePlan, PartsSearch, Plan
from discreet.plan.timeline import whole_periods
from discreet.publication.pages.adaptive_course import course
from discreet.publication.pages.certificate_facts import certified_epsilon
from discreet.publication.pages.charts import svg_charts
from discreet.publication.pages.charts.drawn_once import drawn
from discreet.publication.pages.charts.model_charts import figures
from discreet.publication.pages.charts.svg_charts import Prefix
from discreet.publication.pages.contents import use_in_python
from discreet.publication.pages.formats import html_template, number, percent_up
from discreet.publication.pages.purpose import targets_of
from discreet.publication.pages.reporting import in_common
from discreet.publication.pages.sampling_words import who_took_part
from discreet.publication.pages.unit_words import ROW, Words
from discreet.verification.standalone import verifier_file

FALSE_POSITIVES = (0.001, 0.01, 0.1)
"""Where the report states the best true-positive rate of an attack."""

_POINTS = 15
_EVALUATIONS = 200
_MULTIPLIERS = 24

_QUERIES = {
    "clipped_sum": "sum of clipped gradients, with noise",
    "centred_bit": "sum of centred bits (predicted right or not), with noise",
    "covariance": "covariance matrix, with noise",
    "count": "count, with noise",
    "loss": "sum of clipped losses, centred, with noise",
    "histogram": "histogram, with noise",
}
_ASKED = _QUERIES | {"clipped_sum": "sum of clipped rows, with noise"}


def report_page(facts: dict[str, Any], plan: Plan | AdaptivePlan, spec: ModelSpec | None = None) -> str:
    """The report as HTML, from the certificate `facts` and the `plan` that they claim to describe.

    `spec`: the content of model.json; without it, the report says that the model is a module of its maker. `InputError`
    if the plan is not the certificate's, or if the claim is no finite guarantee.
    """
    epsilon, claim = certified_epsilon(facts), facts["claim"]
    if facts["plan_fingerprint"] != plan.fingerprint():
        raise InputError("the certificate belongs to another plan; give the plan that it was written for")
    risk, spec = attack_risk(claim, plan), spec or ModelSpec()
    told = in_common(facts, plan, spec)
    facts, words = told["facts"], told["words"]
    return html_template("report.html.j2").render(
        **told,
        plan=plan,
        stop_at=None if plan.odometer is None else plan.odometer.most,
        size=words.size.get(claim["adjacency"], ""),
        factor=growth(epsilon),
        certainty=posterior_without_delta(claim["epsilon"], 0.5),
        attacks=attacks(risk),
        advantage=risk.best.advantage,
        whole_curve=risk.curve is not None,
        released=released(facts["events"], words, len(plan.before)),
        **(charts(facts, plan) if plan.policy is None else chosen_charts(facts)),
        accuracy_figure=accuracy_figure(facts),
        on_public_rows=figures(spec.public_rows),
        error_unit=unit_of("mae", targets_of(spec)),
        error_bound=None if spec.public_rows is None else spec.public_rows.errors.get("0.9"),
        tradeoff_figure=_tradeoff_chart(risk),
        python=use_in_python(spec),
        verifier=_verifier(),
    )


@cache
def _verifier() -> str:
    """SHA-256 of the single-file verifier in the folder."""
    return sha256(verifier_file()).hexdigest()


def attack_risk(claim: dict[str, Any], plan: Plan | AdaptivePlan) -> SideBySide:
    """The attack risk that the claim allows: by the plan's trade-off function, if one is proved, and by the claim
    alone."""
    try:
        curve = plan.trade_off()
    except NotProved:
        curve = None
    return side_by_side(curve, claim["epsilon"], claim["delta"])


def growth(epsilon: float) -> str:
    """e^eps for reading, rounded up: two digits after the point, or a power of ten beyond a million."""
    if epsilon < 13:
        return f"{Decimal(places_up(math.exp(epsilon), 2)):,}"
    return Markup("10<sup>{}</sup>").format(math.ceil(epsilon / math.log(10)))


def epsilon_curve(facts: dict[str, Any], plan: Plan) -> list[Prefix]:
    """Bounds on the epsilon of the first k steps for about 15 values of k; the last is the certified claim.

    The first steps release part of what all steps release, so an upper bound for more steps holds for fewer. That makes
    the curve monotone although its points are computed to a coarse tolerance. With many noise multipliers, groups of
    neighbouring ones are accounted at their smallest for the upper bound and at their largest for the lower: adding
    noise is post-processing. Only a whole period is known from below: one that has begun counts for the upper bound.
    """
    claim = facts["claim"]
    method = Method.RDP if claim["method"] == "rdp" else Method.PLD
    points = [Prefix(plan.charges, claim["epsilon"], claim["lower"])]
    less, more = _grouped(plan, largest=False), _grouped(plan, largest=True)
    for count in reversed(_counts(plan.charges, len(tally(plan.event())))):
        above = less.first_guarantee(count, plan.delta, method, _coarse)
        whole = whole_periods(plan, count)
        below = above if (more, whole) == (less, count) else more.first_guarantee(whole, plan.delta, method, _coarse)
        lower = None if below.lower is None or points[-1].lower is None else min(below.lower, points[-1].lower)
        points.append(Prefix(count, min(above.epsilon, points[-1].upper), lower))
    return points[::-1]


def charts(facts: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The figures of a fixed plan and the points of the first one, for the template."""
    if isinstance(plan.search, PartsSearch):  # of a run: the choice costs the same whatever the steps
        plan = plan.model_copy(update={"search": None})
    claim, curve = facts["claim"], epsilon_curve(facts, plan)
    charged = facts["charged_steps"]
    return {
        "course": None,
        "metrics_bought": plan.charges - plan.steps - len(plan.before),
        "batches": [batch for batch, _ in plan.batches],
        "multipliers": [multiplier for multiplier, _ in plan.multipliers],
        "curve": curve,
        "epsilon_figure": drawn(
            svg_charts.epsilon_chart, curve, places_up(claim["epsilon"]), charged if charged < plan.charges else None
        ),
        "noise_figure": drawn(svg_charts.noise_chart, plan.multipliers),
        "batch_figure": drawn(svg_charts.batch_chart, plan.batches) if plan.rates else None,
    }


def chosen_charts(facts: dict[str, Any]) -> dict[str, Any]:
    """The figures of an adaptive run."""
    found = course(facts)
    batches = [(segment.batch, segment.steps) for segment in found.segments]
    return {
        "course": found,
        "batches": found.batches,
        "multipliers": [noise for noise, _ in found.phases],
        "curve": [],
        "epsilon_figure": drawn(svg_charts.spent_chart, found.spent),
        "noise_figure": drawn(svg_charts.noise_chart, found.phases),
        "batch_figure": drawn(svg_charts.batch_chart, batches) if len(set(found.batches)) > 1 else None,
    }


def accuracy_figure(facts: dict[str, Any]) -> Markup | None:
    """Accuracy on public data over the steps, where there is more than one point."""
    measured = [entry for entry in facts["public_evaluations"] if "accuracy" in entry]
    if not len(measured) > 1:
        return None
    return drawn(svg_charts.accuracy_chart, [e["step"] for e in measured], [e["accuracy"] for e in measured])


def attacks(risk: SideBySide) -> list[dict[str, float]]:
    """The most true positives at a few rates of false positives: by both bounds, and by the sharper of them."""
    return [
        {
            "false_positives": rate,
            "best": risk.best.true_positive_rate(rate),
            "budget": risk.budget.true_positive_rate(rate),
        }
        for rate in FALSE_POSITIVES
    ]


def _tradeoff_chart(risk: SideBySide) -> Markup:
    """Both bounds over the rate of false positives, with close points where the curves are steep."""
    spread = np.linspace(0.0, math.pi, 121)
    shares = (1 - np.cos(spread)) / 2
    best, budget = (each.true_positive_rates(shares).tolist() for each in (risk.best, risk.budget))
    at_one, loose = (percent_up(each.true_positive_rate(0.01)) for each in (risk.best, risk.budget))
    about = f"At 1% false positives at most {at_one} true positives; guessing has 1%."
    if risk.curve is not None:
        about += f" Epsilon and delta alone leave {loose} possible."
    return drawn(svg_charts.tradeoff_chart, shares.tolist(), best, budget if risk.curve is not None else None, about)


def released(events: dict[str, Any], words: Words = ROW, before: int = 0) -> list[dict[str, Any]]:
    """The stated events in order, with a row for each segment of equal steps; the first `before` events are queries. A
    search has the rows of one of its runs, and epochs that repeat have those of the first."""
    rows, begin = [], 1
    for event, run in groupby(flatten(from_json(events)), key=lambda part: part[0]):
        times = sum(count for _, count in run)
        if isinstance(event, Selection):
            of_run = released(to_json(event.event), words)
            rows += [row | {"what": f"in every run of a search: {row['what']}"} for row in of_run]
            continue
        segments = [(inner, len(list(equal))) for inner, equal in groupby(steps_of(event))]
        if len(segments) == 1:
            segments, times = [(segments[0][0], segments[0][1] * times)], 1
        draw, again = who_took_part(event, words), (times - 1) * sum(length for _, length in segments)
        if again:
            draw += f"; {number(times)} times in a row"
        for inner, length in segments:
            asked = min(length, max(0, before + 1 - begin))
            for count, query in ((asked, True), (length - asked, False)):
                if count:
                    rows.append({"draw": draw, "first": begin, "last": begin + count - 1})
                    rows[-1] |= _said(inner, words, query=query)
                    begin += count
        begin += again
    return rows


def _said(inner: Event, words: Words, *, query: bool) -> dict[str, Any]:
    """The releases of a step in words, and their noise multiplier if they have the same."""
    parts = [_part(part, words, query=query, times=times) for part, times in flatten(inner)]
    one = len({multiplier for _, multiplier in parts}) == 1
    what = "; ".join(said if one or noise is None else f"{said} of multiplier {number(noise)}" for said, noise in parts)
    what = f"before the first step: {what}" if query else what
    return {"what": what, "noise": parts[0][1] if one else None}


def _part(part: Event, words: Words, *, query: bool, times: int) -> tuple[str, float | None]:
    if isinstance(part, Gaussian):
        what = (_ASKED if query else _QUERIES)[part.query.value]
        return (what if times == 1 else f"{times} times a {what}"), part.noise_multiplier
    if isinstance(part, SparseHistogram):
        what = f"values of a column that more than {part.threshold:g} {words.many} have, by counts with noise"
        return what, part.noise_multiplier
    if isinstance(part, BoundedRange):
        most = places_up(part.epsilon)
        return f"choice of a step size by clipped losses, its privacy loss within a range of {most}", None
    return json.dumps(to_json(part)), None


def _coarse(epsilon: float) -> float:
    return max(0.01 * epsilon, 1e-3)


def _counts(steps: int, multipliers: int) -> Sequence[int]:
    """Step counts below `steps` to evaluate, denser at the start; fewer if each takes long."""
    points = max(5, min(_POINTS, _EVALUATIONS // min(multipliers, _MULTIPLIERS)))
    spread = {math.ceil(steps * (point / points) ** 1.5) for point in range(1, points)}
    return sorted(({1} | spread) - {steps})


def _grouped(plan: Plan, *, largest: bool) -> Plan:
    """The plan with at most 24 distinct multipliers: each becomes the smallest, or the largest, of its group."""
    distinct = sorted({phase.multiplier for phase in plan.noise})
    size = math.ceil(len(distinct) / _MULTIPLIERS)
    if size == 1:
        return plan
    end = {value: distinct[i - i % size :][:size][-1 if largest else 0] for i, value in enumerate(distinct)}
    noise = tuple(phase.model_copy(update={"multiplier": end[phase.multiplier]}) for phase in plan.noise)
    return plan.model_copy(update={"noise": noise})
