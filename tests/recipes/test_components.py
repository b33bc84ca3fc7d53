"""Recipes that buy principal components before the first step, and data sets with arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import official_files
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import nn
from warm_runs import in_another_process

from discreet import InputError, VerificationFailed, load
from discreet.cli.app import run
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.ledger import Ledger
from discreet.plan import AdaptivePlan, Plan
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe
from discreet.recipes.sections.components import project
from discreet.training import Training
from discreet.training.run import first_tensors
from discreet.verification.checks.released_tensors import check_released

RECIPE: dict[str, Any] = {
    "data": "npz",
    "components": {"count": 3, "noise": 9.0},
    "model": {"name": "linear", "inputs": 3, "outputs": 2},
    "optimizer": {"name": "sgd", "lr": 0.05},
    "population": 30,
    "rate": 0.5,
    "steps": 3,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}
ADAPTIVE: dict[str, Any] = {
    "adaptive": {"policy": {"kind": "validation_decay", "factor": 0.9}, "noise_multiplier": 4.0},
    "validation": 0.5,
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    x, y = np.random.Generator(np.random.PCG64(0)).normal(size=(36, 2, 4)), np.arange(36) % 2
    np.savez("mine.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])


def write(**changes: Any) -> list[str]:
    Path("mine.yaml").write_text(yaml.safe_dump(RECIPE | changes))
    return ["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]


def recipe(**changes: Any) -> Recipe:
    return validate(Recipe, RECIPE | changes, "recipe")


@pytest.mark.parametrize("changes", [{}, ADAPTIVE], ids=["fixed", "adaptive"])
def test_the_certificate_covers_them_and_the_folder_has_them(changes: dict[str, Any]) -> None:
    assert run(write(**changes)) == 0
    assert run(["verify", "out"]) == 0
    facts = json.loads(Path("out/certificate.json").read_text())
    assert [event["event"] for event in facts["plan"]["before"]] == ["gaussian"]
    assert facts["claim"]["epsilon"] <= 3.0
    assert "the steps before the model" not in Path("out/README.md").read_text()  # which are not public, but bought
    vectors = load_file("out/released.safetensors")["components"]
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(3))
    split = recipe().load_data(Path("mine.npz"))
    assert split.test is not None
    model = recipe().build_model()
    model.load_state_dict(load_file("out/model.safetensors"))
    if not changes:  # what is published is all that predictions need
        right = (model(project(split.test[0], vectors)).argmax(1) == split.test[1]).float().mean()
        assert facts["public_evaluations"][-1]["accuracy"] == pytest.approx(float(right))
        predictor = load("out")
        assert torch.equal(predictor.scores(split.test[0]), model(project(split.test[0], vectors)))
        spoilt = bytearray(Path("out/released.safetensors").read_bytes())
        spoilt[-1] ^= 1
        Path("out/released.safetensors").write_bytes(spoilt)
        with pytest.raises(VerificationFailed, match=r"released\.safetensors is not the file"):
            load("out")


def test_a_run_with_components_in_its_model_names_the_run_that_bought_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what its rows go through first, and a release on other rows. The folder is read by another process."""
    assert run(write()) == 0
    in_another_process(monkeypatch)
    predictor = load("out")
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 3, bias=False), nn.Linear(3, 2))
    model[1].weight.data = load_file("out/released.safetensors")["components"]
    model[1].requires_grad_(False)
    plan = Plan.poisson(population=30, batch=15, steps=1, clip_norm=1.0, delta=1e-4).calibrate(3.0)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    data = torch.rand(30, 2, 4), torch.zeros(30, dtype=torch.int64)
    trained = Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, run="next.run").run(progress=False)
    assert [one.run for one in trained.warm_start] == [predictor.certificate["ledger"]["entries"][0]["run"]]


@pytest.mark.parametrize("count", [1, 2, 60])
def test_what_is_seen_of_a_row_does_not_depend_on_the_others(count: int) -> None:
    """To the last bit, also where one product for all rows would round differently by how many there are."""
    generator = torch.Generator().manual_seed(count)
    rows, vectors = torch.rand(2000, 784, generator=generator), torch.rand(count, 784, generator=generator)
    whole = project(rows, vectors)
    assert torch.equal(project(rows[1:], vectors), whole[1:])
    assert torch.equal(project(rows[:3], vectors), whole[:3])
    assert torch.isfinite(project(torch.full((1, 784), 3e38), vectors)).all()


def test_the_verifier_sees_other_components() -> None:
    assert run(write()) == 0
    path, file = Path("out/certificate.json"), Path("out/released.safetensors")
    honest, vectors = path.read_text(), file.read_bytes()
    for forged in ("other", "gone", "unknown", "unplanned"):
        facts = json.loads(honest)
        if forged == "other":
            save_file({"components": torch.eye(3, 8)}, file)
        elif forged == "gone":
            file.unlink()
        elif forged == "unknown":
            del facts["released"]
        else:
            facts["plan"]["before"] = []
        found = check_released(facts, Path("out")) if forged != "gone" else None
        assert found is None or not found[0], forged
        path.write_text(json.dumps(facts))
        assert run(["verify", "out"]) == 1, forged
        path.write_text(honest)
        file.write_bytes(vectors)
    assert run(["verify", "out"]) == 0


def test_calibration_leaves_room_for_them() -> None:
    with_them, without = recipe().plan(), recipe(components=None).plan()
    assert isinstance(with_them, Plan)
    assert isinstance(without, Plan)
    assert with_them.before == (Gaussian(9.0, Query.COVARIANCE),)
    assert 2.98 < with_them.guarantee().epsilon <= 3.0
    assert with_them.noise[0].multiplier > without.noise[0].multiplier
    assert isinstance(recipe(**ADAPTIVE).plan(), AdaptivePlan)
    with pytest.raises(InputError, match="queries and metrics alone"):
        recipe(components={"count": 3, "noise": 0.5}).plan()


def test_metrics_on_held_out_rows_get_what_they_leave() -> None:
    """Held-out rows are among those that the components are of: both count for them."""
    plan = recipe(holdout=0.3, components={"count": 3, "noise": 3.0}, epsilon=2.0).plan()
    assert 1.98 < plan.guarantee().epsilon <= 2.0


def test_a_mistake_costs_nothing_and_a_run_goes_on_with_its_components(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(model={"name": "linear", "inputs": 4, "outputs": 2})) == 2
    assert run(write(components={"count": 9, "noise": 9.0})) == 2
    assert "8 columns" in capsys.readouterr().err
    assert not Path("out.run").exists()

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("discreet.recipes.assemble.on_components", _after(1, crash))
        assert run(write()) != 0
    assert Ledger("out.run/ledger.sqlite").entries()
    bought = load_file("out.run/released.safetensors")["components"]
    assert run(["train", "--resume", "out"]) == 0
    assert torch.equal(load_file("out/released.safetensors")["components"], bought)
    assert run(["verify", "out"]) == 0


def test_components_that_were_lost_stay_charged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(first_tensors, "principal_components", _after(0, None))
        assert run(write()) != 0
    assert Ledger("out.run/ledger.sqlite").charged_steps(json.loads(Path("out.run/run.json").read_text())["run"]) == 1
    capsys.readouterr()
    assert run(["train", "--resume", "out"]) == 2
    assert "stays charged" in capsys.readouterr().err


def _after(calls: int, _then: object) -> Any:
    """The function of `recipes.components` for so many calls, and then a crash."""
    from discreet.recipes.sections.components import on_components

    left = [calls]

    def function(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return on_components(*arguments)

    return function


def test_a_search_says_why_it_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    write()
    grid = ["--trials", "2", "--grid", "optimizer.lr=0.1,0.2", "--set", "validation=0.5"]
    assert run(["tune", "mine.yaml", "--data", "mine.npz", *grid]) == 2
    assert "queries" in capsys.readouterr().err


def test_plan_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    write()
    assert run(["plan", "mine.yaml", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["epsilon"] <= 3.0
    assert facts["wall_seconds"] is not None


def test_data_sets_take_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    official_files.cancer(tmp_path)
    one, other = (recipe(data={"name": "cancer", "split": split}).load_data(tmp_path) for split in (0, 3))
    assert one.ids is not None
    assert other.ids is not None
    assert set(one.ids.tolist()) != set(other.ids.tolist())
    assert recipe(data="cancer").data == recipe(data={"name": "cancer"}).data
    for wrong, said in (({"name": "cancer", "spilt": 3}, "spilt"), ({"name": "magic"}, "known: a9a"), (3, "data")):
        with pytest.raises(InputError, match=said):
            recipe(data=wrong)


def test_the_users_of_a_data_set_count_where_the_plan_protects_users(tmp_path: Path) -> None:
    official_files.movielens(tmp_path)
    assert recipe(data="movielens", components=None).load_data(tmp_path).units is None
    users = recipe(data="movielens", components=None, unit="user").load_data(tmp_path).units
    assert users is not None
    assert set(users.tolist()) <= {1, 7, 943}
