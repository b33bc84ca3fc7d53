"""Callbacks are told what is public or was released, and the loggers write exactly that."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from problems import blobs, tiny_plan, tiny_training

from discreet.core.errors import InputError
from discreet.plan import Metric
from discreet.publication import publish
from discreet.training import (
    CSVLogger,
    EarlyStopping,
    MLflowLogger,
    Opening,
    StopTraining,
    TensorBoardLogger,
    Told,
    WandbLogger,
)

EVERYTHING = "ignore"
"""Warnings of packages that are not ours."""


class Listener:
    """Keeps what it is told, and in which order it is entered and left."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.heard: list[Opening | Told | str] = []
        self._fail_at = fail_at

    def __enter__(self) -> Self:
        self.heard.append("entered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heard.append("left")

    def begin(self, opening: Opening) -> None:
        self.heard.append(opening)

    def tell(self, told: Told) -> None:
        self.heard.append(told)
        if told.step == self._fail_at:
            raise RuntimeError("a callback broke")


def told_of(listener: Listener) -> list[Told]:
    return [one for one in listener.heard if isinstance(one, Told)]


def test_they_are_told_each_step_with_what_is_public_or_bought(tmp_path: Path) -> None:
    listener = Listener()
    plan = tiny_plan(metrics=[Metric(noise=4.0)])
    training = tiny_training(tmp_path, plan=plan, public_test=blobs(9, seed=1))
    trained = training.run(evaluate_every=3, callbacks=[listener])
    first, opening, *_, last = listener.heard
    assert (first, last) == ("entered", "left")
    assert isinstance(opening, Opening)
    assert opening.settings["epsilon"] == training.plan.guarantee().epsilon
    assert opening.settings["noise.0.multiplier"] == 1.5
    told = told_of(listener)
    assert [one.step for one in told] == sorted({one.step for one in told})
    assert told[-1].step == training.plan.charges == told[0].steps
    public = {one.step: one.metrics for one in trained.evaluations}
    assert {one.step: one.metrics["public/loss"] for one in told if "public/loss" in one.metrics} == {
        step: metrics["loss"] for step, metrics in public.items()
    }
    (bought,) = trained.bought
    (heard,) = [one.metrics for one in told if "bought/training_accuracy" in one.metrics]
    assert heard["bought/training_accuracy"] == bought.value
    assert heard["bought/training_accuracy_deviation"] == bought.deviation
    assert {name.split("/")[0] for one in told for name in one.metrics} == {"public", "bought"}


def test_without_public_data_there_is_nothing_but_the_step(tmp_path: Path) -> None:
    listener = Listener()
    tiny_training(tmp_path).run(callbacks=[listener])
    assert [one.metrics for one in told_of(listener)] == [{}] * 7


def test_one_that_breaks_ends_the_run_and_all_are_left(tmp_path: Path) -> None:
    first, second = Listener(), Listener(fail_at=4)
    training = tiny_training(tmp_path)
    with pytest.raises(RuntimeError, match="a callback broke"):
        training.run(callbacks=[first, second])
    assert first.heard[-1] == second.heard[-1] == "left"
    assert told_of(first)[-1].step == 4


def test_one_that_hides_errors_does_not_hide_that_of_a_run(tmp_path: Path) -> None:
    """A run that has failed has no result, so its caller must see that."""

    class Hiding(Listener):
        def __exit__(self, *_: object) -> bool:  # type: ignore[override]
            return True

    with pytest.raises(RuntimeError, match="a callback broke"):
        tiny_training(tmp_path).run(callbacks=[Hiding(fail_at=4)])


class Half:
    def tell(self, told: Told) -> None:
        """There is no begin, and nothing to enter."""


@pytest.mark.parametrize(
    ("callback", "said"),
    [
        (Half(), "the callback Half has no begin, __enter__, __exit__; it needs all methods"),
        (lambda step, metrics: None, "the callback <lambda> must take one argument: what is told after a step"),
        (lambda: None, "the callback <lambda> must take one argument"),
    ],
)
def test_one_that_cannot_be_told_is_refused_before_a_step(tmp_path: Path, callback: object, said: str) -> None:
    listener = Listener()
    with pytest.raises(InputError, match=re.escape(said)):
        tiny_training(tmp_path).run(callbacks=[listener, callback])  # type: ignore[list-item]
    assert listener.heard == []


def test_functions_of_other_forms_are_told(tmp_path: Path) -> None:
    heard: list[Told] = []
    tiny_training(tmp_path).run(callbacks=[heard.append, Half().tell, lambda told, *more: None])
    assert [one.step for one in heard] == list(range(1, 8))


def test_one_may_end_the_run_with_a_result(tmp_path: Path) -> None:
    def end(told: Told) -> None:
        if told.step == 4:
            raise StopTraining

    listener = Listener()
    training = tiny_training(tmp_path / "run", stream=None, public_test=blobs(9, seed=1))
    trained = training.run(evaluate_every=3, callbacks=[end, listener])
    assert told_of(listener)[-1].step == 4
    assert [one.step for one in trained.evaluations] == [3, 4]
    assert publish(trained, tmp_path / "published") == training.plan.guarantee()  # of all seven steps


def test_a_run_that_one_has_ended_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    def end(told: Told) -> None:
        raise StopTraining

    tiny_training(tmp_path).run(callbacks=[end])
    listener = Listener()
    training = tiny_training(tmp_path, resume=True)
    training.run(callbacks=[listener])
    assert told_of(listener)[-1].step == training.plan.charges


def test_to_end_a_run_at_its_beginning_is_refused_and_at_its_end_is_nothing(tmp_path: Path) -> None:
    class Ends(Listener):
        def __init__(self, *, at_begin: bool) -> None:
            super().__init__()
            self.at_begin = at_begin

        def begin(self, opening: Opening) -> None:
            if self.at_begin:
                raise StopTraining

        def __exit__(self, *_: object) -> None:
            raise StopTraining

    with pytest.raises(InputError, match="raises it when it is told of one, not at the beginning"):
        tiny_training(tmp_path / "begin").run(callbacks=[Ends(at_begin=True)])
    training = tiny_training(tmp_path / "end")
    assert len(training.run(callbacks=[Ends(at_begin=False)]).entries) > 0


def test_the_best_model_that_is_kept_is_told_at_the_end(tmp_path: Path) -> None:
    listener = Listener()
    early = EarlyStopping("loss", patience=None)
    noisy = {"plan": tiny_plan(noise_multiplier=40.0), "public_test": blobs(9, seed=1)}
    trained = tiny_training(tmp_path, **noisy).run(evaluate_every=1, early=early, callbacks=[listener])
    assert len(trained.evaluations) == 8  # seven, and the best once more
    heard = [one.metrics["public/loss"] for one in told_of(listener)]
    assert heard == [one.metrics["loss"] for one in trained.evaluations]


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


def test_a_function_is_called_after_each_step(tmp_path: Path) -> None:
    heard: list[Told] = []
    training = tiny_training(tmp_path)
    training.run(callbacks=[heard.append], evaluate_every=3)
    steps = [one.step for one in heard if not one.metrics]
    assert [one.step for one in heard][-1] == training.plan.charges
    assert sorted(set(steps) | {one.step for one in heard if one.metrics}) == [*range(1, training.plan.charges + 1)]


def test_gradients_that_a_callback_leaves_are_dropped(tmp_path: Path) -> None:
    training = tiny_training(tmp_path)
    at_call: list[bool] = []

    def teach(told: Told) -> None:
        parameters = [*training.model.parameters()]
        at_call.append(all(one.grad is None for one in parameters))
        sum(one.square().sum() for one in parameters).backward()  # type: ignore[union-attr]

    training.run(callbacks=[teach])
    assert at_call == [True] * training.plan.charges
    assert all(one.grad is None for one in training.model.parameters())


@pytest.mark.parametrize("given", [Listener, "print", 3])
def test_what_is_no_callback_is_refused_before_the_first_step(tmp_path: Path, given: object) -> None:
    training = tiny_training(tmp_path)
    with pytest.raises(InputError, match=r"methods of discreet\.training\.Callback, or is a function"):
        training.run(callbacks=[given])  # type: ignore[list-item]
    assert not training.evaluations


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
