"""Forgeries of how gradients were clipped: told consistently in plan, ledger and certificate, so that only the check
of the stated sensitivity can find them."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every_kind import CLIPPINGS, clipped
from forging import Change, Facts, edit, edit_consistently, finds, fingerprinted, put, times
from problems import CLASSES, FEATURES

from discreet import publish, verify
from discreet.verification.checks.sensitivity import RULES, check_clipping

pytestmark = pytest.mark.usefixtures("recomputed_once")


def published(folder: Path, name: str) -> Path:
    publish(clipped(folder, name), folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: published(tmp_path_factory.mktemp(name), name) for name in CLIPPINGS}


def everywhere(*changes: Change) -> Callable[[Path], None]:
    """Change plan and certificate, and let plan.yaml, the fingerprint and the ledger agree."""

    def forge(folder: Path) -> None:
        edit_consistently(*changes)(folder)
        edit(fingerprinted)(folder)

    return forge


def spec(name: str, value: Any) -> Change:
    return put("plan", "clipping", name, value=value)


def stated(*path: Any, value: Any) -> Change:
    return put("clipping", *path, value=value)


def moved_to_the_other_group(facts: Facts) -> None:
    """One tensor in the group with the smaller norm only by word of the certificate."""
    groups = facts["clipping"]["groups"]
    groups["[fs]*"]["parameters"].append(groups["head.*"]["parameters"].pop())


def left_out(facts: Facts) -> None:
    facts["clipping"]["groups"]["head.*"]["parameters"].pop()


def alias_that_is_none(facts: Facts) -> None:
    """A tensor that was trained is told to be another name of one that is counted."""
    facts["clipping"]["aliases"]["head.bias"] = "first.bias"
    for group in facts["clipping"].get("groups", {}).values():
        group["parameters"] = [name for name in group["parameters"] if name != "head.bias"]


def fewer_coordinates(facts: Facts) -> None:
    facts["clipping"]["coordinates"] -= CLASSES
    facts["clipping"]["sensitivity"] = math.sqrt(facts["clipping"]["coordinates"])


def as_if_only_the_gradient_moved(facts: Facts) -> None:
    for pair in facts["clipping"]["sensitivity"]:
        pair[1] = 1.0


FORGERIES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "flat: another sensitivity": ("flat", everywhere(stated("sensitivity", value=times(0.5)))),
    "flat: another norm in the plan": ("flat", everywhere(spec("norm", 2.0))),
    "flat: no sensitivity": ("flat", everywhere(lambda facts: facts["clipping"].pop("sensitivity"))),
    "flat: no record": ("flat", everywhere(lambda facts: facts.pop("clipping"))),
    "flat: a kind that nobody knows": ("flat", everywhere(spec("kind", "sideways"))),
    "flat: told as automatic": ("flat", everywhere(spec("kind", "automatic"))),
    "flat: another rule": ("flat", everywhere(stated("rule", value="half of the clip norm"))),
    "flat: an infinite norm": ("flat", everywhere(spec("norm", math.inf), stated("sensitivity", value=math.inf))),
    "flat: a negative norm": ("flat", everywhere(spec("norm", -1.0), stated("sensitivity", value=-1.0))),
    "scheduled: a smaller norm stated": ("scheduled", everywhere(stated("sensitivity", 0, 0, value=0.1))),
    "scheduled: steps without a norm": (
        "scheduled",
        everywhere(put("plan", "clipping", "phases", 1, "steps", value=3), stated("sensitivity", 1, 1, value=3)),
    ),
    "automatic: gamma below 0": ("automatic", everywhere(spec("gamma", -0.5))),
    "automatic: told as flat": (
        "automatic",
        everywhere(spec("kind", "flat"), stated("rule", value="the clip norm")),
    ),
    "per_layer: the norm of one layer": ("per_layer", everywhere(stated("sensitivity", value=0.5))),
    "per_layer: larger norm in the plan": ("per_layer", everywhere(spec("norm", 1.0))),
    "per_layer: a layer that is no other": ("per_layer", everywhere(alias_that_is_none)),
    "groups: the largest norm": ("groups", everywhere(stated("sensitivity", value=1.0))),
    "groups: a norm that is not the plan's": (
        "groups",
        everywhere(stated("groups", "head.*", "norm", value=0.1), stated("sensitivity", value=math.hypot(0.1, 0.5))),
    ),
    "groups: a tensor in another": ("groups", everywhere(moved_to_the_other_group)),
    "groups: a tensor in none": ("groups", everywhere(left_out)),
    "groups: overlapping patterns": ("groups", everywhere(spec("norms", {"head.*": 1.0, "*": 0.5}))),
    "groups: a pattern that covers too little": ("groups", everywhere(spec("norms", {"head.*": 1.0, "f*": 0.5}))),
    "adaptive: a bit of no sensitivity": ("adaptive", everywhere(as_if_only_the_gradient_moved)),
    "adaptive: a bit with less noise": ("adaptive", everywhere(spec("bit_multiplier", 3.0))),
    "adaptive: a bit with as much noise as all": ("adaptive", everywhere(spec("bit_multiplier", 1.5))),
    "adaptive: another multiplier": ("adaptive", everywhere(stated("sensitivity", 0, 0, value=1.4))),
    "adaptive: starts above its cap": ("adaptive", everywhere(spec("cap", 0.5))),
    "adaptive: a quantile of 1": ("adaptive", everywhere(spec("quantile", 1.0))),
    "adaptive: a setting more": ("adaptive", everywhere(spec("surprise", 1.0))),
    "ellipsoid: another sensitivity": ("ellipsoid", everywhere(stated("sensitivity", value=0.5))),
    "box: the sensitivity of one coordinate": ("box", everywhere(stated("sensitivity", value=1.0))),
    "box: fewer coordinates": ("box", everywhere(fewer_coordinates)),
    "box: tensors that count once": (
        "box",
        everywhere(alias_that_is_none, fewer_coordinates),
    ),
}


@pytest.mark.parametrize("name", CLIPPINGS)
def test_the_originals_are_accepted(originals: dict[str, Path], name: str) -> None:
    found = verify(originals[name])
    assert found.accepted, [check for check in found.checks if not check.passed]


@pytest.mark.parametrize("name", CLIPPINGS)
def test_a_consistent_story_that_changes_nothing_is_accepted(
    originals: dict[str, Path], name: str, tmp_path: Path
) -> None:
    """The forgeries below fail for what they change, not for how it is told."""
    folder = Path(shutil.copytree(originals[name], tmp_path / "copy"))
    everywhere(lambda _facts: None)(folder)
    assert verify(folder).accepted


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_rejected_by_the_check_of_clipping(
    originals: dict[str, Path], forgery: str, tmp_path: Path
) -> None:
    name, forge = FORGERIES[forgery]
    folder = Path(shutil.copytree(originals[name], tmp_path / "copy"))
    forge(folder)
    found = verify(folder)
    failed = {one.name: one.detail for one in found.checks if not one.passed}
    assert finds("clipping", found)
    assert set(failed) <= {"clipping", "mechanism", "certificate"}  # what is assumed follows the kind; the schema
    assert not any("\n" in detail for detail in failed.values())


def test_shared_weights_count_once(originals: dict[str, Path]) -> None:
    facts = json.loads((originals["box"] / "certificate.json").read_text())
    trained = FEATURES**2 + 2 * FEATURES + CLASSES * FEATURES + CLASSES
    assert facts["clipping"]["coordinates"] == trained
    assert facts["clipping"]["sensitivity"] == pytest.approx(math.sqrt(trained))
    assert facts["clipping"]["aliases"] == {"second.weight": "first.weight"}
    groups = json.loads((originals["per_layer"] / "certificate.json").read_text())["clipping"]["groups"]
    assert {key: group["parameters"] for key, group in groups.items()} == {
        "first": ["first.weight", "first.bias"],
        "second": ["second.bias"],
        "head": ["head.weight", "head.bias"],
    }


@pytest.mark.parametrize(("groups", "letters"), [(10_000, 1), (1, 1_001)])
def test_many_groups_do_not_keep_a_reader_busy(groups: int, letters: int) -> None:
    norms = {f"{'x' * letters}{number}": 1.0 for number in range(groups)}
    facts = {
        "plan": {"clipping": {"kind": "groups", "norms": norms}},
        "clipping": {"rule": RULES["groups"], "sensitivity": 1.0, "groups": {}, "aliases": {}},
        "model": {"private": [f"tensor {number}" for number in range(1_001)]},
    }
    assert check_clipping(facts, {}, {}) == (
        False,
        "more groups and trained tensors, or longer names, than are compared",
    )
