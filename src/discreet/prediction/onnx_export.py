"""`export_onnx`: the model of a published folder, with the preparation of its inputs, as one ONNX file.

The file is kept only if ONNX's own reference evaluator agrees with the model on random rows. It is post-processing of
the published folder, so it reveals nothing more.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import load as read_tensors
from torch import Tensor, nn

from discreet.certificate.canonical import digest
from discreet.certificate.files import CERTIFICATE, RELEASED, read
from discreet.core.disk import write_output
from discreet.core.errors import InputError, first_line
from discreet.core.imports.extras import extra
from discreet.prediction.load import Predictor, load
from discreet.recipes.models.models import CODES
from discreet.recipes.sections.components import OnComponents
from discreet.recipes.sections.fixed_features import Features, build_front_end, named

OPSET = 20
"""The version of ONNX's operators in the file; runtimes of 2024 and later have it."""

_TOLERANCE = 1e-4
"""The largest difference of scores from the model's, relative to the largest score: float32 sums in another order."""


def export_onnx(folder: str | Path, path: str | Path, model: nn.Module | None = None) -> Path:
    """Write `path` (a new .onnx file) for the published `folder`, whose files must be the certified ones.

    Input `rows` (n, ...) as `discreet.load(folder)` takes them, float32, or int64 for models of codes; output `scores`
    (n, outputs). For a table, rows are those of `encode_table`; the file's metadata hold the schema, the claim, the
    SHA-256 of the certificate, and the private runs whose weights it started from, if any. `model`: as in `load`.

    `InputError` if the model or a front end has operations that ONNX lacks, if the shape of a row is unknown, or if the
    file would disagree with the model. Needs the extra `onnx`.
    """
    onnx = extra("onnx", "onnx", "export")
    folder, path = Path(folder), Path(path)
    if path.suffix != ".onnx":
        raise InputError(f"{path} is no .onnx file; name one that ends in .onnx")
    if path.exists():
        raise InputError(f"{path} exists already; name another file")
    predictor = load(folder, model)
    if predictor.spec.inputs is None:
        raise InputError(
            f"{folder} does not tell the shape of a row, which this file needs; publish with it, "
            "publish(trained, DIR, ModelSpec(inputs=(20,), outputs='classes')), or write the file by "
            "torch.onnx.export(discreet.load(DIR, model=...).model, ...)"
        )
    content = onnx.load_from_string(_traced(predictor, _whole(folder, predictor)))
    _check(onnx, content, predictor)
    onnx.helper.set_model_props(content, _properties(folder, predictor))
    write_output(path, content.SerializeToString(), replace=False)
    return path


def _whole(folder: Path, predictor: Predictor) -> nn.Module:
    """Preprocessing and model as one module."""
    file = folder / RELEASED
    released = read_tensors(read(file)) if "released" in predictor.certificate else {}
    for step in predictor.spec.preprocessing:
        if step.name not in _AS_MODULES:
            raise InputError(f"{_name(predictor)} cannot be written as ONNX: it has no form for the step {step.name}")
    built = [_AS_MODULES[step.name](released, **step.arguments) for step in predictor.spec.preprocessing]
    return nn.Sequential(*built, predictor.model).eval()


def _features(_released: Mapping[str, Tensor], parts: list[Any], shape: list[int]) -> nn.Module:
    return build_front_end([Features.model_validate(part) for part in cast("list[object]", named(parts))], shape)


def _components(released: Mapping[str, Tensor]) -> nn.Module:
    return OnComponents(released["components"])


_AS_MODULES: Mapping[str, Callable[..., nn.Module]] = {"features": _features, "components": _components}


def _traced(predictor: Predictor, whole: nn.Module) -> bytes:
    buffer = io.BytesIO()
    try:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                whole,
                (_random(predictor, 2),),
                cast("Any", buffer),  # its type hint knows of paths only
                dynamo=False,
                opset_version=OPSET,
                input_names=["rows"],
                output_names=["scores"],
                dynamic_axes={"rows": {0: "n"}, "scores": {0: "n"}},
            )
    except (torch.onnx.OnnxExporterError, RuntimeError, TypeError, ValueError) as error:
        reason = first_line(error)
        raise InputError(f"{_name(predictor)} cannot be written as ONNX: {reason:.200}") from None
    return buffer.getvalue()


def _check(onnx: Any, content: Any, predictor: Predictor) -> None:
    """Check that file and model agree on 3 random rows together, and on one alone."""
    from onnx.reference import ReferenceEvaluator

    onnx.checker.check_model(content)
    evaluator = ReferenceEvaluator(content)
    for count in (3, 1):
        rows = _random(predictor, count)
        wanted = predictor.scores(rows).numpy()
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(cast("Any", evaluator.run(None, {"rows": rows.numpy()}))[0])
        except Exception as error:  # the evaluator raises whatever NumPy does
            raise InputError(f"{_name(predictor)} cannot be written as ONNX: {error!s:.200}") from None
        if found.shape != wanted.shape or not np.allclose(
            found, wanted, rtol=0, atol=_TOLERANCE * max(1.0, float(np.abs(wanted).max()))
        ):
            raise InputError(f"{_name(predictor)} cannot be written as ONNX: the file would predict something else")


def _random(predictor: Predictor, count: int) -> Tensor:
    """`count` rows that the model can take: codes 0 and 1, or numbers between 0 and 1."""
    shape = (count, *(predictor.spec.inputs or ()))
    generator = torch.Generator().manual_seed(count)
    if predictor.spec.model is not None and predictor.spec.model.name in CODES:
        return torch.randint(0, 2, shape, generator=generator)
    return torch.rand(shape, generator=generator)


def _properties(folder: Path, predictor: Predictor) -> dict[str, str]:
    found = {
        "discreet.certificate_sha256": digest(read(folder / CERTIFICATE)),
        "discreet.claim": json.dumps(predictor.certificate["claim"]),
    }
    if "warm_start" in predictor.certificate:
        found["discreet.warm_start"] = json.dumps(predictor.certificate["warm_start"])
    if predictor.spec.table is not None:
        found["discreet.table"] = json.dumps(predictor.spec.table)
    return found


def _name(predictor: Predictor) -> str:
    """The name of the exported parts, for errors: the front ends, if any, and the model."""
    spec = predictor.spec
    model = spec.model.name if spec.model is not None else type(predictor.model).__name__
    parts = [part["name"] for step in spec.preprocessing for part in step.arguments.get("parts", [])]
    return f"the model {model}" + (f" behind {', '.join(parts)}" if parts else "")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences torch's warnings about its own exporters, which do not help the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
