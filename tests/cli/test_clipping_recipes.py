"""Recipes that say how gradients are clipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discreet import InputError, Plan, verify
from discreet.cli.app import run
from discreet.plan import AdaptiveClipping, GroupClipping, PerLayerClipping, ScheduledClipping
from discreet.recipes import load_recipe


def plan_of(*settings: str) -> Plan:
    plan = load_recipe("digits", ["clip_norm=null", *settings]).plan()
    assert isinstance(plan, Plan)
    return plan


def test_every_way_to_clip_has_a_key() -> None:
    scheduled = plan_of("clip_schedule=exponential:initial=2,rate=0.1").clipping
    assert isinstance(scheduled, ScheduledClipping)
    assert scheduled.norm_at(0) == 2.0
    assert scheduled.norm_at(39) < 1.0
    assert plan_of("clipping={per_layer: 0.5}").clipping == PerLayerClipping(norm=0.5)
    groups = plan_of('clipping={groups: {"0.*": 1, "2.*": 0.5}}').clipping
    assert groups == GroupClipping(norms={"0.*": 1.0, "2.*": 0.5})
    adaptive = plan_of("clipping={kind: adaptive, initial: 1, bit_multiplier: 30}")
    assert adaptive.clipping == AdaptiveClipping(initial=1.0, bit_multiplier=30.0)
    plain = load_recipe("digits").plan()
    assert isinstance(plain, Plan)
    assert adaptive.noise == plain.noise


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (["clip_norm=null"], "give one of clip_norm, clip_schedule and clipping"),
        (["clipping={per_layer: 1}"], "give one of clip_norm, clip_schedule and clipping"),
        (["clip_norm=null", "clipping={kind: box}"], r"box clipping needs scales; name a method with geometry:"),
        (["clip_norm=null", "clipping={kind: adaptive, initial: 1}"], "clipping.adaptive.bit_multiplier"),
        (["clip_norm=null", "clipping={kind: adaptive, initial: 1, bit_multiplier: 2}"], "above the noise multiplier"),
        (["clip_norm=null", "clip_schedule=sideways:initial=1"], "unknown schedule 'sideways'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings: list[str], fault: str) -> None:
    with pytest.raises(InputError, match=fault) as caught:
        load_recipe("digits", settings).plan()
    assert "\n" not in str(caught.value)


def test_a_recipe_with_adaptive_clipping_trains_and_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clipping = "clipping={kind: adaptive, initial: 1, bit_multiplier: 30}"
    arguments = ["train", "digits", "--set", "clip_norm=null", "--set", clipping, "--set", "steps=4", "--out", "out"]
    assert run(arguments) == 0
    assert verify("out").accepted
    facts = json.loads(Path("out/certificate.json").read_text())
    assert facts["plan"]["clipping"]["kind"] == "adaptive"
    assert "adaptive, from 1, quantile 0.5" in Path("out/README.md").read_text()
