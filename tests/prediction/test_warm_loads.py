"""Weights of published folders are known as those of the runs that released them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from problems import certified_run, linear
from torch import nn
from warm_runs import again, in_another_process, names

import discreet
from discreet import publish
from discreet.certificate.earlier_runs import EarlierRun, together
from discreet.certificate.model_spec import Named
from discreet.core.errors import InputError
from discreet.integrations.mlflow_flavour import metadata_of
from discreet.prediction import export_onnx
from discreet.recipes.models.models import MODELS


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    in_another_process(monkeypatch)


def test_loaded_weights_are_known_with_all_the_runs_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = certified_run(tmp_path / "1", model=linear())
    second = certified_run(tmp_path / "2", model=again(first.model))
    publish(second, tmp_path / "published")
    in_another_process(monkeypatch)
    loaded = discreet.load(tmp_path / "published", nn.Linear(4, 3))
    assert first.entries[0].run in repr(loaded)
    third = certified_run(tmp_path / "3", model=again(loaded.model))
    assert names(third) == sorted([first.entries[0].run, second.entries[0].run])


def test_exported_models_name_the_runs_before(tmp_path: Path) -> None:
    """Files of ONNX and models of MLflow, whose metadata travel without the certificate."""
    first = certified_run(tmp_path / "1", model=MODELS["linear"](4, 3))
    second = certified_run(tmp_path / "2", model=copy.deepcopy(first.model))
    spec = discreet.ModelSpec(model=Named("linear", {"inputs": 4, "outputs": 3}), inputs=(4,), outputs="classes")
    for run, before in ((first, []), (second, [first.entries[0].run])):
        folder = tmp_path / f"published-{len(before)}"
        publish(run, folder, spec)
        file = export_onnx(folder, tmp_path / f"{len(before)}.onnx")
        properties = {one.key: one.value for one in onnx.load(file).metadata_props}
        assert [one["run"] for one in json.loads(properties.get("discreet.warm_start", "[]"))] == before
        metadata = metadata_of(folder)
        assert metadata["delta"] == run.plan.delta
        assert [one["run"] for one in metadata.get("warm_start", [])] == before


def test_a_body_that_the_run_left_as_it_was_is_of_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = certified_run(tmp_path / "1", model=linear())
    body = again(first.model).requires_grad_(False)
    second = certified_run(tmp_path / "2", model=nn.Sequential(body, nn.Linear(3, 3)))
    publish(second, tmp_path / "published")
    in_another_process(monkeypatch)
    loaded = discreet.load(tmp_path / "published", nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)))
    body = again(loaded.model.get_submodule("0"))
    third = certified_run(tmp_path / "3", model=nn.Sequential(body, nn.Linear(3, 3)))
    assert names(third) == [first.entries[0].run]


def test_zeros_that_a_run_did_not_move_are_nobodys(tmp_path: Path) -> None:
    model = linear()
    nn.init.zeros_(model.get_parameter("bias"))
    groups = [{"params": [model.get_parameter("weight")]}, {"params": [model.get_parameter("bias")], "lr": 0.0}]
    publish(
        certified_run(tmp_path / "1", model=model, optimizer=torch.optim.SGD(groups, lr=0.1)), tmp_path / "published"
    )
    discreet.load(tmp_path / "published", nn.Linear(4, 3))
    other = linear(5)
    nn.init.zeros_(other.get_parameter("bias"))
    assert names(certified_run(tmp_path / "2", model=other)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"run": "a\n\x1b[31mall is well"},
        {"run": ""},
        {"epsilon": -1.0},
        {"epsilon": "abc"},
        {"epsilon": [1]},
        {"epsilon": None},
        {"delta": 0.0},
        {"delta": None},
        {"unit": "nobody"},
        {"adjacency": "none"},
    ],
)
def test_a_certificate_that_names_no_run_is_not_loaded(tmp_path: Path, change: dict[str, Any]) -> None:
    """Else its words would be heard in the warning of a run, which then could not be published."""
    publish(certified_run(tmp_path / "1", model=linear()), tmp_path / "published")
    file = tmp_path / "published" / "certificate.json"
    facts = json.loads(file.read_text())
    facts["claim"] |= {name: value for name, value in change.items() if name != "run"}
    if "run" in change:
        facts["ledger"]["entries"][0]["run"] = change["run"]
    file.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="certificate"):
        discreet.load(tmp_path / "published", nn.Linear(4, 3))


def test_of_two_guarantees_of_a_run_the_weaker_is_named() -> None:
    def one(epsilon: float | None, delta: float = 1e-5) -> EarlierRun:
        return EarlierRun("a", epsilon, delta, "add_remove", "example")

    for weak, strong in ((one(2.0), one(0.5)), (one(None), one(0.5)), (one(1.0, 1e-3), one(1.0))):
        assert together([weak], [strong]) == together([strong], [weak]) == (weak,)
