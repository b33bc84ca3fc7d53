"""Loggers write exactly what callbacks are told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

import pytest
from listener import Listener, told_of
from problems import blobs, tiny_training

from discreet.core.errors import InputError
from discreet.training import CSVLogger, MLflowLogger, TensorBoardLogger, Told, WandbLogger

EVERYTHING = "ignore"
"""Warnings of packages that are not ours."""


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "run.csv"
    trained = tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(evaluate_every=3, callbacks=[CSVLogger(path)])
    head, *lines = path.read_text().splitlines()
    assert head == "step,metric,value"
    found = {(int(step), name): float(value) for step, name, value in (line.split(",") for line in lines)}
    assert found == {
        (one.step, f"public/{name}"): value for one in trained.evaluations for name, value in one.metrics.items()
    }
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is another file"):
        tiny_training(tmp_path / "two").run(callbacks=[CSVLogger(tmp_path / "other.csv")])


@pytest.mark.filterwarnings(EVERYTHING)
def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained = tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(
        evaluate_every=3, callbacks=[TensorBoardLogger(tmp_path / "events")]
    )
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    found = events.Scalars("public/loss")
    assert [(one.step, one.wall_time) for one in found] == [(e.step, float(e.step)) for e in trained.evaluations]
    assert [one.value for one in found] == pytest.approx([e.metrics["loss"] for e in trained.evaluations])


@pytest.mark.filterwarnings(EVERYTHING)
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    where = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    logger = MLflowLogger("tiny", tracking_uri=where)
    training = tiny_training(tmp_path, public_test=blobs(9, seed=1))
    trained = training.run(evaluate_every=3, callbacks=[logger])
    client = mlflow.MlflowClient(where)
    run = client.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["noise.0.multiplier"] == "1.5"
    assert float(run.data.params["epsilon"]) == training.plan.guarantee().epsilon
    history = client.get_metric_history(logger.run_id, "public/loss")
    assert [(one.step, one.timestamp, one.value) for one in history] == [
        (e.step, e.step, e.metrics["loss"]) for e in trained.evaluations
    ]


@pytest.mark.parametrize(
    ("module", "make", "name"),
    [
        ("tensorboard", lambda: TensorBoardLogger("x"), "tensorboard"),
        ("mlflow", MLflowLogger, "mlflow"),
        ("wandb", WandbLogger, "wandb"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    module: str, make: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"discreet\[{name}\]"):
        make()


class Recorded:
    """What is called of a package, in order, and of a listener beside it."""

    def __init__(self, heard: list[object]) -> None:
        self.heard = heard

    def Settings(self, **given: object) -> dict[str, object]:  # noqa: N802
        return given

    def init(self, **given: object) -> Self:
        self.heard.append(given)
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.heard.append((step, metrics))

    def finish(self, exit_code: int) -> None:
        self.heard.append(exit_code)


@pytest.mark.parametrize("broken", [False, True])
def test_wandb_is_told_when_the_run_ends_and_of_no_machine(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(fail_at=3 if broken else None)
    monkeypatch.setitem(sys.modules, "wandb", Recorded(listener.heard))  # type: ignore[arg-type]
    training = tiny_training(tmp_path, public_test=blobs(9, seed=1))
    callbacks = [WandbLogger("tiny", mode="offline"), listener]
    if broken:
        with pytest.raises(RuntimeError, match="a callback broke"):
            training.run(evaluate_every=3, callbacks=callbacks)
    else:
        training.run(evaluate_every=3, callbacks=callbacks)
    at = listener.heard.index("left")
    assert {type(one) for one in listener.heard[2:at]} == {Told}  # nothing is sent between two steps
    begun, *logged, code = listener.heard[at + 1 :]
    assert isinstance(begun, dict)
    assert (begun["project"], begun["mode"]) == ("tiny", "offline")
    assert begun["config"]["epsilon"] == training.plan.guarantee().epsilon
    assert begun["settings"] == {
        "x_disable_stats": True,
        "x_disable_machine_info": True,
        "disable_git": True,
        "disable_code": True,
        "console": "off",
    }
    assert logged == [(one.step, one.metrics) for one in told_of(listener) if one.metrics]
    assert code == int(broken)


def test_a_run_whose_figures_wandb_does_not_take_keeps_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable:
        Settings = dict

        @staticmethod
        def init(**options: object) -> None:
            raise ConnectionError("no network")

    monkeypatch.setitem(sys.modules, "wandb", Unreachable)  # type: ignore[arg-type]
    training = tiny_training(tmp_path)
    trained = training.run(callbacks=[WandbLogger("tiny")])
    assert trained.charged_steps == training.plan.charges
    assert caplog.messages[-1] == "Weights & Biases did not take the figures of the run: no network"


@pytest.mark.filterwarnings(EVERYTHING)
def test_wandb_itself(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    training = tiny_training(tmp_path, public_test=blobs(9, seed=1))
    training.run(evaluate_every=3, callbacks=[WandbLogger("tiny", mode="offline", dir=str(tmp_path))])
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"public/loss" in file.read_bytes()
    assert not list(tmp_path.glob("wandb/offline-run-*/files/output.log"))
