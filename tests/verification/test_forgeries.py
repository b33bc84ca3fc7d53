"""Forgeries: each is a change to a good folder, with the name of the check that must find it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from forged_models import (
    add_a_tensor,
    change_public_tensor,
    change_public_tensor_and_its_digest,
    flip_a_byte,
    garble_the_model_and_rehash,
    swap_the_model,
    swap_the_model_and_rehash,
)
from forging import (
    Change,
    Facts,
    Forge,
    claim,
    edit,
    edit_consistently,
    entry,
    finds,
    put,
    resealed,
    times,
    without_entry,
)

from discreet import verify

pytestmark = pytest.mark.usefixtures("recomputed_once")


def multiplier_of_events(factor: float) -> Change:
    return put("events", "of", 0, "of", "of", "noise_multiplier", value=times(factor))


def multiplier_of_plan(factor: float) -> Change:
    return put("plan", "noise", 0, "multiplier", value=times(factor))


def rate_of_events(factor: float) -> Change:
    return put("events", "of", 0, "of", "rate", value=times(factor))


def rate_of_plan(factor: float) -> Change:
    return put("plan", "sampling", "rate", value=times(factor))


def user_everywhere(folder: Path) -> None:
    """A claim about rows told as one about people, in the claim, the plan and the ledger."""
    edit_consistently(claim("unit", "user"), put("plan", "unit", value="user"))(folder)
    fingerprint = json.loads((folder / "certificate.json").read_text())["plan_fingerprint"]
    body = ("ledger", "entries", 0, "body")
    edit(put(*body, "unit", value="user"), put(*body, "plan", value=fingerprint), resealed)(folder)


def last_block_left_out(facts: Facts) -> None:
    """The last block and its release, with the count of charged steps: a shorter run, told consistently."""
    without_entry("reservation", -1)(facts)
    without_entry("release", -1)(facts)
    facts["charged_steps"] = 6


def block_multiplier(factor: float) -> Change:
    def change(facts: Facts) -> None:
        for one in facts["ledger"]["entries"]:
            if one["kind"] == "reservation":
                put("body", "of", 0, "of", "of", "noise_multiplier", value=times(factor))(one)

    return change


def block_swap(facts: Facts) -> None:
    """The first two blocks in the other order."""
    record = facts["ledger"]["entries"]
    first, second = [i for i, one in enumerate(record) if one["kind"] == "reservation"][:2]
    record[first], record[second] = record[second], record[first]


def twice(facts: Facts) -> None:
    """A block that is there twice, for steps that were charged again."""
    record = facts["ledger"]["entries"]
    record.append(next(one for one in record if one["kind"] == "reservation"))


def edit_plan_yaml(folder: Path) -> None:
    plan = yaml.safe_load((folder / "plan.yaml").read_text())
    plan["clipping"]["norm"] *= 2
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))


def break_plan_yaml(folder: Path) -> None:
    (folder / "plan.yaml").write_text("{[")


FORGERIES: dict[str, tuple[str, Forge]] = {
    "flipped byte of the model": ("model", flip_a_byte),
    "swapped model": ("model", swap_the_model),
    "swapped model, rehashed": ("public tensors", swap_the_model_and_rehash),
    "garbled model, rehashed": ("public tensors", garble_the_model_and_rehash),
    "public tensor changed, rehashed": ("public tensors", change_public_tensor),
    "public tensor and its digest changed": ("public tensors", change_public_tensor_and_its_digest),
    "tensor added, rehashed": ("public tensors", add_a_tensor),
    "initial state changed": ("public tensors", edit_consistently(put("plan", "initial_state", value="sha256:00"))),
    "epsilon lowered by 2 %": (
        "epsilon",
        edit(
            claim("epsilon", times(0.98)),
            put("ledger", "entries", 0, "body", "epsilon", value=times(0.98)),
            resealed,
        ),
    ),
    "epsilon lowered by 2 % in the claim only": ("ledger", edit(claim("epsilon", times(0.98)))),
    "epsilon 0": ("epsilon", edit(claim("epsilon", 0.0))),
    "epsilon NaN": ("epsilon", edit(claim("epsilon", math.nan))),
    "epsilon infinite": ("epsilon", edit(claim("epsilon", math.inf))),
    "epsilon negative": ("epsilon", edit(claim("epsilon", -1.0))),
    "epsilon a string": ("epsilon", edit(claim("epsilon", "9"))),
    "epsilon true": ("epsilon", edit(claim("epsilon", True))),
    "epsilon null": ("epsilon", edit(claim("epsilon", None))),
    "multiplier lowered in events": ("events", edit(multiplier_of_events(0.9))),
    "multiplier raised in events": ("events", edit(multiplier_of_events(1.1))),
    "multiplier lowered in plan": ("plan", edit(multiplier_of_plan(0.9))),
    "multiplier lowered in plan, fingerprint too": ("events", edit_consistently(multiplier_of_plan(0.9))),
    "multiplier lowered in both": ("plan", edit(multiplier_of_events(0.9), multiplier_of_plan(0.9))),
    "multiplier lowered in both, fingerprint too": (
        "epsilon",
        edit_consistently(multiplier_of_events(0.9), multiplier_of_plan(0.9)),
    ),
    "event removed": ("events", edit(lambda facts: facts["events"]["of"].pop())),
    "event count lowered": ("events", edit(put("events", "of", 0, "count", value=3))),
    "event of another query": ("events", edit(put("events", "of", 0, "of", "of", "query", value="count"))),
    "events an empty list": ("events", edit(put("events", value=[]))),
    "rate changed in events": ("events", edit(rate_of_events(0.5))),
    "rate changed in plan": ("events", edit_consistently(rate_of_plan(0.5))),
    "rate raised in both": ("epsilon", edit_consistently(rate_of_events(1.2), rate_of_plan(1.2))),
    "adjacency changed in the claim": ("plan", edit(claim("adjacency", "zero_out"))),
    "adjacency replace_one everywhere": (
        "epsilon",
        edit_consistently(claim("adjacency", "replace_one"), put("plan", "adjacency", value="replace_one")),
    ),
    "delta lowered in the claim": ("plan", edit(claim("delta", 1e-6))),
    "delta lowered everywhere": ("epsilon", edit_consistently(claim("delta", 1e-6), put("plan", "delta", value=1e-6))),
    "delta 1 everywhere": ("epsilon", edit_consistently(claim("delta", 1.0), put("plan", "delta", value=1.0))),
    "kind estimate": ("claim", edit(claim("kind", "estimate"))),
    "kind ex-post": ("claim", edit(claim("kind", "ex_post"))),
    "method of an estimate": ("claim", edit(claim("method", "moments"))),
    "method of releases on everybody": ("claim", edit(claim("method", "gaussian"))),
    "method missing": ("claim", edit(lambda facts: facts["claim"].pop("method"))),
    "unit changed in the claim": ("plan", edit(claim("unit", "user"))),
    "unit changed in claim and plan": (
        "ledger",
        edit_consistently(claim("unit", "user"), put("plan", "unit", value="user")),
    ),
    "unit changed everywhere but in the assumptions": ("mechanism", user_everywhere),
    "unit that nobody knows": (
        "claim",
        edit_consistently(claim("unit", "household"), put("plan", "unit", value="household")),
    ),
    "several rows of an example": ("claim", edit_consistently(put("plan", "rows_per_unit", value=4))),
    "no row of a unit": ("claim", edit_consistently(put("plan", "rows_per_unit", value=0))),
    "noise of an unknown sampler": ("mechanism", edit(put("mechanism", "noise", value="pink"))),
    "noise of another sampler": ("ledger", edit(put("mechanism", "noise", value="exact"))),
    "noise of another sampler, also in the ledger": (
        "ledger",
        edit(put("mechanism", "noise", value="exact"), entry("attempt", "body", {"noise": "exact"})),
    ),
    "unknown engine": ("mechanism", edit(put("mechanism", "engine", value="magic"))),
    "another engine": ("ledger", edit(put("mechanism", "engine", value="exact"))),
    "grid of 10 bits": ("mechanism", edit(put("mechanism", "grid_bits", value=10))),
    "grid of a million bits": ("mechanism", edit(put("mechanism", "grid_bits", value=10**6))),
    "grid of no bits": ("mechanism", edit(lambda facts: facts["mechanism"].pop("grid_bits"))),
    "no mechanism": ("mechanism", edit(lambda facts: facts.pop("mechanism"))),
    "test generator in the ledger only": (
        "ledger",
        edit(
            entry("attempt", "body", {"engine": "vmap", "noise": "fast", "randomness": "test"}),
            resealed,
        ),
    ),
    "randomness of a test": ("mechanism", edit(put("mechanism", "randomness", value="test"))),
    "another sampler": ("events", edit(put("mechanism", "sampler", value="shuffle"))),
    "digest of the ledger edited": ("ledger", edit(put("ledger", "digest", value="0" * 64))),
    "digest of the ledger missing": ("ledger", edit(lambda facts: facts["ledger"].pop("digest"))),
    "no ledger": ("ledger", edit(lambda facts: facts.pop("ledger"))),
    "no entries": ("ledger", edit(put("ledger", "entries", value=[]), resealed)),
    "steps of an entry edited": ("ledger", edit(entry("reservation", "steps", 2))),
    "steps of an entry edited, resealed": ("ledger", edit(entry("reservation", "steps", 2), resealed)),
    "position of an entry edited": ("ledger", edit(entry("reservation", "position", 1))),
    "position of an entry edited, resealed": ("ledger", edit(entry("reservation", "position", 4, 1), resealed)),
    "body of an entry edited": ("ledger", edit(block_multiplier(1.1))),
    "body of an entry edited, resealed": ("ledger", edit(block_multiplier(1.1), resealed)),
    "less noise charged than planned": ("ledger", edit(block_multiplier(0.9), resealed)),
    "first block dropped": ("ledger", edit(without_entry("reservation"))),
    "first block dropped, resealed": ("ledger", edit(without_entry("reservation"), resealed)),
    "middle block dropped, resealed": ("ledger", edit(without_entry("reservation", 1), resealed)),
    "last block dropped, resealed": ("ledger", edit(without_entry("reservation", -1), resealed)),
    "last block dropped, digest left": ("ledger", edit(last_block_left_out)),
    "blocks swapped, resealed": ("ledger", edit(block_swap, resealed)),
    "block twice, resealed": ("ledger", edit(twice, resealed)),
    "run of another plan, resealed": ("ledger", edit(entry("run", "body", {"plan": "sha256:00"}), resealed)),
    "run missing, resealed": ("ledger", edit(without_entry("run"), resealed)),
    "attempts missing, resealed": ("ledger", edit(without_entry("attempt"), resealed)),
    "fewer steps charged than the ledger holds": ("ledger", edit(put("charged_steps", value=3))),
    "more steps charged than planned": ("ledger", edit(put("charged_steps", value=8))),
    "negative steps charged": ("ledger", edit(put("charged_steps", value=-1))),
    "steps charged NaN": ("ledger", edit(put("charged_steps", value=math.nan))),
    "edited plan.yaml": ("plan", edit_plan_yaml),
    "broken plan.yaml": ("plan", break_plan_yaml),
    "attempt of another number, resealed": ("ledger", edit(entry("attempt", "attempt", 5), resealed)),
    "block of no attempt, resealed": (
        "ledger",
        edit(entry("reservation", "attempt", 1, 1), resealed),
    ),
    "run that begins in the middle, resealed": ("ledger", edit(entry("run", "position", 3), resealed)),
    "release beyond the charges, resealed": ("ledger", edit(entry("release", "position", 99), resealed)),
    "head before the last entry": ("ledger", edit(put("ledger", "head", "number", value=0))),
    "another format": ("certificate", edit(put("format", value="discreet-certificate/3"))),
    "no claim": ("claim", edit(lambda facts: facts.pop("claim"))),
}


def test_a_release_that_an_earlier_start_notes_late_is_no_forgery(folder: Path) -> None:
    """Two starts of one run: the first ends at its next charge, and may note what it released after the second does."""

    def late(facts: Facts) -> None:
        record = facts["ledger"]["entries"]
        begun = next(one for one in record if one["kind"] == "attempt")
        noted = next(one for one in record if one["kind"] == "release")
        first = record.index(noted)
        record.insert(first + 1, begun | {"attempt": 1})
        for one in record[first + 2 :]:
            one["attempt"] = 1
        record.append(noted | {"attempt": 0})
        facts["ledger"]["head"]["number"] += 2

    edit(late, resealed)(folder)
    assert not finds("ledger", verify(folder, pages=False))


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_rejected_by_the_check_meant_for_it(folder: Path, forgery: str) -> None:
    check, forge = FORGERIES[forgery]
    forge(folder)
    verification = verify(folder)
    assert not verification.accepted
    assert "REJECTED" in verification.summary
    failed = {one.name: one.detail for one in verification.checks if not one.passed}
    assert finds(check, verification)
    assert all("\n" not in detail for detail in failed.values())
    json.dumps(verification.as_dict())


@pytest.mark.parametrize(
    "forgery",
    [
        "swapped model",
        "epsilon lowered by 2 %",
        "grid of 10 bits",
        "digest of the ledger edited",
        "first block dropped, resealed",
        "fewer steps charged than the ledger holds",
        "test generator in the ledger only",
        "unit changed everywhere but in the assumptions",
    ],
)
def test_a_small_forgery_fails_its_own_check_only(folder: Path, forgery: str) -> None:
    check, forge = FORGERIES[forgery]
    forge(folder)
    assert [one.name for one in verify(folder).checks if not one.passed] == [check]


def test_an_assumption_that_is_left_out_is_named_as_the_fault(folder: Path) -> None:
    edit(lambda facts: facts["assumptions"].pop())(folder)
    (failed,) = [one for one in verify(folder).checks if not one.passed]
    assert failed.name == "mechanism"
    assert failed.detail.endswith("; the assumptions are not those that this needs")


def test_a_shorter_run_told_consistently_is_accepted_and_claims_the_whole_plan(folder: Path) -> None:
    """Not a forgery of the claim: it covers all steps of the plan, however few of them are said to be charged."""
    epsilon = json.loads((folder / "certificate.json").read_text())["claim"]["epsilon"]
    edit(last_block_left_out, resealed)(folder)
    verification = verify(folder, pages=False)  # a forger would write them again
    assert verification.accepted
    facts = json.loads((folder / "certificate.json").read_text())
    assert facts["claim"]["epsilon"] == epsilon
    assert sum(part["count"] for part in facts["events"]["of"]) == 7
