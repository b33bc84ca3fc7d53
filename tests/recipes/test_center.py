"""The center of a table's features: bought before the first step, covered by the claim, a part of what predicts."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from centered_tables import recipe, train
from forging import resealed
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from discreet import InputError, load, verify
from discreet.cli.app import run
from discreet.data import as_private
from discreet.estimators import PrivateClassifier
from discreet.features import RowNorm
from discreet.prediction import encode_table
from discreet.recipes.assemble import features_of
from discreet.recipes.models.centered import Centered, Uncentered, set_center
from discreet.recipes.models.models import linear
from discreet.recipes.models.tabular import CenteredColumns, UnitColumns, tabular
from discreet.training.run.first_tensors import shrunk
from discreet.verification.checks.released_tensors import check_released
from discreet.verification.standalone import verify as reviewer

pytestmark = pytest.mark.usefixtures("centered_tables")


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


def test_a_model_without_its_center_is_not_loaded() -> None:
    assert run(train()) == 0
    path = Path("out/certificate.json")
    facts = json.loads(path.read_text())
    del facts["released"]
    path.write_text(json.dumps(facts))
    with pytest.raises(InputError, match="lacks the center"):
        load("out")


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


def test_estimators_are_centered() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    rows = random.uniform(0, 8, size=(200, 4))
    labels = (rows[:, 0] > 4).astype(int)
    model = PrivateClassifier(epsilon=3, population=200, bounds=[(0, 100)] * 4, classes=[0, 1]).fit(rows, labels)
    assert model.trained_.released["center"].norm() > 0.5
    model.publish("published")
    assert verify("published").accepted
    np.testing.assert_allclose(load("published").scores(rows / 100).softmax(1), model.predict_proba(rows), atol=1e-6)
