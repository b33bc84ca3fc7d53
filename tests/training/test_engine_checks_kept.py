"""Engine checks that an audit does not repeat: only where all that they depend on is the same, and never an error."""

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from known_checks import OfTheLibrary, UntilAPatch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet.clipping import ENGINES
from discreet.clipping.separation import KnownResults
from discreet.core.errors import UnsupportedModel
from discreet.data import Augmented
from discreet.training import Training
from discreet.training.preflight import engine_check, model_check
from discreet.training.preflight.engine_check import CHECKED, Preflight
from discreet.training.preflight.random_rows import Examples

Checked = Callable[..., tuple[Training, int]]


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checked]:
    """A new training with these changes, and how many times an engine was checked by then."""
    calls, numbers = list[None](), itertools.count()
    real = engine_check.check_loss

    def counted(*given: Any) -> None:
        calls.append(None)
        real(*given)

    def made(**changes: Any) -> tuple[Training, int]:
        return tiny_training(tmp_path / str(next(numbers)), **changes), len(calls)

    monkeypatch.setattr(engine_check, "check_loss", counted)
    with CHECKED.in_(KnownResults[Preflight]()):
        yield made


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_other_rows_of_the_same_shape_need_no_other_check(checked: Checked, engine: str) -> None:
    first, _ = checked(engine=engine)
    second, count = checked(engine=engine, data=blobs(20, seed=5), plan=tiny_plan(steps=3), noise="exact")
    assert count == 1
    one, other = (training.preflight for training in (first, second))
    assert (one.chunk, one.reach, one.engine.float_bits) == (other.chunk, other.reach, other.engine.float_bits)
    assert one.proved is other.proved
    assert torch.equal(*(nn.utils.parameters_to_vector(one.run().model.parameters()) for one in _pair(checked, engine)))


def test_nor_do_other_users(checked: Checked) -> None:
    """What units of random rows have computed and remember is no part of what was checked."""
    plan = tiny_plan(unit="user", rows_per_unit=2)
    for users in (np.arange(24), np.arange(24) // 2):
        assert checked(engine="bookkeeping", plan=plan, units=users)[1] == 1


def _pair(checked: Checked, engine: str) -> tuple[Training, Training]:
    """Two equal trainings, of which one was checked anew."""
    known, _ = checked(engine=engine)
    with CHECKED.in_(KnownResults[Preflight]()):
        return known, checked(engine=engine)[0]


def heavier(seed: int = 0) -> nn.Module:
    model = linear(seed)
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1e-6
    return model


OTHERS: dict[str, dict[str, Any]] = {
    "weights": {"model": heavier()},
    "a loss": {"criterion": nn.CrossEntropyLoss(label_smoothing=0.1)},
    "a clip norm": {"plan": tiny_plan(clip_norm=0.5)},
    "users": {"plan": tiny_plan(unit="user", rows_per_unit=2), "units": np.arange(24)},
    "a type of rows": {"data": (blobs()[0].double(), blobs()[1]), "model": linear().double()},
    "an engine": {"engine": "ghost"},
    "autocast": {"engine": engine_check.EngineOptions("bookkeeping", autocast=torch.bfloat16)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_needs_one(checked: Checked, name: str) -> None:
    assert checked(engine="bookkeeping")[1] == 1
    assert checked(**{"engine": "bookkeeping"} | OTHERS[name])[1] == 2


def test_a_check_that_saw_private_rows_would_be_made_again(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    """So an audit, which exchanges rows, meets what they decide: here random rows are the first private one."""
    real = engine_check.random_rows

    def leaking(model: nn.Module, data: Any, *rest: Any, **more: Any) -> Examples:
        found, (inputs, _) = real(model, data, *rest, **more), data.fetch(np.zeros(1, np.int64))
        return Examples(inputs.expand_as(found.inputs).clone(), found.targets, found.units)

    monkeypatch.setattr(engine_check, "random_rows", leaking)
    assert checked(engine="bookkeeping")[1] == 1
    assert checked(engine="bookkeeping")[1] == 1
    assert checked(engine="bookkeeping", data=blobs(seed=5))[1] == 2


def test_an_engine_that_is_replaced_is_checked(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    checked(engine="vmap")
    monkeypatch.setitem(ENGINES, "vmap", ENGINES["exact"])
    assert checked(engine="vmap")[1] == 2


class Drawing(nn.Module):
    """Draws from the generator of NumPy, and forgets what it drew."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, x: Tensor) -> Tensor:
        np.random.rand()  # noqa: NPY002
        return self.inner(x)


def test_a_refused_model_is_refused_again(checked: Checked) -> None:
    for _ in range(2):
        with pytest.raises(UnsupportedModel, match="global generator of NumPy or Python"):
            checked(engine="bookkeeping", model=Drawing())
    assert checked(engine="bookkeeping")[1] == 3


class Counting(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = linear(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(x)


def test_a_model_that_calls_change_is_checked_every_time(checked: Checked) -> None:
    """After the check it holds what it did not hold before; a known result would leave it as it was."""
    for count in (1, 2):
        assert checked(engine="bookkeeping", model=Counting())[1] == count


def test_nothing_is_kept_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    real = engine_check.check_loss
    monkeypatch.setattr(engine_check, "check_loss", lambda *given: calls.append(None) or real(*given))  # type: ignore[func-returns-value]
    for number in (1, 2):
        tiny_training(tmp_path / str(number), engine="bookkeeping")
        assert len(calls) == number


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The models that were tried for influence between rows."""
    found: list[nn.Module] = []
    real = model_check._tried

    def noted(model: nn.Module, rows: Tensor) -> Any:
        found.append(model)
        return real(model, rows)

    monkeypatch.setattr(model_check, "_tried", noted)
    return found


def test_a_training_tries_a_model_in_each_check_and_an_audit_once(tmp_path: Path, trials: list[nn.Module]) -> None:
    """The second trial comes when other checks have called the model, so that what changes by then is seen."""
    for number in (1, 2):
        tiny_training(tmp_path / str(number), engine="bookkeeping")
        assert len(trials) == 2 * number
    with model_check.TRIED_MODELS.in_(KnownResults()):
        for number in (3, 4):
            tiny_training(tmp_path / str(number), engine="bookkeeping")
    assert len(trials) == 5


def test_other_rows_are_tried(tmp_path: Path, trials: list[nn.Module]) -> None:
    """Rows are copied when they are tried first, so that nobody can exchange them."""
    model, rows = linear(), torch.rand(12, FEATURES)
    with model_check.TRIED_MODELS.in_(KnownResults(1)):
        for change in (0.0, 0.0, 1.0, 0.0):
            rows[0] += change
            model_check.tried(model, rows)
    assert len(trials) == 2
    model_check.tried(model, rows)
    assert len(trials) == 3


def test_a_transform_is_tried_without_a_look_at_what_it_holds(tmp_path: Path, trials: list[nn.Module]) -> None:
    """It holds the private rows."""
    held = model_check.TRIED_MODELS
    seen: list[object] = []
    real = held.of

    def noted(compute: Callable[[], Any], *given: object) -> Any:
        seen.extend(given)
        return real(compute, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "of", noted)
        tiny_training(tmp_path, data=Augmented(blobs(), lambda x: x + 0.0), engine="bookkeeping")
    assert any(isinstance(one, model_check._Transformed) for one in trials)
    assert not any(isinstance(one, model_check._Transformed) for one in seen)
    assert seen


class Mixing(nn.Module):
    """Adds the mean of the batch, and holds a tensor that has no numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.like = linear(), torch.empty(3, device="meta")

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + 0.1 * x.mean(0))


@pytest.mark.parametrize("audit", [True, False])
def test_what_cannot_be_remembered_is_refused_as_ever(audit: bool, tmp_path: Path) -> None:
    with (
        model_check.TRIED_MODELS.in_(KnownResults()) if audit else nullcontext(),
        pytest.raises(UnsupportedModel, match="influence each other"),
    ):
        tiny_training(tmp_path, engine="reference", model=Mixing())


def test_tests_share_no_result_of_a_function_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    results, computed = OfTheLibrary(), list[None]()
    for replaced, count in ((False, 1), (False, 1), (True, 2), (True, 3)):
        if replaced:
            monkeypatch.setattr(engine_check, "check_loss", check_loss_of_a_test)
        results.of(lambda: computed.append(None), "the same")
        assert len(computed) == count
    monkeypatch.undo()
    results.of(lambda: computed.append(None), "the same")
    assert len(computed) == count


def test_a_warning_is_given_to_every_test(caplog: pytest.LogCaptureFixture) -> None:
    """Also after one that did not listen."""
    results, logger = OfTheLibrary(), logging.getLogger("discreet")
    for level in (logging.ERROR, logging.WARNING, logging.WARNING):
        with caplog.at_level(level, "discreet"):
            results.of(lambda: results.of(lambda: logger.warning("%s weights", "unused"), "a part"), "the same")
    assert caplog.messages == ["unused weights"] * 2


def test_a_test_shares_results_until_its_first_patch(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, computed = UntilAPatch(KnownResults(), request), itertools.count()

    def result() -> int:
        return int(results.of(lambda: next(computed), "the same"))

    monkeypatch.chdir(tmp_path)
    assert [result(), result()] == [0, 0]
    monkeypatch.setattr(np, "pi", 3.0)
    assert [result(), result()] == [1, 2]
    monkeypatch.undo()
    assert result() == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert result() == 3


def check_loss_of_a_test(*_: object) -> None:
    """Finds nothing."""
