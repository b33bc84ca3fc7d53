"""The report: what it shows is what is certified, on the safe side, and the page needs nothing but itself."""

from __future__ import annotations

import copy
import math
import re
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, Walk, facts_of, small_plan

from discreet.accounting import Method
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import InputError
from discreet.core.events import Compose, Epoch, Gaussian, Poisson, Repeat, Selection
from discreet.core.events.event_json import to_json
from discreet.core.rounding import places_down, places_up
from discreet.core.trials import NegativeBinomialTrials
from discreet.plan import IndividualSampling, NoSampling, Plan, ShuffleSampling
from discreet.publication.pages.charts import svg_charts
from discreet.publication.pages.formats import percent_up
from discreet.publication.pages.report import attack_risk, attacks, epsilon_curve, released, report_page


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan()


@pytest.fixture(scope="module")
def facts(plan: Plan) -> dict[str, Any]:
    return facts_of(plan)


@pytest.fixture(scope="module")
def page(facts: dict[str, Any], plan: Plan) -> str:
    return report_page(facts, plan)


def test_page_is_well_formed_with_one_h1_and_unique_ids(page: str) -> None:
    walk = Walk(page)
    identifiers = [attributes["id"] for _, attributes in walk.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert len(walk.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in walk.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all("scope" in attributes for attributes in walk.all("th"))
    assert walk.all("html")[0]["lang"] == "en"


def test_page_loads_nothing(page: str) -> None:
    walk = Walk(page)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in walk.tags}
    for _, attributes in walk.tags:
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"https?://|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_references_inside_the_page_have_targets(page: str) -> None:
    walk = Walk(page)
    identifiers = {attributes.get("id") for _, attributes in walk.tags}
    references = re.findall(r'(?:href="#|url\(#)([^")]+)', page)
    labels = [part for _, attributes in walk.tags for part in (attributes.get("aria-labelledby") or "").split()]
    assert references
    assert set(references) | set(labels) <= identifiers


def test_every_figure_has_title_description_and_page_colours(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert re.search(r"<title id=[^>]+>[^<]+</title><desc id=[^>]+>[^<]+</desc>", drawing)
        assert 'role="img"' in drawing
        assert "var(--accent)" in drawing
        assert not re.search(r"#0[1-4]0[1-4]0[1-4]|DejaVu", drawing)
        assert "<text" in drawing


def test_shown_epsilon_is_not_below_the_certified(page: str, facts: dict[str, Any]) -> None:
    shown = re.search(r"Certified epsilon</dt><dd>([\d.]+)", page)
    assert shown
    assert 0 <= Decimal(shown[1]) - Decimal(facts["claim"]["epsilon"]) < Decimal("0.0001")


@given(st.floats(0, 1e9))
def test_roundings_are_outward(value: float) -> None:
    """Of the number as it is written: 0.1 is no more than 0.1, though its float is. As floats it is the same law."""
    assert Decimal(places_down(value)) <= Decimal(repr(value)) <= Decimal(places_up(value))
    assert float(places_down(value)) <= value <= float(places_up(value))


@given(st.floats(0, 1))
def test_percentages_are_rounded_up(value: float) -> None:
    assert Decimal(percent_up(value).rstrip("%")) >= Decimal(value) * 100


def test_attacks_are_those_of_the_plan_and_of_the_claim(page: str, facts: dict[str, Any], plan: Plan) -> None:
    """Against the profile that dp-accounting 0.6.0 computes (pessimistic, grid 1e-4) for the same plan."""
    theirs = PLDAccountant().compose(
        SelfComposedDpEvent(PoissonSampledDpEvent(plan.sampling.rate, GaussianDpEvent(4.0)), plan.steps)
    )
    epsilons = [k / 50 for k in range(200)]
    profile = [float(theirs.get_delta(epsilon)) for epsilon in epsilons]
    rows = attacks(attack_risk(facts["claim"], plan))
    assert [row["false_positives"] for row in rows] == [0.001, 0.01, 0.1]
    for row in rows:
        share = row["false_positives"]
        exact = min(delta + math.exp(epsilon) * share for epsilon, delta in zip(epsilons, profile, strict=True))
        assert row["best"] == pytest.approx(exact, rel=2e-3)
        claim = facts["claim"]
        assert row["budget"] == pytest.approx(claim["delta"] + math.exp(claim["epsilon"]) * share)
        assert row["best"] <= row["budget"]
    text = " ".join(Walk(page).text.split())
    assert f"at most {percent_up(rows[1]['best'])} of those whose row was used" in text
    assert percent_up(rows[1]["budget"]) in text


def test_without_a_curve_only_the_claim_is_read(plan: Plan) -> None:
    sampled = plan.model_copy(update={"adjacency": Adjacency.REPLACE_ONE})
    risk = attack_risk({"epsilon": 1.0, "delta": 1e-5}, sampled)
    assert risk.curve is None
    assert attacks(risk)[1]["best"] == attacks(risk)[1]["budget"] == pytest.approx(math.e * 0.01 + 1e-5)


@pytest.mark.parametrize("phases", [4.0, [(3.0 + 0.02 * i, 1) for i in range(40)]])
def test_curve_is_monotone_brackets_and_ends_at_the_claim(phases: Any) -> None:
    plan = small_plan(noise_multiplier=phases)
    facts = facts_of(plan)
    curve = epsilon_curve(facts, plan)
    assert (curve[-1].step, curve[-1].upper, curve[-1].lower) == (
        40,
        facts["claim"]["epsilon"],
        facts["claim"]["lower"],
    )
    assert [point.step for point in curve] == sorted({point.step for point in curve})
    assert curve[0].step == 1
    for before, after in pairwise(curve):
        assert before.upper <= after.upper
        assert before.lower is not None
        assert after.lower is not None
        assert before.lower <= after.lower
    middle = curve[len(curve) // 2]
    exact = Plan.guarantee(plan.model_copy(update={"noise": prefix_phases(plan, middle.step)}))
    assert exact.lower is not None
    assert middle.lower is not None
    assert middle.lower <= exact.epsilon
    assert exact.lower <= middle.upper


@pytest.mark.parametrize("sampling", [IndividualSampling(period=4, full=2), ShuffleSampling(batch=6)])
def test_a_period_that_has_begun_is_not_known_from_below(sampling: Any) -> None:
    """A unit has budget for two steps of four, or is in one of four: after the first step less can be said of it than
    after all four. At full length one step has epsilon 0.7255, by the closed form, where a period has 1.0607."""
    plan = Plan.make(
        sampling, population=24, steps=8, noise_multiplier=5.0, clip_norm=1.0, delta=1e-5, adjacency=Adjacency.ZERO_OUT
    )
    curve = epsilon_curve(facts_of(plan), plan)
    lower = {point.step: point.lower for point in curve}
    assert [lower[step] for step in (1, 2, 3)] == [0.0] * 3
    first_period = plan.first_guarantee(4, plan.delta, Method.PLD).lower
    assert first_period is not None
    assert first_period > 0.3
    assert [lower[step] for step in (4, 5, 6, 7)] == pytest.approx([first_period] * 4, rel=0.02)
    assert curve[0].upper > 0.7


def prefix_phases(plan: Plan, count: int) -> tuple[Any, ...]:
    each = [phase.model_copy(update={"steps": 1}) for phase in plan.noise for _ in range(phase.steps)]
    return tuple(each[:count])


def test_page_works_with_many_phases_and_an_early_end() -> None:
    plan = small_plan(noise_multiplier=[(3.0 + 0.02 * i, 1) for i in range(40)])
    facts = facts_of(plan)
    facts["charged_steps"] = 12
    walk = Walk(report_page(facts, plan))
    assert "All 40 phases" in walk.text
    assert "run ended" in walk.text
    assert "although only 12 of them were charged" in " ".join(walk.text.split())


@pytest.mark.parametrize("evaluations", [0, 1])
def test_page_works_without_a_curve_of_evaluations(plan: Plan, evaluations: int) -> None:
    page = report_page(facts_of(plan, evaluations), plan)
    assert page.count("<svg") == 3
    assert ("Test accuracy" in page) == bool(evaluations)
    Walk(page)


def test_page_works_without_a_lower_bound_and_for_rdp(plan: Plan) -> None:
    claim = plan.guarantee(method="rdp")  # type: ignore[arg-type]
    facts = facts_of(plan)
    facts["claim"] |= {"method": "rdp", "epsilon": claim.epsilon, "lower": None}
    page = report_page(facts, plan)
    assert "not known" in page
    assert "at least 0" not in page


@pytest.mark.parametrize(("adjacency", "batch"), [("zero_out", 300), ("replace_one", 1437)])
def test_other_adjacencies(adjacency: str, batch: int) -> None:
    plan = small_plan(adjacency="zero_out", batch=batch, noise_multiplier=60.0)
    if adjacency == "replace_one":
        plan = plan.model_copy(update={"sampling": NoSampling(), "adjacency": Adjacency.REPLACE_ONE})
    assert "one row is replaced by" in report_page(facts_of(plan), plan)


def test_a_weak_promise_is_called_weak() -> None:
    plan = small_plan(noise_multiplier=0.27)
    text = " ".join(Walk(report_page(facts_of(plan), plan)).text.split())
    assert "does not exclude an attack" in text
    assert "does not stop anyone who thought" in text


def test_hostile_texts_stay_texts(facts: dict[str, Any], plan: Plan) -> None:
    bad = copy.deepcopy(facts)
    bad["assumptions"] = [HOSTILE]
    bad["model"] |= {"private": [HOSTILE], "file": HOSTILE, "sha256": HOSTILE}
    bad["software"][HOSTILE] = HOSTILE
    bad["public_evaluations"][-1][HOSTILE] = 1.0
    bad["mechanism"] = dict.fromkeys(bad["mechanism"], HOSTILE)
    bad["ledger"]["digest"] = bad["format"] = HOSTILE
    walk = Walk(report_page(bad, plan))
    assert walk.all("script") == []
    assert not any("onload" in attributes for _, attributes in walk.tags)
    assert walk.text.count(HOSTILE) >= 12


def test_nothing_but_facts_is_shown_and_equal_input_gives_equal_text(
    facts: dict[str, Any], plan: Plan, page: str
) -> None:
    assert report_page(facts, plan) == page
    assert (
        report_page(facts | {"training_loss": 0.123456789, "ledger": facts["ledger"] | {"path": "/secret/path"}}, plan)
        == page
    )


def test_refuses_another_plan_estimates_and_infinity(facts: dict[str, Any], plan: Plan) -> None:
    with pytest.raises(InputError, match="another plan"):
        report_page(facts, small_plan(steps=41))
    for change in ({"kind": "estimate"}, {"epsilon": math.inf}, {"epsilon": math.nan}, {"epsilon": None}):
        with pytest.raises(InputError):
            report_page(facts | {"claim": facts["claim"] | change}, plan)


def test_released_lists_the_events_in_order() -> None:
    plan = small_plan(noise_multiplier=[(4.0, 10), (4.0, 5), (5.0, 25)])
    rows = released(to_json(plan.event()))
    assert [(row["first"], row["last"], row["noise"]) for row in rows] == [(1, 15, 4.0), (16, 40, 5.0)]
    other = {"event": "poisson", "rate": 0.5, "of": {"event": "compose", "of": [to_json(plan.event())]}}
    assert released(other)[0]["noise"] is None


def test_released_has_no_event_in_the_form_of_a_file() -> None:
    """Epochs of changing noise, searches and several queries on one draw were shown as JSON."""
    sums, bit = "sum of clipped gradients, with noise", "sum of centred bits (predicted right or not), with noise"
    epochs = [Epoch(Compose((Repeat(Gaussian(2.0), 3), Gaussian(3.0)))), Epoch(Repeat(Gaussian(3.0), 4))]
    rows = released(to_json(Compose((epochs[0], Repeat(epochs[1], 2), Repeat(epochs[0], 2)))))
    assert [(row["first"], row["last"], row["noise"], row["what"]) for row in rows] == [
        (1, 3, 2.0, sums),
        (4, 4, 3.0, sums),
        (5, 12, 3.0, sums),
        (13, 15, 2.0, sums),
        (16, 16, 3.0, sums),
    ]
    once = "all rows, shuffled, in 4 batches"
    assert [row["draw"] for row in rows] == [once] * 3 + [f"{once}; 2 times in a row"] * 2
    after = released(to_json(Compose((Repeat(epochs[0], 10**6), Gaussian(1.0)))))
    assert [row["first"] for row in after] == [1, 4, 4 * 10**6 + 1]

    run = Compose((Repeat(Poisson(0.5, Gaussian(1.5)), 7), Gaussian(4.0, Query.CENTRED_BIT)))
    rows = released(to_json(Selection(run, NegativeBinomialTrials(1.0, 0.25))))
    assert [(row["first"], row["last"], row["noise"], row["what"]) for row in rows] == [
        (1, 7, 1.5, f"in every run of a search: {sums}"),
        (8, 8, 4.0, f"in every run of a search: {bit}"),
    ]

    draw = Poisson(0.5, Compose((Gaussian(2.0, Query.COUNT), Repeat(Gaussian(3.0), 2))))
    (row,) = released(to_json(draw), before=1)
    said = "count, with noise of multiplier 2; 2 times a sum of clipped rows, with noise of multiplier 3"
    assert (row["what"], row["noise"]) == (f"before the first step: {said}", None)


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(mpl.rcParams)
        drawing = svg_charts.noise_chart([(1.0, 5)])
        assert dict(mpl.rcParams) == before
    assert drawing == svg_charts.noise_chart([(1.0, 5)])


def test_importing_the_report_does_not_load_matplotlib() -> None:
    code = (
        "import sys, discreet.publication.pages.report; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_charts_say_what_is_spent_rounded_up() -> None:
    """To the nearest they said 0.123 and 99.9%."""
    rising = svg_charts.epsilon_chart([svg_charts.Prefix(1, 0.12341, None), svg_charts.Prefix(2, 1.0, None)], "1.0000")
    assert "Rises from 0.124 after step 1" in rising
    assert "Rises to 100.0% after 9 charged steps." in svg_charts.spent_chart([(1, 0.1), (9, 0.99941)])
