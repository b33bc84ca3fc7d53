"""Metrics of a run for MLflow."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from discreet.core.imports.extras import extra
from discreet.training.callbacks.base import Opening, Told

_LONGEST = 500
"""MLflow refuses values of parameters that are longer on some of its stores."""


class MLflowLogger:
    """Logs the settings of the plan and all metrics to one run of MLflow; needs `discreet[mlflow]`.

    `experiment`: the name of the experiment, created if it does not exist. `tracking_uri`: the server, by default as
    MLflow is configured. The time of a metric is its step in milliseconds, because the true time would reveal how long
    steps took. MLflow itself notes when the whole run began and ended.
    """

    def __init__(self, experiment: str = "discreet", *, tracking_uri: str | None = None) -> None:
        mlflow = extra("mlflow", "mlflow", "MLflowLogger")
        self._client: Any = mlflow.MlflowClient(tracking_uri)
        self._experiment = experiment
        self.run_id: str | None = None

    def __enter__(self) -> Self:
        found = self._client.get_experiment_by_name(self._experiment)
        identity = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self.run_id = self._client.create_run(identity).info.run_id
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.set_terminated(self.run_id, "FINISHED" if kind is None else "FAILED")

    def begin(self, opening: Opening) -> None:
        """Log the settings of the plan as parameters."""
        for name, value in opening.settings.items():
            self._client.log_param(self.run_id, name, str(value)[:_LONGEST])

    def tell(self, told: Told) -> None:
        """Log what is new."""
        for name, value in told.metrics.items():
            self._client.log_metric(self.run_id, name, value, timestamp=told.step, step=told.step)
