"""An ONNX file predicts what the published folder predicts, by another runtime; what ONNX cannot say is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from folders import folder_of
from torch import Tensor, nn

from discreet import InputError, load
from discreet.certificate.canonical import digest
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.data.tables import Encoder, Schema
from discreet.prediction import encode_table, export_onnx, predict_table
from discreet.recipes.models.models import CODES, MODELS

SCHEMA = {
    "unit": "row",
    "population": 9,
    "target": ["outcome"],
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "seen": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
        "sex": {"type": "category", "categories": ["f", "m"]},
        "town": {"type": "category", "categories": [f"t{i}" for i in range(70)]},
        "outcome": {"type": "category", "categories": ["well", "ill"]},
    },
}
ENCODER = Encoder(Schema.model_validate(SCHEMA))

CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "digit_strokes": ({}, (64,)),
    "mnist_strokes": ({}, (1, 28, 28)),
    "linear": ({"inputs": 6, "outputs": 3}, (2, 3)),
    "mlp": ({"inputs": 6, "outputs": 3, "hidden": [5]}, (6,)),
    "mnist_cnn": ({}, (1, 28, 28)),
    "mean_embedding": ({"tokens": 20}, (7,)),
    "word_scores": ({"tokens": 20}, (7,)),
    "collaborative_filtering": ({"users": 5, "films": 6}, (2,)),
    "biases": ({"users": 5, "films": 6, "rank": 2}, (2,)),
    "resnet9": ({"width": 4, "groups": 2}, (3, 32, 32)),
    "tabular": ({"kinds": list(ENCODER.kinds), "outputs": 2, "hidden": [4]}, (4,)),
}

REFUSED = {"resnet18": ({"width": 4, "side": 32}, (3, 32, 32))}
"""Models whose file ONNX's reference evaluator reads otherwise."""


def of_case(path: Path, name: str, **more: Any) -> Path:
    arguments, shape = (CASES | REFUSED)[name]
    return folder_of(path, MODELS[name](**arguments), ModelSpec(model=Named(name, arguments), inputs=shape, **more))


def rows_for(name: str, count: int) -> Tensor:
    shape = (count, *CASES[name][1])
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, 5, shape, generator=generator) if name in CODES else torch.rand(shape, generator=generator)


def said_by(file: Path, rows: Tensor | np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["scores"], {"rows": np.asarray(rows)})[0])


def agrees(file: Path, folder: Path, rows: Tensor) -> None:
    wanted = load(folder).scores(rows).numpy()
    found = said_by(file, rows)
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=0, atol=1e-4 * max(1.0, np.abs(wanted).max()))


def test_every_model_has_a_case() -> None:
    assert {*CASES, *REFUSED} >= set(MODELS), "a model that recipes can name is not tried out as ONNX; add a case"


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_would_say_something_else_is_not_kept(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file would predict something else"):
        export_onnx(of_case(tmp_path / "f", name), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("name", CASES)
def test_the_runtime_says_what_the_folder_says(name: str, tmp_path: Path) -> None:
    folder = of_case(tmp_path / "f", name)
    file = export_onnx(folder, tmp_path / "m.onnx")
    for count in (1, 5):  # neither is a number of rows that the export has seen
        agrees(file, folder, rows_for(name, count))
    properties = {one.key: one.value for one in onnx.load(file).metadata_props}
    assert properties["discreet.certificate_sha256"] == digest((folder / "certificate.json").read_bytes())
    assert json.loads(properties["discreet.claim"]) == load(folder).certificate["claim"]


@pytest.mark.parametrize(
    "parts",
    [
        ["strokes", "hog"],
        [{"name": "random_convolutions", "filters": 8, "groups": 4}],
        [{"name": "strokes", "deskew": True}],
    ],
)
def test_front_ends_are_in_the_file(parts: list[Any], tmp_path: Path) -> None:
    from discreet.recipes.sections.fixed_features import Features, build_front_end, named

    built = build_front_end([Features.model_validate(part) for part in named(parts)], (1, 12, 12))  # type: ignore[union-attr]
    arguments = {"inputs": built(torch.rand(1, 1, 12, 12)).shape[1], "outputs": 3}
    spec = ModelSpec(
        model=Named("linear", arguments),
        inputs=(1, 12, 12),
        preprocessing=(Named("features", {"parts": parts, "shape": [1, 12, 12]}),),
    )
    folder = folder_of(tmp_path / "f", MODELS["linear"](**arguments), spec)
    agrees(export_onnx(folder, tmp_path / "m.onnx"), folder, torch.rand(5, 1, 12, 12))


def test_released_components_are_in_the_file(tmp_path: Path) -> None:
    spec = ModelSpec(
        model=Named("linear", {"inputs": 2, "outputs": 3}), inputs=(6,), preprocessing=(Named("components"),)
    )
    components = {"components": torch.linalg.qr(torch.randn(6, 2))[0].T.contiguous()}
    folder = folder_of(tmp_path / "f", MODELS["linear"](2, 3), spec, components)
    agrees(export_onnx(folder, tmp_path / "m.onnx"), folder, torch.rand(5, 6))


def test_a_table_goes_through_its_schema(tmp_path: Path) -> None:
    folder = of_case(tmp_path / "f", "tabular", table=ENCODER.to_json(), outputs="classes")
    (tmp_path / "t.csv").write_text("age,seen,sex,town\n30,2010-05-01,f,t3\n,2020-01-01,x,\n200,,m,t69\n")
    predictor = load(folder)
    file = export_onnx(folder, tmp_path / "m.onnx")
    found = ENCODER.decode(said_by(file, encode_table(predictor, tmp_path / "t.csv")))
    assert np.allclose(found, predict_table(predictor, tmp_path / "t.csv")[1], atol=1e-5)
    properties = {one.key: one.value for one in onnx.load(file).metadata_props}
    assert Encoder.from_json(json.loads(properties["discreet.table"])).kinds == ENCODER.kinds


def test_the_command_writes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    of_case(Path("f"), "linear")
    assert run(["export", "f", "m.onnx"]) == 0
    for file, said in (("m.onnx", "exists already"), ("m.pt", "no .onnx file"), ("no/m.onnx", "cannot write")):
        assert run(["export", "f", file]) == 2
        assert said in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert run(["export", "f", "n.onnx"]) == 2
    assert 'pip install "discreet[onnx]"' in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "m.onnx"]


class Spectrum(nn.Module):
    """What ONNX's operators for floats do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(torch.fft.fft2(rows.reshape(-1, 2, 2)).abs().flatten(1))


class Frozen(nn.Module):
    """Adds up what it saw when it was traced: the file would say something else."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(rows) * float(rows.sum())


@pytest.mark.parametrize(("model", "said"), [(Spectrum(), "fft_fft2"), (Frozen(), "predict something else")])
def test_what_onnx_cannot_say_is_refused(model: nn.Module, said: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "f", model, ModelSpec(module="a.Net", inputs=(4,)))
    with pytest.raises(InputError, match=f"cannot be written as ONNX.*{said}"):
        export_onnx(folder, tmp_path / "m.onnx", model=model)
    assert not (tmp_path / "m.onnx").exists()


def test_a_front_end_that_cannot_be_exported_is_named(tmp_path: Path) -> None:
    parts = [{"name": "scattering", "scales": 1, "groups": 3, "order": 1}]
    spec = ModelSpec(
        model=Named("linear", {"inputs": 9, "outputs": 2}),
        inputs=(1, 8, 8),
        preprocessing=(Named("features", {"parts": parts, "shape": [1, 8, 8]}),),
    )
    with pytest.raises(InputError, match="the model linear behind scattering cannot be written as ONNX"):
        export_onnx(folder_of(tmp_path / "f", MODELS["linear"](9, 2), spec), tmp_path / "m.onnx")


def test_codes_are_whole_numbers_that_the_model_knows(tmp_path: Path) -> None:
    predictor = load(of_case(tmp_path / "f", "biases"))
    assert torch.equal(predictor.scores([[1.0, 2.0]]), predictor.scores([[1, 2]]))
    for rows, said in (([[0.5, 1]], "whole numbers"), ([[-1, 1]], "whole numbers"), ([[1, 99]], "does not know")):
        with pytest.raises(InputError, match=said):
            predictor.scores(rows)
