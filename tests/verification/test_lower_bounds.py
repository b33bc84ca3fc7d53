"""Lower bounds that a certificate states are those that the verifier proves; and honest folders of rare plans."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from forging import claim, edit, facts_of
from problems import certified_run

from discreet import Plan, publish, verify
from discreet.core.events.event_json import to_json
from discreet.plan import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    Metric,
    NoSampling,
    PoissonSampling,
    Sampling,
)
from discreet.plan.clip_rules.per_layer import PerLayerClipping
from discreet.verification.checks.fixed_plan import check_epsilon
from discreet.verification.standalone import verify as reviewer
from discreet.verification.verdict import Verification

HELD = [Metric(noise=9.0, every=4, rows="holdout")]
DEAR = [Metric(noise=1.5, every=4, rows="holdout")]
"""Of everybody who is held out: dearer than sampled steps, so the claim names the theorem of a single Gaussian."""

ROUND = CyclicPoissonSampling(rate=0.9, coefficients=(64, 40, 33, 27))


def plan(sampling: Sampling, **changes: object) -> Plan:
    usual = {"population": 24, "steps": 8, "delta": 1e-5, "clip_norm": 1.0, "noise_multiplier": 4.0}
    return Plan.make(sampling, **(usual | changes)).model_copy(update={"block": 3})


SIZED = [Metric(noise=5.0, every=3), Metric(kind="size", noise=9.0)]


def forged(made: Plan, folder: Path) -> Verification:
    """The verdict on a published folder that is accepted, once its lower bound is told as just below epsilon."""
    publish(certified_run(folder / "run", plan=made), folder / "out")
    assert verify(folder / "out").accepted
    assert "Not checked: any lower bound" in reviewer.check(folder / "out", None)
    copy = shutil.copytree(folder / "out", folder / "forged")
    edit(claim("lower", facts_of(copy)["claim"]["epsilon"] / 1.0015))(copy)
    return verify(copy)


@pytest.mark.parametrize(
    "made",
    [
        plan(FixedSizeSampling(batch=6), adjacency="replace_one"),
        plan(NoSampling(), adjacency="replace_one", metrics=SIZED),
    ],
    ids=["between the two bounds", "that no two neighbours attain"],
)
def test_a_lower_bound_that_is_not_found_again_is_not_called_proved(made: Plan, tmp_path: Path) -> None:
    """Of batches of fixed size the two bounds are 1.4 % apart; a replaced row moves the steps and no size."""
    found = forged(made, tmp_path)
    (epsilon,) = [one for one in found.checks if one.name == "epsilon"]
    assert epsilon.passed
    assert epsilon.detail.endswith("was not proved here")


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize(
    ("sampling", "adjacency"),
    [
        (PoissonSampling(rate=0.0064), "add_remove"),
        (PoissonSampling(rate=0.0064), "zero_out"),
        (FixedSizeSampling(batch=64), "replace_one"),
        (NoSampling(), "replace_one"),
    ],
    ids=str,
)
def test_calibrated_plans_are_accepted_whatever_lower_bound_is_found_here(
    sampling: Sampling, adjacency: str, epsilon: float
) -> None:
    """A recomputed lower bound may be far below that of the library, which computes it more finely."""
    made = plan(sampling, population=10_000, steps=500, adjacency=adjacency).calibrate(epsilon)
    claim = made.guarantee()
    said = {"epsilon": claim.epsilon, "lower": claim.lower, "delta": 1e-5, "adjacency": adjacency}
    facts = {"claim": said, "plan": made.model_dump(mode="json"), "events": to_json(made.first_steps(made.charges))}
    accepted, reason = check_epsilon(json.loads(json.dumps(facts)))
    assert accepted, reason


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (plan(AllocationSampling(period=4, chosen=1), holdout=0.3, metrics=HELD), "ACCEPTED"),
        (plan(PoissonSampling(rate=0.5), metrics=[Metric(noise=5.0, every=20), SIZED[1]]), "ACCEPTED"),
        (plan(PoissonSampling(rate=0.5), holdout=0.3, metrics=DEAR, adjacency="zero_out"), "ACCEPTED"),
        (plan(ROUND, clip_norm=None, clipping=PerLayerClipping(norm=1.0)), "NOT COVERED"),
    ],
    ids=["allocation of a part of the rows", "a size for no metric", "claim of a holdout", "rounds clipped by layer"],
)
def test_the_single_file_verifier_accuses_no_honest_folder(made: Plan, verdict: str, tmp_path: Path) -> None:
    ids = None if made.holdout is None else range(24)
    publish(certified_run(tmp_path / "run", plan=made, ids=ids), tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    try:
        reviewer.check(tmp_path / "out", None)
        found = "ACCEPTED"
    except reviewer.Stop as stop:
        found = stop.args[0]
    assert found == verdict


def test_an_epsilon_that_rounding_hides_is_not_covered() -> None:
    """Noise so large that delta alone pays for it: the true epsilon is 0, and what is computed 1e-10."""
    gaussian = b'{"event":"gaussian","noise_multiplier":1000000.0,"query":"clipped_sum"}'
    with pytest.raises(reviewer.Stop) as stopped:
        reviewer.epsilon_of(reviewer.Events({gaussian: 1}), 1e-5, "add_remove", 1e-9)
    assert stopped.value.args == ("NOT COVERED", "a plan for which rounding decides")
