"""A published folder as a model of MLflow, which `mlflow.pyfunc` loads anywhere. Needs `discreet[mlflow]`.

What is saved is the folder as it was published, with its certificate; `mlflow.pyfunc.load_model` reads it by
`discreet.load`, which compares every file with the certificate and runs nothing that is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.core.errors import InputError, VerificationFailed
from discreet.core.imports.extras import extra, versions
from discreet.prediction import Predictor, load
from discreet.prediction.frames import predict_frame
from discreet.verification import verify

_LOADER = "discreet.integrations.mlflow_flavour"


class PublishedModel:
    """The model of a published folder with the method that `mlflow.pyfunc` calls."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> Any:
        """The predictions that `discreet predict` writes for these rows, as a frame of their kind; of an array, as an
        array: the class of each row, or the model's outputs."""
        if params:
            raise InputError(f"a published model takes no parameters, got {', '.join(map(str, params))}")
        if hasattr(rows, "iloc") or hasattr(rows, "__arrow_c_stream__"):
            return predict_frame(self.predictor, rows)
        return self.predictor.predict(rows).numpy()


def save_model(folder: str | Path, path: str | Path) -> None:
    """Write the published `folder` as a model of MLflow to the new folder `path`.

    `VerificationFailed` if the certificate does not hold. The claim stands in the model's metadata. `InputError` for a
    model of its maker's own module, which nothing could build where it is served.
    """
    flavour = extra("mlflow.pyfunc", "mlflow", "save_model")
    if Path(path).exists():
        raise InputError(f"{path} exists already; name another folder")
    flavour.save_model(path=str(path), **_facts(folder))


def log_model(folder: str | Path, name: str = "model") -> Any:
    """Log the published `folder` as the model `name` of MLflow's active run; returns MLflow's record of it.

    Errors as of `save_model`.
    """
    flavour = extra("mlflow.pyfunc", "mlflow", "log_model")
    return flavour.log_model(name=name, **_facts(folder))


def _facts(folder: str | Path) -> dict[str, Any]:
    verdict = verify(folder)
    if not verdict.accepted:
        raise VerificationFailed(f"{folder} is not published as a model of MLflow:\n{verdict}")
    needs = versions("discreet", "torch")
    return {
        "loader_module": _LOADER,
        "data_path": str(folder),
        "pip_requirements": [f"{name}=={version}" for name, version in needs.items()],
        "metadata": metadata_of(folder),
    }


def metadata_of(folder: str | Path) -> dict[str, Any]:
    """The privacy metadata of a model of MLflow: the claim, and the private runs that it started from, if any."""
    certificate = load(folder).certificate
    found = {name: certificate["claim"][name] for name in ("epsilon", "delta", "unit", "adjacency")}
    return found | ({"warm_start": certificate["warm_start"]} if "warm_start" in certificate else {})


def _load_pyfunc(path: str) -> PublishedModel:
    """The function that `mlflow.pyfunc.load_model` calls."""
    return PublishedModel(load(path))
