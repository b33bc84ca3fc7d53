"""A published folder is enough to predict, and nothing but the certified files is used."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from folders import folder_of
from forging import edit, put
from problems import WithPublicTensors, blobs, certified_run
from safetensors.torch import load as read_tensors
from torch import Tensor, nn

from discreet import InputError, VerificationFailed, load, publish, verify
from discreet.certificate.canonical import digest
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.jobs.command_line import CommandLine
from discreet.jobs.train import Job
from discreet.prediction.row_files import read_rows

RECIPE = """
data: npz
features:
  - {name: random_convolutions, filters: 8, width: 3, pool: 2, groups: 4, share: 0.7}
  - {name: strokes, share: 0.3}
model: {name: mlp, inputs: 464, outputs: 3, hidden: [5]}
optimizer: {name: sgd, lr: 0.5}
population: 24
rate: 0.5
steps: 3
clip_norm: 1.0
epsilon: 8.0
delta: 1.0e-4
"""


def images(rows: int = 24) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(1)).random((rows, 1, 10, 10)).astype(np.float32)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tensor]:
    """A folder published from a recipe with fixed features, and what its model said of the test rows in training."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "small.yaml").write_text(RECIPE)
    labels = np.arange(24) % 3
    np.savez(folder / "data.npz", x_train=images(), y_train=labels, x_test=images()[:7], y_test=labels[:7])
    made = Job.new(CommandLine(str(folder / "small.yaml"), folder / "data.npz", folder / "out"))
    _, trained = made.run(ledger=None, dataset_id="", finish=False)
    seen = made.recipe.load_data(folder / "data.npz").test
    assert seen is not None
    with torch.no_grad():
        return folder / "out", trained.model(seen[0])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of somebody's own."""
    folder = tmp_path_factory.mktemp("own")
    publish(certified_run(folder), folder / "out")
    return folder / "out"


def test_a_recipe_with_features_predicts_from_its_folder_alone(job: tuple[Path, Tensor]) -> None:
    folder, expected = job
    assert verify(folder).accepted
    predictor = load(folder)
    assert torch.equal(
        predictor.scores(images()[:7]), expected
    )  # to the last bit: features are computed as in training
    assert torch.equal(predictor.predict(images()[:7].reshape(7, -1)), expected.argmax(dim=1))
    assert predictor.certificate["claim"]["kind"] == "guarantee"
    assert not predictor.model.training
    with pytest.raises(InputError, match=r"rows of shape \(1, 10, 10\)"):
        predictor.predict(np.zeros((2, 99)))


def test_the_command_predicts_files_of_numbers(
    job: tuple[Path, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, expected = job
    rows = images()[:7].reshape(7, -1)
    lines = [",".join(f"{value:.9g}" for value in row) for row in rows]
    (tmp_path / "new.csv").write_text("\n".join([",".join(f"p{i}" for i in range(100)), *lines, ""]))
    np.save(tmp_path / "new.npy", rows)
    np.savez(tmp_path / "new.npz", x_train=images(), y_train=np.zeros(24), x=rows)
    told = []
    for name in ("new.csv", "new.npy", "new.npz"):
        assert run(["predict", str(folder), str(tmp_path / name)]) == 0
        told.append(capsys.readouterr().out.splitlines())
    assert told[0][0].startswith("class,probability,p(0),p(1)")
    assert [int(line.split(",")[0]) for line in told[0][1:]] == expected.argmax(dim=1).tolist()
    assert told[0] == told[1] == told[2]
    assert run(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text().splitlines() == told[0]
    assert run(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 2
    assert "exists already; name another file with --out, or replace it with --overwrite" in capsys.readouterr().err
    assert (
        run(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv"), "--overwrite"]) == 0
    )


def test_a_module_of_ones_own_is_compared_with_the_file(own: Path) -> None:
    with pytest.raises(InputError, match=r"WithPublicTensors.*model=\.\.\."):
        load(own)
    inputs, _ = blobs(9, seed=1)
    predictor, state = load(own, model=WithPublicTensors()), read_tensors((own / "model.safetensors").read_bytes())
    expected = (inputs - state["shift"]) * state["scale"] @ state["head.weight"].T + state["head.bias"]
    assert torch.allclose(predictor.scores(inputs), expected, atol=1e-6)
    wrong: dict[str, nn.Module] = {
        "'0.bias' is float32 [3] in the model and missing": nn.Sequential(nn.Linear(4, 3)),
        "float64": WithPublicTensors().double(),
    }
    for message, module in wrong.items():
        with pytest.raises(InputError, match="not the published one") as refused:
            load(own, model=module)
        assert message in str(refused.value)


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 2))


class ByName(nn.Module):
    """Its outputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"kind": self.head(x)}


def test_a_module_of_ones_own_takes_rows_as_in_training(tmp_path: Path) -> None:
    """Whole numbers stay whole: they may be words. What it cannot take, or does not give, is said in a line."""
    predictor = load(folder_of(tmp_path / "words", words(), ModelSpec(module="Sequential")), words())
    rows = torch.tensor([[0, 1, 4], [2, 2, 2]])
    with torch.no_grad():
        expected = predictor.model(rows)
    for given in (rows, rows.int(), rows.numpy(), rows.tolist(), rows.to(torch.uint8)):
        assert torch.equal(predictor.predict(given), expected)
    with pytest.raises(InputError, match=r"cannot take rows of torch.float32 and shape \(3,\): .*as in training"):
        predictor.predict(rows.double())
    with pytest.raises(InputError, match=r"cannot take rows of torch.int64 and shape \(3,\): index out of range"):
        predictor.predict(rows + 5)
    by_name = load(folder_of(tmp_path / "named", ByName(), ModelSpec(module="ByName")), ByName())
    with pytest.raises(InputError, match=r"returns a dict, .*predictor.model\(predictor.prepared\(rows\)\)"):
        by_name.scores(torch.zeros(2, 2))


def test_weights_of_another_precision_get_rows_of_theirs(tmp_path: Path) -> None:
    predictor = load(folder_of(tmp_path / "m", nn.Linear(2, 3).double(), ModelSpec()), nn.Linear(2, 3).double())
    assert predictor.scores([[0.5, 1.0]]).dtype == torch.float64


def test_classes_of_a_module_of_ones_own_are_predicted_where_its_spec_says_so(tmp_path: Path) -> None:
    spec = ModelSpec(module="Sequential", inputs=(3,), outputs="classes")
    predictor = load(folder_of(tmp_path / "words", words(), spec), words())
    assert torch.equal(predictor.predict([[0, 1, 4]]), predictor.scores([[0, 1, 4]]).argmax(1))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (WithPublicTensors, r"model=WithPublicTensors is no model; build it: model=WithPublicTensors\(\.\.\.\)"),
        ({}, "dict"),
    ],
)
def test_what_is_no_model_is_refused(model: Any, message: str, own: Path) -> None:
    with pytest.raises(InputError, match=message):
        load(own, model=model)


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "report.html", "README.md"])
def test_a_changed_file_is_not_loaded(own: Path, tmp_path: Path, name: str) -> None:
    for path in own.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes() + (b" " if path.name == name else b""))
    with pytest.raises(VerificationFailed, match=name):
        load(tmp_path, model=WithPublicTensors())
    failed = [check.name for check in verify(tmp_path).checks if not check.passed]
    assert failed[0] == ("model" if name == "model.safetensors" else "files")
    assert len(failed) == 1 or name == "model.safetensors"  # its tensors cannot be read either


def described_otherwise(folder: Path, target: Path, spec: str) -> Path:
    """The folder with another model.json whose hash the certificate states."""
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    (target / "model.json").write_text(spec)
    edit(put("files", "model.json", value=digest(spec.encode())))(target)
    return target


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ModelSpec(Named("resnet_of_doom")), "unknown model"),
        (ModelSpec(Named("mlp", {"inputs": 4})), "cannot have these arguments"),
        (ModelSpec(Named("linear", {"inputs": 10**13, "outputs": 3})), "not the published one"),  # takes no memory
        (ModelSpec(Named("linear", {"inputs": 464, "outputs": 3})), "not the published one"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(own: Path, tmp_path: Path, spec: ModelSpec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(described_otherwise(own, tmp_path, spec.to_json()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "discreet-model/2"}, "format"),
        ({"code": "import os"}, "exactly the fields"),
        ({"preprocessing": [{"name": "eval", "arguments": {}}]}, "unknown step 'eval'"),
        ({"preprocessing": [{"name": "components", "arguments": {}}]}, "has not released"),
        ({"preprocessing": [{"name": "features", "arguments": {"parts": [{"name": "x"}], "shape": [4]}}]}, "unknown"),
        ({"inputs": [-4]}, "inputs"),
        ({"outputs": "secrets"}, "outputs"),
    ],
)
def test_a_description_is_read_strictly(own: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    facts = json.loads(ModelSpec().to_json()) | change
    with pytest.raises(InputError, match=message):
        load(described_otherwise(own, tmp_path, json.dumps(facts)), model=WithPublicTensors())


def test_a_description_comes_back_as_it_was() -> None:
    spec = ModelSpec(
        Named("mlp", {"hidden": [3], "seed": 1}), None, (1, 8, 8), (Named("features"),), "mnist", "classes"
    )
    assert ModelSpec.from_json(spec.to_json()) == spec


def test_images_of_mnist_are_scaled_as_in_training(tmp_path: Path) -> None:
    pixels = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels.astype(np.uint8).tobytes()))
    assert np.array_equal(read_rows(tmp_path, (1, 28, 28)), pixels / 255)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", pickle.dumps([1]), "plain arrays"),
        ("a.npz", b"PK\x03\x04", "plain arrays"),
        ("a.csv", b"1,2\n3,x\n", "line 2, column 2: every cell must be a number"),
        ("a.csv", b"1,2\n3\n", "1 columns"),
        ("a.csv", b"a,b\n", "no rows"),
        ("a.csv", b"\xff\xfe\x00", "UTF-8"),
        ("a.idx", b"\x00", "idx"),
        ("b.npy", None, "there is no file"),
        ("a.png", b"\x89PNG", "a.png is no file of rows; give a .npy, .npz or .csv file"),
        ("", None, "no rows at"),
    ],
)
def test_files_that_are_no_rows_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_rows(tmp_path / name, None)


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="plain arrays"):
        read_rows(tmp_path / "a.npy", None)
