"""The center of a table's features: bought before the first step, covered by the claim, a part of what predicts."""

from __future__ import annotations

import copy
import csv
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from forging import resealed
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn
from warm_runs import in_another_process

from discreet import InputError, load, verify
from discreet.audit.membership.shadow_models import Trainer
from discreet.cli.app import run
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.data import as_private
from discreet.data.tables import Schema
from discreet.distributed.ranks import Ranks
from discreet.estimators import PrivateClassifier
from discreet.features import RowNorm
from discreet.jobs.audits.audit_model import audit_model
from discreet.ledger import Ledger
from discreet.plan import Plan
from discreet.plan.pydantic_base import validate
from discreet.prediction import encode_table
from discreet.recipes import Recipe
from discreet.recipes.assemble import features_of
from discreet.recipes.models.centered import Centered, Uncentered, center_of, set_center
from discreet.recipes.models.models import linear
from discreet.recipes.models.tabular import CenteredColumns, UnitColumns, tabular
from discreet.recipes.table_recipe import table_recipe
from discreet.training import Training
from discreet.training.run import first_tensors
from discreet.training.run.first_tensors import shrunk
from discreet.verification.checks.released_tensors import check_released
from discreet.verification.standalone import verify as reviewer

COLUMNS: dict[str, Any] = {f"x{i}": {"type": "number", "low": 0, "high": 100} for i in range(4)}
FACTS: dict[str, Any] = {
    "columns": {**COLUMNS, "kind": {"type": "category", "categories": ["p", "q"]}},
    "target": "y",
    "unit": "row",
    "population": 200,
}
FACTS["columns"]["y"] = {"type": "category", "categories": ["a", "b"]}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose numbers are all in the lowest part of their range."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    random = np.random.Generator(np.random.PCG64(5))
    for name, count in (("private.csv", 200), ("public.csv", 60)):
        numbers = random.uniform(0, 8, size=(count, 4)).round(3)
        with Path(name).open("w", newline="") as file:
            rows = [[*row, "pq"[i % 2], "ab"[int(row[0] > 4)]] for i, row in enumerate(numbers.tolist())]
            csv.writer(file).writerows([[*FACTS["columns"]], *rows])
    Path("schema.yaml").write_text(yaml.safe_dump(FACTS))


def train(*more: str, epsilon: float = 3) -> list[str]:
    options = ["--schema", "schema.yaml", "--test", "public.csv", "--epsilon", f"{epsilon:g}", "--out", "out"]
    return ["train", "private.csv", *options, *more]


def schema(**changes: Any) -> Schema:
    return validate(Schema, FACTS | changes, "schema")


def recipe(epsilon: float = 3.0, **changes: Any) -> Recipe:
    return validate(Recipe, table_recipe(schema(), epsilon, None) | changes, "recipe")


def test_a_table_is_centered_and_the_certificate_covers_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "private.csv", "--schema", "schema.yaml", "--epsilon", "3"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\n  epsilon \S+ before step 1\n  epsilon \S+ after step", said)
    (alone,) = re.findall(r"\nbuys the mean of the features, which the model subtracts, for epsilon (\S+) by it", said)
    assert 0 < float(alone) < 3
    assert run(train()) == 0
    assert run(["verify", "out"]) == 0
    assert subprocess.run([sys.executable, "out/verify.py", "out"], check=False).returncode == 0
    facts = json.loads(Path("out/certificate.json").read_text())
    (first,) = facts["plan"]["before"]
    assert first["query"] == "clipped_sum"
    assert facts["charged_steps"] == facts["plan"]["noise"][0]["steps"] + 1
    assert facts["claim"]["epsilon"] <= 3.0
    report = Path("out/report.html").read_text()
    assert "subtracted from each" in report
    assert " steps were charged, counting what was asked before the first step;" in report
    center = load_file("out/released.safetensors")["center"]
    predictor = load("out")
    assert torch.equal(Uncentered(predictor.model).part.center, center)
    assert "of shape (5,), encoded; predict_table takes a file" in repr(predictor)
    assert center.norm() > 0.5  # the rows have most of their length in common
    spoilt = tabular(**json.loads(Path("out/model.json").read_text())["model"]["arguments"])
    spoilt.load_state_dict(load_file("out/model.safetensors"))
    rows = torch.rand(5, 5)
    assert not torch.allclose(spoilt(rows), predictor.scores(rows))  # without the center


def test_what_is_left_of_rows_has_no_mean() -> None:
    """With little noise the center is the mean."""
    assert run(train("--set", "center.noise=0.5", epsilon=20)) == 0
    predictor = load("out")
    rows = torch.as_tensor(encode_table(predictor, Path("private.csv")))
    columns = Uncentered(predictor.model).part
    mean = columns.unit(rows).mean(0)
    torch.testing.assert_close(columns.center, mean, rtol=0, atol=2e-2)  # eight standard deviations
    found = columns(rows)
    torch.testing.assert_close(found.norm(dim=1), torch.full((200,), math.sqrt(1 + 0.1**2)))
    assert found[:, :-1].mean(0).norm() < 0.2 < 0.9 < mean.norm()


def test_the_steps_have_what_the_center_leaves() -> None:
    plan, without = recipe().plan(), recipe(center=None).plan()
    assert isinstance(plan, Plan)
    assert isinstance(without, Plan)
    (event,) = plan.before
    assert event == Gaussian(recipe().center.noise, Query.CLIPPED_SUM)  # type: ignore[union-attr]
    assert 2.98 < plan.guarantee().epsilon <= 3.0
    assert plan.noise[0].multiplier / without.noise[0].multiplier == pytest.approx(1 / math.sqrt(1 - 0.04), abs=0.003)
    # mu of all is that of the center and of the steps, squared and added (Dong, Roth and Su 2022, corollary 3.3)
    mu = [1 / event.noise_multiplier, math.sqrt(plan.steps) / plan.noise[0].multiplier]
    assert math.hypot(*mu) == pytest.approx(math.sqrt(without.steps) / without.noise[0].multiplier, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"population": 30_000},
        {"unit": "kind", "rows_per_unit": 2},
        {"columns": FACTS["columns"] | {"x0": {"type": "number", "buy": {"between": [0, 100], "noise": 10}}}},
        {"columns": FACTS["columns"] | {"x0": {"type": "category", "categories": [str(i) for i in range(5000)]}}},
        {
            "columns": FACTS["columns"] | {f"z{i}": {"type": "number", "low": 0, "high": 1} for i in range(500)},
            "population": 20_000,
        },
    ],
    ids=["large", "of people", "bought", "long", "wide"],
)
def test_tables_without_a_center(changes: dict[str, Any]) -> None:
    assert table_recipe(schema(**changes), 0.5, None)["center"] is None


def test_where_no_query_can_be_answered_there_is_none() -> None:
    assert table_recipe(schema(), 3.0, None, hidden=[8])["center"] is None
    assert table_recipe(schema(), 3.0, None, queries=False)["center"] is None
    assert run(["tune", *train()[1:], "--set", "validation=0.5", "--grid", "optimizer.lr=1,2", "--trials", "2"]) == 0
    assert not Path("out/released.safetensors").exists()


def test_features_of_a_row_do_not_depend_on_the_others() -> None:
    """To the last bit, so that one row moves the sum of features by 1 at most."""
    rows = torch.rand(5000, 3)
    targets = torch.zeros(5000, dtype=torch.int64)
    for model in (tabular([0, 0, 5], 2, pieces=0, unit_rows=True, centered=True), linear(3, 2, centered=True)):
        whole = features_of(Uncentered(model), as_private((rows, targets)))
        assert torch.equal(features_of(Uncentered(model), as_private((rows[1:], targets[1:]))), whole[1:])
        assert float(whole.double().norm(dim=1).max()) < 1 + 1e-6


def test_without_a_center_features_are_as_ever() -> None:
    rows = torch.rand(9, 3)
    torch.testing.assert_close(CenteredColumns([0, 0, 5], 0, 8)(rows), UnitColumns([0, 0, 5], 0, 8)(rows))
    torch.testing.assert_close(Centered(3, size=10.0)(rows), RowNorm(10.0)(rows))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0, 1e3))
def test_a_mean_that_is_all_noise_becomes_zero(mean: list[float], std: float) -> None:
    values = np.array(mean)
    found = shrunk(values, std)
    assert np.linalg.norm(found) <= np.linalg.norm(values)
    if 0 < values @ values <= std**2 * len(mean):
        assert not found.any()
    np.testing.assert_allclose(shrunk(values, 0.0), values)


def test_the_verifiers_see_another_center() -> None:
    assert run(train()) == 0
    path, file = Path("out/certificate.json"), Path("out/released.safetensors")
    honest, tensor = path.read_text(), file.read_bytes()
    width = len(load_file(file)["center"])
    forged: dict[str, dict[str, torch.Tensor]] = {
        "other": {"center": torch.zeros(width)},
        "matrix": {"center": torch.zeros(width, width)},
        "name": {"components": torch.zeros(width)},
        "components": {"components": torch.eye(2, width)},
        "two": {"center": torch.zeros(width), "more": torch.zeros(1)},
        "none": {},
        "unplanned": {"center": torch.zeros(width)},
    }
    for name, tensors in forged.items():
        facts = json.loads(honest)
        save_file(tensors, file)
        if name != "other":  # who changes the file changes its digest as well
            facts["released"] |= {"sha256": reviewer.sha(file.read_bytes()), "tensors": sorted(tensors)}
        if name == "unplanned":
            facts["plan"]["before"] = []
        resealed(facts)
        path.write_text(json.dumps(facts))
        assert not check_released(facts, Path("out"))[0], name
        assert not verify("out").accepted, name
        with pytest.raises(Exception, match=r"."):
            reviewer.check_files(facts, Path("out"))
    path.write_text(honest)
    file.write_bytes(tensor)
    assert verify("out").accepted
    reviewer.check_files(json.loads(honest), Path("out"))


def test_another_process_is_told_the_center(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may be on another machine, without the folder of the run."""
    told = [0.1, -1 / 3, 1e-30]
    there = Ranks(1, 2)
    monkeypatch.setattr(Ranks, "joined", classmethod(lambda _: there))
    monkeypatch.setattr(Ranks, "from_first", lambda *_: json.loads(json.dumps(torch.tensor(told).tolist())))
    found = first_tensors.told_tensor(tmp_path / "elsewhere", "center", together=True)
    assert torch.equal(found, torch.tensor(told))


def test_a_run_goes_on_with_its_center(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("discreet.recipes.assemble.set_center", _crash)
        assert run(train()) != 0
    bought = load_file("out.run/released.safetensors")["center"]
    assert run(["train", "--resume", "out"]) == 0
    assert torch.equal(load_file("out/released.safetensors")["center"], bought)
    assert run(["verify", "out"]) == 0
    with monkeypatch.context() as patched:
        patched.setattr(first_tensors, "shrunk", _crash)
        assert run([*train()[:-1], "lost"]) != 0
    assert Ledger("lost.run/ledger.sqlite").charged_steps(json.loads(Path("lost.run/run.json").read_text())["run"]) == 1
    capsys.readouterr()
    assert run(["train", "--resume", "lost"]) == 2
    assert "has no center" in capsys.readouterr().err


def test_a_model_without_its_center_is_not_loaded() -> None:
    assert run(train()) == 0
    path = Path("out/certificate.json")
    facts = json.loads(path.read_text())
    del facts["released"]
    path.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="lacks the center"):
        load("out")


def following(model: nn.Module) -> list[str]:
    """The runs that a run on a model names whose weights were drawn anew: of another run it has the center alone."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    plan = Plan.poisson(population=200, batch=50, steps=1, clip_norm=1.0, delta=1e-3).calibrate(3.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.rand(200, 5), torch.zeros(200, dtype=torch.int64)
    trained = Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, run="next.run").run(progress=False)
    return [one.run for one in trained.warm_start]


def test_a_run_that_starts_from_a_center_names_its_run() -> None:
    """The center was bought on the rows of another run, even where no weight of that run is left."""
    assert run(train()) == 0
    predictor = load("out")
    assert following(predictor.model) == [predictor.certificate["ledger"]["entries"][0]["run"]]


def test_a_run_names_the_run_of_its_process_that_bought_its_center(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model never was in a file."""
    random = np.random.Generator(np.random.PCG64(6))
    rows = random.uniform(0, 8, size=(200, 5))
    first = PrivateClassifier(
        epsilon=3, delta=1e-3, population=200, bounds=(0, 100), classes=["a", "b"], steps=2, run_dir="first.run"
    ).fit(rows, np.where(rows[:, 0] > 4, "a", "b"))
    assert first.trained_.warm_start == ()
    model = copy.deepcopy(first.trained_.model)
    name = first.trained_.entries[0].run
    assert following(model) == [name]
    in_another_process(monkeypatch)
    shutil.rmtree("next.run")
    assert following(model) == []


def test_a_run_that_goes_on_does_not_name_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one does, which starts from what it left before it had a result."""
    with monkeypatch.context() as patched:
        patched.setattr(Training, "save", _crash)
        assert run(train()) != 0
    model = recipe().build_model()
    set_center(model, load_file("out.run/released.safetensors")["center"])
    assert following(model) == [json.loads(Path("out.run/run.json").read_text())["run"]]
    assert run(["train", "--resume", "out"]) == 0
    assert "warm_start" not in json.loads(Path("out/certificate.json").read_text())
    assert run(["verify", "out"]) == 0


def test_shadow_models_of_an_audit_have_the_center_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are like the published model, which was trained on features less its center."""
    assert run(train()) == 0
    built: list[nn.Module] = []

    def trained(self: Trainer, *_: object) -> nn.Module:
        built.append(self.model())
        return built[-1]

    monkeypatch.setattr(Trainer, "trained", trained)
    audit_model(Path("out"), Path("private.csv"), Path("public.csv"), shadows=4)
    center = load_file("out/released.safetensors")["center"]
    assert [torch.equal(center_of(model), center) for model in built] == [True] * 4


def test_a_run_that_leaves_the_center_out_is_that_of_a_table_without_one() -> None:
    """So that what follows from the noise of the steps is the same when it is said again."""
    assert run(train("--set", "center=null")) == 0
    kept = validate(Recipe, json.loads(Path("out.run/job.json").read_text())["recipe"], "recipe")
    without = validate(Recipe, table_recipe(schema(), 3.0, None, queries=False), "recipe")
    assert kept.optimizer == without.optimizer != recipe().optimizer


def test_a_mistake_costs_nothing() -> None:
    assert run(train("--set", "engine=fast")) == 2
    assert not Path("out.run").exists()


def test_what_has_no_center_is_refused() -> None:
    with pytest.raises(InputError, match="unit_rows"):
        tabular([0], 2, centered=True)
    with pytest.raises(InputError, match="embeddings"):
        CenteredColumns([5000], 0, 8)
    with pytest.raises(InputError, match="centered"):
        Uncentered(nn.Linear(2, 2))
    with pytest.raises(InputError, match="7 finite numbers"):
        set_center(tabular([0, 0, 3], 2, pieces=0, unit_rows=True, centered=True), torch.zeros(3))
    with pytest.raises(InputError, match="with the models linear and tabular"):
        recipe(model={"name": "mlp", "inputs": 5, "outputs": 2, "hidden": [3]})


def test_components_and_a_center_are_refused_together() -> None:
    """One run answers one of these queries, and a charge of one would be lost."""
    facts = {"data": "npz", "model": {"name": "linear", "inputs": 2, "outputs": 2}, "center": {"noise": 2.0}}
    facts |= {"optimizer": {"name": "sgd", "lr": 0.1}, "population": 150, "rate": 0.5, "steps": 3, "clip_norm": 1.0}
    facts |= {"epsilon": 3.0, "delta": 1e-3, "components": {"count": 2, "noise": 8.0}}
    with pytest.raises(InputError, match="components or a center, not both"):
        validate(Recipe, facts, "recipe")


def test_a_model_is_centered_by_its_center_alone() -> None:
    for centered in (True, False):
        with pytest.raises(InputError, match="center says whether"):
            recipe(model=table_recipe(schema(), 3.0, None)["model"] | {"centered": centered})


def test_arrays_and_images_are_centered() -> None:
    """A recipe on arrays that asks for it; a folder of images by default, but not one whose noise would be longer."""
    random = np.random.Generator(np.random.PCG64(1))
    x, y = random.uniform(3, 4, size=(200, 2, 4)), np.arange(200) % 2
    np.savez("mine.npz", x_train=x[:150], y_train=y[:150], x_test=x[150:], y_test=y[150:])
    facts = {"data": "npz", "model": {"name": "linear", "inputs": 8, "outputs": 2}, "center": {"noise": 2.0}}
    facts |= {"optimizer": {"name": "sgd", "lr": 0.1}, "population": 150, "rate": 0.5, "steps": 3, "clip_norm": 1.0}
    Path("mine.yaml").write_text(yaml.safe_dump(facts | {"epsilon": 3.0, "delta": 1e-3}))
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    assert verify("out").accepted
    center, predictor = load_file("out/released.safetensors")["center"], load("out")
    torch.testing.assert_close(center, torch.full((8,), 1 / math.sqrt(8)), rtol=0, atol=0.15)
    assert torch.equal(Uncentered(predictor.model).part.center, center)
    assert predictor.scores(x[150:]).shape == (50, 2)
    images = {"path": {"type": "image", "size": "16x16", "mode": "grey"}, "y": FACTS["columns"]["y"]}
    for population, centered in ((2000, True), (100, False), (30_000, False)):
        changed = schema(columns=images, population=population)
        assert (table_recipe(changed, 1.0, None)["center"] is not None) == centered
        assert table_recipe(changed, 1.0, None, queries=False)["center"] is None


def test_all_rungs_of_the_debug_ladder_are_centered(capsys: pytest.CaptureFixture[str]) -> None:
    """As the run is: its mean is next to exact where noise is, and exact without privacy."""
    facts = ["--schema", "schema.yaml", "--epsilon", "3", "--test", "public.csv", "--all-public", "--json"]
    assert run(["debug", "private.csv", *facts]) == 0
    rungs = {rung["name"]: rung["metrics"] for rung in json.loads(capsys.readouterr().out)}
    assert all(rungs[name]["accuracy"] > 0.8 for name in ("plain", "clipped", "noisy"))
    assert run(["debug", "private.csv", *facts, "--set", "center=null"]) == 0
    rungs = {rung["name"]: rung["metrics"] for rung in json.loads(capsys.readouterr().out)}
    assert rungs["noisy"]["accuracy"] < 0.6


def test_estimators_are_centered() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    rows = random.uniform(0, 8, size=(200, 4))
    labels = (rows[:, 0] > 4).astype(int)
    model = PrivateClassifier(epsilon=3, population=200, bounds=[(0, 100)] * 4, classes=[0, 1]).fit(rows, labels)
    assert model.trained_.released["center"].norm() > 0.5
    model.publish("published")
    assert verify("published").accepted
    np.testing.assert_allclose(load("published").scores(rows / 100).softmax(1), model.predict_proba(rows), atol=1e-6)


def _crash(*_: object) -> None:
    raise KeyboardInterrupt
