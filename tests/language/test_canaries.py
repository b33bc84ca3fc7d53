"""Canaries: which texts are made up, how exposed they are, and what report and card say of them beside the bound."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from digit_texts import encode, rows_of
from language_families import inner_model, on_rows

import discreet
from discreet.certificate.described import Exposed, OfTexts
from discreet.certificate.model_spec import of_module
from discreet.core.errors import InputError
from discreet.language import TASKS, Canaries, TransformersModel, exposures
from discreet.publication.pages.measured_words import canaries as beside_the_bound
from discreet.verification.standalone import verify as standalone

pytest.importorskip("transformers", reason="transformers is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")

MADE_UP = Canaries.made_up("{}", count=3, others=200, digits=5, seed=4)


@pytest.fixture
def model() -> TransformersModel:
    torch.manual_seed(0)
    return on_rows(inner_model("GPT-2", "causal-lm"), "causal-lm")


def test_texts_are_made_up_by_a_public_seed() -> None:
    found = Canaries.made_up("My code is {}.", count=4, others=50, digits=3, seed=1)
    assert found == Canaries.made_up("My code is {}.", count=4, others=50, digits=3, seed=1)
    assert (len(found.inserted), len(found.others)) == (4, 50)
    assert len({*found.inserted, *found.others}) == 54
    assert all(len(text) == len("My code is 000.") for text in found.inserted)


@pytest.mark.parametrize(
    "given",
    [
        {"template": "no place"},
        {"template": "{} and {}"},
        {"digits": 2},
        {"digits": 16},
        {"count": 0},
        {"others": 0},
        {"template": "{}" + 1900 * "a"},
    ],
)
def test_bad_input_says_what_is_wrong(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(given))):
        Canaries.made_up(**{"template": "{}", **given})


def test_other_tasks_have_no_canaries() -> None:
    classifier = on_rows(inner_model("GPT-2", "classification"), "classification")
    with pytest.raises(InputError, match="causal"):
        exposures(classifier, MADE_UP, encode)


def test_ranks_are_those_of_the_losses(model: TransformersModel) -> None:
    """Against a loop over single texts; chunks do not matter, and the mode of the model is as before."""

    def loss(text: str) -> float:
        inputs, targets = encode([text])
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model.eval()(inputs), targets, reduction="sum"))

    found = exposures(model.train(), MADE_UP, encode, chunk=7)
    assert model.training
    others = [loss(text) for text in MADE_UP.others]
    for one, text in zip(found, MADE_UP.inserted, strict=True):
        assert (one.text, one.others) == (text, 200)
        assert abs(one.better - sum(other <= loss(text) for other in others)) <= 1  # rounding may turn a tie


def test_a_text_that_was_learned_by_heart_is_exposed(model: TransformersModel) -> None:
    """Trained without privacy on the canaries alone, each is first; a model that never saw them ranks none so."""
    assert all(one.better > 0 for one in exposures(model, MADE_UP, encode))
    inputs, targets = encode(MADE_UP.inserted)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.train()(inputs), targets).backward()
        optimizer.step()
    assert [one.better for one in exposures(model, MADE_UP, encode)] == [0, 0, 0]


def test_the_modes_of_modules_are_as_they_were(model: TransformersModel) -> None:
    model.train()
    first = next(one for one in model.modules() if isinstance(one, torch.nn.Dropout)).eval()
    exposures(model, MADE_UP, encode)
    assert model.training
    assert not first.training


def test_no_text_is_better_than_more_others_than_there_are() -> None:
    with pytest.raises(ValueError, match="better is a number of the 3 others, got 4"):
        Exposed(text="7", better=4, others=3)


def test_what_the_guarantee_leaves() -> None:
    """At epsilon 0 it is the share of ranks as good; e^epsilon as much otherwise, plus delta; never more than all."""
    texts = OfTexts(task="causal-lm", canaries=(Exposed(text="7", better=0, others=999),))
    (one,) = beside_the_bound(texts, 0.0, 0.0)
    assert (round(one.exposure, 6), round(one.highest, 6)) == (round(math.log2(1000), 6),) * 2
    assert one.chance in ("0.10%", "0.11%")
    assert beside_the_bound(texts, math.log(100), 0.05)[0].chance in ("15.0%", "15.1%")
    assert beside_the_bound(texts, 800.0, 1e-5)[0].chance == "100.0%"
    assert beside_the_bound(None, 1.0, 1e-5) == []


def test_a_published_folder_says_it(model: TransformersModel, tmp_path: Path) -> None:
    """Canaries are rows like all others; the folder with their exposure is accepted, and report and card show it."""
    texts = [*MADE_UP.inserted, *(f"{place:05}" for place in range(37))]
    plan = discreet.Plan.poisson(population=40, batch=20, steps=2, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given: dict[str, Any] = {"run": tmp_path / "run", "engine": "bookkeeping"}
    public = discreet.PublicData(canaries=MADE_UP.declared)
    training = discreet.Training(
        plan, model, TASKS["causal-lm"].loss(), optimizer, rows_of(texts), public=public, **given
    )
    trained = training.run(progress=False)
    found = exposures(trained.model, MADE_UP, encode)
    spec = replace(of_module(trained.model), language=OfTexts(task="causal-lm", canaries=found))
    discreet.publish(trained, tmp_path / "out", spec)
    assert discreet.verify(tmp_path / "out", strict=True).accepted
    assert "canaries: 3 of the units are made-up texts" in standalone.check(tmp_path / "out", None, strictly=True)
    for page in ("report.html", "README.md"):
        page_text = (tmp_path / "out" / page).read_text()
        assert "Canaries" in page_text
        assert all(text in page_text for text in MADE_UP.inserted)
        assert f"{math.log2(201 / (found[0].better + 1)):.1f}" in page_text
