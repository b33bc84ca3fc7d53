"""Callbacks are told what is public or was released, and may end a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from listener import Listener, told_of
from problems import blobs, tiny_plan, tiny_training

from discreet.core.errors import InputError
from discreet.plan import Metric
from discreet.publication import publish
from discreet.training import EarlyStopping, Opening, StopTraining, Told


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
