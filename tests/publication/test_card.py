"""The model card: readable front matter, figures on the safe side, no text that turns into markup."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from discreet.certificate.adapter_files import BESIDE
from discreet.certificate.files import FILES, RELEASED
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.core.errors import InputError
from discreet.core.events.event_json import to_json
from discreet.plan import NoSampling, Plan
from discreet.publication.pages.card import model_card
from discreet.publication.pages.contents import CONTENTS, contents
from discreet.publication.pages.formats import code, markdown
from discreet.publication.pages.reporting import rho, tier


def make_facts(noise: Any = 4.0) -> dict[str, Any]:
    plan = Plan.poisson(population=1437, batch=300, steps=40, clip_norm=1.0, delta=1e-4, noise_multiplier=noise)
    claim = plan.guarantee()
    return {
        "format": "discreet-certificate/1",
        "claim": {
            "kind": "guarantee",
            "epsilon": claim.epsilon,
            "lower": claim.lower,
            "delta": claim.delta,
            "adjacency": "add_remove",
            "unit": "example",
            "method": claim.method,
        },
        "plan": plan.model_dump(mode="json"),
        "plan_fingerprint": plan.fingerprint(),
        "events": to_json(plan.event()),
        "clipping": {"rule": "the clip norm", "sensitivity": 1.0},
        "charged_steps": 40,
        "ledger": {"digest": "cd" * 32, "entries": []},
        "mechanism": {
            "sampler": "poisson",
            "engine": "vmap",
            "noise": "fast",
            "grid_bits": 30,
            "randomness": "system",
        },
        "assumptions": ["Each row of the data set is one unit."],
        "model": {
            "file": "model.safetensors",
            "sha256": "ab" * 32,
            "private": ["head.weight"],
            "initial": {"head.weight": "01", "front.scale": "02"},
        },
        "bought_metrics": [],
        "ex_post": None,
        "public_evaluations": [{"step": 40, "loss": 0.25, "accuracy": 0.964}],
        "software": {"discreet": "0.1.0", "python": "3.11.2"},
    }


def front(card: str) -> dict[str, Any]:
    start, block, body = card.split("---\n", 2)
    assert start == ""
    assert body.lstrip().startswith("# ")
    return dict(yaml.safe_load(block))


def test_front_matter_is_what_hugging_face_reads() -> None:
    """Its metadata: a task, tags, and a model-index whose results name task, data set and metrics with numbers."""
    found = front(model_card(make_facts(), ModelSpec(model=Named("digit_strokes"), data="digits", inputs=(64,))))
    assert found["library_name"] == "discreet"
    assert found["pipeline_tag"] == "image-classification"
    assert "differential-privacy" in found["tags"]
    (entry,) = found["model-index"]
    (result,) = entry["results"]
    assert entry["name"] == "digit_strokes"
    assert result["task"] == {"type": "image-classification"}
    assert result["dataset"] == {"name": "digits, declared public", "type": "digits"}
    assert result["metrics"] == [{"type": "loss", "value": 0.25}, {"type": "accuracy", "value": 0.964}]


def test_front_matter_says_no_more_than_is_known() -> None:
    found = front(model_card(make_facts() | {"public_evaluations": [{"step": 1, "loss": math.nan}]}))
    assert set(found) == {"library_name", "tags"}
    named = ModelSpec(module="a.b.Net", outputs="numbers", table={})
    assert front(model_card(make_facts(), named))["pipeline_tag"] == "tabular-regression"


def test_front_matter_tells_images_and_texts_from_tables() -> None:
    """A schema as model.json has it; amounts read off images or texts have no task there."""
    for kind, outputs, task in [
        ("image", "classes", "image-classification"),
        ("text", "classes", "text-classification"),
        ("number", "classes", "tabular-classification"),
        ("text", "numbers", None),
    ]:
        schema = {"columns": {"x": {"type": kind}, "y": {"type": "category"}}}
        found = front(model_card(make_facts(), ModelSpec(module="a.Net", outputs=outputs, table={"schema": schema})))
        assert found.get("pipeline_tag") == task


def test_the_card_answers_the_reporting_guide() -> None:
    """The facts that Ponomareva et al. 2023 ask for, of three kinds of plans."""
    card = model_card(make_facts())
    table = card[card.index("## Reporting") : card.index("## Assumptions")]
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE))
    assert rows["Setting"].startswith("central")
    assert rows["Looks at the data that are covered"] == "40 steps of training"
    assert "earlier runs" in rows["Looks at the data that are not covered"]
    assert "no rho" in rows["Guarantee"]  # zCDP gains nothing from sampling
    assert "tensors that were not trained (1 of 2)" in rows["Not private"]
    plan = Plan.poisson(population=9, batch=9, steps=8, clip_norm=1.0, delta=1e-4, noise_multiplier=4.0)
    unsampled = plan.model_copy(update={"sampling": NoSampling()})
    assert rho(unsampled) == pytest.approx(8 / (2 * 4.0**2), rel=1e-9)  # Bun and Steinke 2016, Proposition 1.6
    assert rho(unsampled) >= 0.25
    assert [tier(epsilon) for epsilon in (0.5, 1.0, 1.01, 10.0, 10.1)] == [
        (1, "strong"), (1, "strong"), (2, "reasonable"), (2, "reasonable"), (3, "weak"),
    ]  # fmt: skip


def test_card_states_the_claim_on_the_safe_side() -> None:
    facts = make_facts()
    card = model_card(facts)
    shown = re.search(r"epsilon \(rounded up\) \| \*\*([\d.]+)\*\*", card)
    assert shown
    assert 0 <= Decimal(shown[1]) - Decimal(facts["claim"]["epsilon"]) < Decimal("0.0001")
    least = re.search(r"epsilon is at least [^|]*\| ([\d.]+)", card)
    assert least
    assert Decimal(least[1]) <= Decimal(facts["claim"]["lower"])
    for text in ("0.0001", "`add_remove`", "`example`", "`pld`", "discreet 0.1.0, python 3.11.2", "1,437", "96.4%"):
        assert text in card
    assert "discreet verify FOLDER" in card


def test_files_are_called_the_same_on_the_card_and_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text()
    described = dict(re.findall(r"^\| ([\w.]+) \| ([^|]+) \|$", page[: page.index("## The report")], re.MULTILINE))
    described.pop("file")
    assert described == dict(CONTENTS)
    assert contents({}).keys() == CONTENTS.keys() - {RELEASED, *BESIDE}
    assert set(FILES) <= contents({}).keys()


def test_the_card_says_how_to_use_the_model() -> None:
    own = model_card(make_facts(), ModelSpec(module="a.b.Net"))
    assert 'discreet.load("FOLDER", model=build_model())' in own
    assert "returns the model (Net) as the script that trained it" in own
    assert "returns the model as the script that trained it" in model_card(make_facts(), ModelSpec(module="a.f(x)"))
    known = model_card(make_facts(), ModelSpec(model=Named("linear"), inputs=(8, 8)))
    assert "discreet predict FOLDER new.csv" in known
    assert "shape (n, 8, 8)" in known


def test_tables_have_two_cells_in_every_row() -> None:
    facts = make_facts([(4.0, 20), (5.0, 20)])
    facts["public_evaluations"][0]["a|b"] = 1.0
    rows = [line for line in model_card(facts).splitlines() if line.startswith("|")]
    assert rows
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert "4 to 5, 2 phases" in "\n".join(rows)


def test_card_works_without_evaluations_and_lower_bound() -> None:
    facts = make_facts() | {"public_evaluations": []}
    facts["claim"]["lower"] = None
    card = model_card(facts)
    assert "No metric on public data was recorded" in card
    assert "at least" not in card


def test_hostile_texts_stay_texts() -> None:
    facts = make_facts() | {"assumptions": ["<script>x</script> [a](b) `c`\n# Head\n| d |"]}
    facts["claim"]["method"] = "p`l\n|d<b>"
    card = model_card(facts)
    assert "<script>" not in card
    assert "\n# Head" not in card
    assert "](b)" not in card.replace("\\](b)", "")
    assert "`p'l \\|d<b>`" in card
    assert markdown("a*b") == "a\\*b"
    assert code("a`b") == "`a'b`"


@pytest.mark.parametrize("change", [{"kind": "ex_post"}, {"epsilon": math.inf}, {"epsilon": -1.0}, {"epsilon": True}])
def test_only_finite_guarantees_are_printed(change: dict[str, Any]) -> None:
    facts = make_facts()
    facts["claim"] |= change
    with pytest.raises(InputError):
        model_card(facts)
