"""Centers from run to run: one that goes on has its own, and one that starts from another's names the run of it."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from centered_tables import recipe, train
from safetensors.torch import load_file
from torch import nn
from warm_runs import in_another_process

from discreet import load
from discreet.audit.membership.shadow_models import Trainer
from discreet.cli.app import run
from discreet.distributed.ranks import Ranks
from discreet.estimators import PrivateClassifier
from discreet.jobs.audits.audit_model import audit_model
from discreet.ledger import Ledger
from discreet.plan import Plan
from discreet.recipes.models.centered import center_of, set_center
from discreet.training import Training
from discreet.training.run import first_tensors

pytestmark = pytest.mark.usefixtures("centered_tables")


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


def _crash(*_: object) -> None:
    raise KeyboardInterrupt
