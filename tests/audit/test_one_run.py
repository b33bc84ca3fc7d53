"""One whole training with canaries: sound builds keep their claims in every world, broken ones are found."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet.audit.one_run.canary_rows import Rows
from discreet.audit.one_run.one_run_game import Audited, Played, Scored, play, steps_alone
from discreet.audit.one_run.one_run_report import report
from discreet.core.errors import InputError
from discreet.plan import (
    AdaptivePlan,
    AllocationSampling,
    Constant,
    FixedSizeSampling,
    Metric,
    NoSampling,
    Plan,
    PoissonSampling,
    ShuffleSampling,
)
from discreet.randomness import TestStream
from discreet.sampling import CyclicPoissonSampling, TruncatedPoissonSampling
from discreet.training import step as step_module

POPULATION = 400


def subject(sampling: object, adjacency: str = "add_remove", epsilon: float = 8.0, **more: Any) -> Audited:
    generator = torch.Generator().manual_seed(0)
    rows = Rows(torch.randn(300, 6, generator=generator), torch.randint(0, 3, (300,), generator=generator))
    facts = {"population": POPULATION, "steps": 8, "delta": 1e-5, "adjacency": adjacency, "clip_norm": 1.0} | more
    if "clipping" in facts:
        del facts["clip_norm"]
    plan = Plan.make(sampling, **facts).calibrate(epsilon)  # type: ignore[arg-type]
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 3))
    sgd = lambda built: torch.optim.SGD(built.parameters(), lr=0.2)  # noqa: E731
    return Audited(plan, model, nn.CrossEntropyLoss(), sgd, rows, 3)


def played(made: Audited, white: int = 300, black: int = 0) -> Played:
    return play(made, white, black, seed=5, stream=TestStream(5))


CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "poisson": (PoissonSampling(rate=0.3), "add_remove", {}),
    "poisson, zero-out": (PoissonSampling(rate=0.3), "zero_out", {}),
    "truncated": (TruncatedPoissonSampling(rate=0.3, capacity=160), "add_remove", {}),
    "all rows": (NoSampling(), "add_remove", {}),
    "all rows, replace-one": (NoSampling(), "replace_one", {}),
    "fixed size": (FixedSizeSampling(batch=100), "replace_one", {}),
    "shuffle, zero-out": (ShuffleSampling(batch=100), "zero_out", {}),
    "shuffle, replace-one": (ShuffleSampling(batch=100), "replace_one", {}),
    "allocation": (AllocationSampling(period=4), "add_remove", {}),
    "two bands": (CyclicPoissonSampling(rate=0.5, coefficients=(3, 2)), "add_remove", {}),
    "users": (PoissonSampling(rate=0.3), "add_remove", {"unit": "user", "rows_per_unit": 2}),
    "per layer": (PoissonSampling(rate=0.3), "add_remove", {"clipping": {"kind": "per_layer", "norm": 1.0}}),
    "automatic": (PoissonSampling(rate=0.3), "add_remove", {"clipping": {"kind": "automatic", "norm": 1.0}}),
    "adaptive": (
        PoissonSampling(rate=0.3),
        "add_remove",
        {"clipping": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 20.0}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sound_builds_keep_their_claim_and_their_places_are_told_apart(case: str) -> None:
    """Seeds are fixed. A sound build is contradicted with probability 1e-3 at most, and a claim of epsilon 8 leaves the
    means of both worlds 10 standard errors apart where all of the noise is at the places."""
    sampling, adjacency, more = CASES[case]
    made = subject(sampling, adjacency, **more)
    found = played(made)
    assert found.white is not None
    inside, outside = (found.white.scores[coins] for coins in (found.white.coins, ~found.white.coins))
    error = np.hypot(inside.std() / np.sqrt(len(inside)), outside.std() / np.sqrt(len(outside)))
    assert inside.mean() - outside.mean() > (1.5 if case in ("per layer", "two bands") else 4) * error
    said = report(found, made.plan)
    assert not said.refuted
    assert all(one.epsilon <= said.claimed for one in said.bounds)
    assert ("independent places" in {one.method for one in said.bounds}) == (
        not case.startswith(("fixed size", "shuffle", "truncated"))
    )


def test_half_the_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    halved(monkeypatch)
    made = subject(PoissonSampling(rate=0.3), epsilon=4.0)
    said = report(played(made, 500), made.plan)
    assert said.refuted
    assert "contradicts its plan" in said.verdict
    places = next(one for one in said.bounds if one.method == "independent places")
    assert places.epsilon > said.claimed


def halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of half the scale, in the step."""
    import dataclasses

    real = step_module.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        sums = {name: np.array(value, np.float64) for name, value in total.tensors.items()}
        found = real(total, *rest)
        tensors = {name: 0.5 * (noisy + sums[name]) for name, noisy in found.tensors.items()}
        return dataclasses.replace(found, tensors=tensors)

    monkeypatch.setattr(step_module, "gaussian_release", release)


def test_a_model_that_learns_by_heart_is_found_from_its_losses_alone() -> None:
    """Black box: with next to no noise the loss of mislabelled rows tells who was in, and a plan that claims
    epsilon .5 is contradicted."""
    made = subject(NoSampling(), epsilon=3e3, steps=30)
    model = nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 3))
    fast = lambda built: torch.optim.Adam(built.parameters(), lr=0.03)  # noqa: E731
    made = Audited(made.plan, model, made.criterion, fast, made.rows, 3, engine="vmap")
    found = played(made, 0, 300)
    assert found.white is None
    modest = report(found, made.plan.calibrate(0.5))
    assert modest.refuted
    assert not report(found, made.plan).refuted


def test_both_boxes_share_a_run_and_pay_for_each_other() -> None:
    made = subject(PoissonSampling(rate=0.3), epsilon=4.0)
    said = report(played(made, 200, 200), made.plan)
    assert [one.box for one in said.bounds] == ["white", "white", "white", "black", "black"]
    assert said.p == min(1.0, 5 * min(one.p for one in said.bounds))
    assert said.as_dict()["kind"] == "evidence"
    assert "never a guarantee" in said.verdict


def test_numbers_of_guesses_that_are_given_pay_for_each_other() -> None:
    made = subject(PoissonSampling(rate=0.3), epsilon=4.0)
    found = played(made, 300)
    every = {g: report(found, made.plan, guesses=(g,)).bounds for g in (40, 100, 200)}
    together = report(found, made.plan, guesses=(40, 100, 200)).bounds
    for place, one in enumerate(together):
        alone = [bounds[place] for bounds in every.values()]
        assert one.p == pytest.approx(min(1.0, 3 * min(other.p for other in alone)))
        assert one.epsilon <= max(other.epsilon for other in alone)
        assert [of for _, of in one.right] == [40, 100, 200]


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(here))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))  # torch's own folder, with no row in it
    monkeypatch.setenv("DISCREET_LEDGER", str(here / "ledger.sqlite"))
    monkeypatch.setattr("tempfile.tempdir", None)
    played(subject(NoSampling()), 20)
    assert os.listdir(here) == []


def test_what_is_bought_beside_the_steps_is_left_out() -> None:
    metric = Metric(kind="accuracy", rows="training", noise=5.0)
    plan = Plan.poisson(population=100, batch=10, steps=4, clip_norm=1.0, delta=1e-5, metrics=[metric], holdout=None)
    alone = steps_alone(plan)
    assert alone.metrics == ()
    assert alone.multipliers == plan.multipliers
    assert alone.guarantee().epsilon < plan.guarantee().epsilon


def test_a_plan_without_a_curve_is_refused() -> None:
    plan = AdaptivePlan.make(
        PoissonSampling(rate=0.1),
        population=100,
        epsilon=1.0,
        delta=1e-5,
        clip_norm=1.0,
        most_steps=10,
        policy=Constant(),
        noise_multiplier=4.0,
    )
    with pytest.raises(InputError, match="fixed beforehand"):
        steps_alone(plan)


def test_a_run_that_gives_away_nothing_bounds_nothing() -> None:
    plan = Plan.poisson(population=100, batch=10, steps=4, clip_norm=1.0, delta=1e-5).calibrate(1.0)
    rng = np.random.default_rng(0)
    nothing = Scored(rng.random(200) < 0.5, np.full(200, np.nan))
    said = report(Played(nothing, nothing, 4), plan)
    assert all(one.epsilon < 0.2 for one in said.bounds)
    assert not said.refuted
