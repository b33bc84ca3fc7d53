"""Recipes that name a method which shapes the noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discreet import InputError, Plan, verify
from discreet.cli.app import run
from discreet.methods import ADADP
from discreet.plan import BoxClipping, EllipsoidClipping
from discreet.recipes import load_recipe


def plan_of(*settings: str) -> Any:
    plan = load_recipe("digits", ["clip_norm=2", *settings]).plan()
    assert isinstance(plan, Plan)
    return plan.clipping


def test_the_plan_has_the_clipping_of_the_method() -> None:
    assert plan_of("geometry={name: adadp}") == EllipsoidClipping(norm=2.0, scales="adadp")
    assert plan_of("geometry={name: dpopt, kind: box, power: 0}") == BoxClipping(scales="dpopt with clip norm 2")
    recipe = load_recipe("digits", ["clip_norm=2", "geometry={name: adadp, beta: 1.5}"])
    assert recipe.geometry is not None
    assert recipe.geometry.rule() == ADADP(beta=1.5)
    assert recipe.build_geometry(recipe.build_model()).clipping == {"kind": "ellipsoid", "scales": "adadp", "norm": 2.0}  # type: ignore[union-attr]
    assert load_recipe("digits").build_geometry(recipe.build_model()) is None


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (["geometry={name: adadb}"], "unknown name; known: adaclip, adadp, dpopt"),
        (["geometry={name: adadp, kind: ball}"], "geometry.kind"),
        (["geometry={name: adadp, beta: 0}"], "beta must be finite and greater than 0"),
        (["geometry={name: adadp, gama: 1}"], "cannot take these arguments"),
        (["geometry={name: adadp}", "clip_norm=null", "clipping={per_layer: 1}"], "geometry goes with clip_norm"),
        (["clip_norm=null", "clipping={kind: box}"], "name a method with geometry: {name: adadp, kind: box}"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings: list[str], fault: str) -> None:
    with pytest.raises(InputError, match=fault) as caught:
        load_recipe("digits", settings).plan()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["ellipsoid", "box"])
def test_a_recipe_trains_and_verifies(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sets = ["clip_norm=1", f"geometry={{name: adadp, kind: {kind}}}", "optimizer={name: rmsprop, lr: 0.002}", "steps=4"]
    assert run(["train", "digits", *[word for one in sets for word in ("--set", one)], "--out", "out"]) == 0
    assert verify("out").accepted
    facts = json.loads(Path("out/certificate.json").read_text())
    assert facts["plan"]["clipping"]["scales"].startswith("adadp")
