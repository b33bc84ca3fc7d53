"""What was computed once is returned again for arguments that hold the same to the last bit, and for no others."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from discreet.clipping import ENGINES, Clip, Units
from discreet.clipping.separation import KnownResults
from discreet.training.preflight.random_rows import Examples

GLOBAL: dict[int, Any] = torch.nn.modules.module._global_forward_hooks  # type: ignore[assignment]

Count = Callable[[KnownResults[int], dict[str, Any]], int]


def parts() -> dict[str, Any]:
    """A model with a frozen layer and a buffer, a loss, rows, a clip and the table of engines."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4).eval(), nn.Dropout(0.1), nn.Linear(4, 2))
        inputs = torch.rand(6, 3)
    model[0].requires_grad_(False)
    return {
        "model": model,
        "loss": nn.CrossEntropyLoss(),
        "rows": Examples(inputs, torch.arange(6) % 2, Units((1, 2, 3))),
        "clips": (Clip(1.0, 2.0**-30, scales={"3.bias": torch.ones(2)}),),
        "engines": dict(ENGINES),
    }


def flip(tensor: torch.Tensor) -> None:
    """Change one bit."""
    with torch.no_grad():
        tensor.view(torch.int32).view(-1)[0] ^= 1


def put(name: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        given[name] = value(given[name])

    return change


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a bit of a weight": lambda given: flip(given["model"][3].weight),
    "a bit of a frozen weight": lambda given: flip(given["model"][0].weight),
    "a bit of a buffer": lambda given: flip(given["model"][1].running_mean),
    "what is trained": lambda given: given["model"][0].requires_grad_(True),
    "the mode of a module": lambda given: given["model"][1].train(),
    "an attribute": lambda given: setattr(given["model"][2], "p", 0.2),
    "a module": lambda given: given["model"].__setitem__(2, nn.Identity()),
    "a hook": lambda given: given["model"][2].register_forward_hook(lambda *_: None),
    "a forward of its own": lambda given: setattr(given["model"][2], "forward", torch.tanh),
    "two layers that share weights": lambda given: setattr(given["model"][3], "bias", given["model"][3].weight),
    "the type of the model": lambda given: given["model"].double(),
    "the loss": put("loss", lambda _: nn.MSELoss()),
    "an option of the loss": put("loss", lambda _: nn.CrossEntropyLoss(label_smoothing=0.1)),
    "weights of classes": put("loss", lambda _: nn.CrossEntropyLoss(torch.ones(2))),
    "a number in a row": lambda given: flip(given["rows"].inputs),
    "a target": lambda given: given["rows"].targets.__setitem__(0, 1),
    "the type of targets": put("rows", lambda rows: replace(rows, targets=rows.targets.int())),
    "the shape of rows": put("rows", lambda rows: replace(rows, inputs=rows.inputs.view(6, 1, 3))),
    "the units": put("rows", lambda rows: replace(rows, units=Units((3, 2, 1)))),
    "the clip norm": put("clips", lambda clips: (replace(clips[0], norm=1.0 + 2.0**-52),)),
    "a scale": lambda given: flip(given["clips"][0].scales["3.bias"]),
    "one more clip": put("clips", lambda clips: (*clips, *clips)),
    "an engine": lambda given: given["engines"].update(vmap=replace(ENGINES["vmap"], clipped_sum=lambda *_: {})),
}


@pytest.fixture
def count() -> Count:
    """How many times something was computed."""
    computed: list[None] = []

    def found(known: KnownResults[int], given: dict[str, Any]) -> int:
        known.of(lambda: computed.append(None) or len(computed), *given.values())  # type: ignore[func-returns-value]
        return len(computed)

    return found


def test_the_same_is_not_computed_again(count: Count) -> None:
    known, given = KnownResults[int](), parts()
    for one in (given, given, parts()):
        assert count(known, one) == 1
    for one in (copy.deepcopy(given), copy.deepcopy(given)):  # to whose buffers torch has written less often
        assert count(known, one) == 2


@pytest.mark.parametrize("name", CHANGES)
def test_anything_else_is(count: Count, name: str) -> None:
    known, changed = KnownResults[int](), parts()
    CHANGES[name](changed)
    assert [count(known, one) for one in (parts(), changed, parts(), changed)] == [1, 2, 2, 2]


def test_zero_and_minus_zero_differ(count: Count) -> None:
    known, one, other = KnownResults[int](), parts(), parts()
    with torch.no_grad():
        one["model"][3].bias.fill_(0.0)
        other["model"][3].bias.fill_(-0.0)
    assert [count(known, one), count(known, other)] == [1, 2]


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
        (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
        (lambda: torch.set_num_threads(3), lambda: torch.set_num_threads(1)),
        (
            lambda: torch.use_deterministic_algorithms(True),
            lambda: torch.use_deterministic_algorithms(False),
        ),
        (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.set_autocast_enabled("cpu", False)),
        (lambda: torch.backends.cuda.enable_flash_sdp(False), lambda: torch.backends.cuda.enable_flash_sdp(True)),
        (lambda: GLOBAL.update({-1: print}), GLOBAL.clear),
        (
            lambda: torch.set_float32_matmul_precision("medium"),
            lambda: torch.set_float32_matmul_precision("highest"),
        ),
    ],
)
def test_other_settings_of_torch_void_a_result(
    count: Count, change: Callable[[], Any], back: Callable[[], Any]
) -> None:
    known, given = KnownResults[int](), parts()
    assert count(known, given) == 1
    change()
    try:
        assert count(known, given) == 2
    finally:
        back()
    assert count(known, given) == 2


def test_so_does_a_precision_that_is_set_for_cards_alone(count: Count) -> None:
    known, given = KnownResults[int](), parts()
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    assert count(known, given) == 1
    matmul.fp32_precision = "tf32"
    try:
        assert [count(known, given), count(known, given)] == [2, 2]
    finally:
        matmul.fp32_precision = before


def test_settings_that_cannot_be_read_void_a_result(count: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise RuntimeError("a mix of the legacy and new APIs")

    known, given = KnownResults[int](), parts()
    monkeypatch.setattr(torch, "get_num_threads", refuse)
    assert [count(known, given), count(known, given)] == [1, 2]


def test_so_does_a_tensor_without_numbers(count: Count) -> None:
    known, given = KnownResults[int](), parts() | {"held": torch.empty(3, device="meta")}
    assert [count(known, given), count(known, given)] == [1, 2]


def test_what_changes_its_arguments_is_computed_again() -> None:
    """The model holds something else then, so a later call would not start where this one did."""
    known, model, computed = KnownResults[None](), nn.Linear(2, 1), []

    def remember() -> None:
        computed.append(len(computed))
        model.seen = len(computed)

    for wanted in (1, 2):
        known.of(remember, copy.deepcopy(model), model)
        assert len(computed) == wanted
    del model.seen
    known.of(remember, copy.deepcopy(model), model)
    assert len(computed) == 3


def test_what_cannot_be_read_is_computed_again(count: Count) -> None:
    class Secret:
        def __reduce_ex__(self, _: Any) -> Any:
            raise TypeError("no")

    known, given = KnownResults[int](), parts() | {"secret": Secret()}
    assert [count(known, given), count(known, given)] == [1, 2]


def test_an_error_is_not_kept() -> None:
    known, calls = KnownResults[int](), []

    def fail() -> int:
        calls.append(None)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            known.of(fail, 1)
    assert len(calls) == 2
    assert known.of(lambda: 7, 1) == 7


def test_the_latest_results_are_kept() -> None:
    known, computed = KnownResults[int](2), []
    for number in (1, 2, 1, 3, 2, 3, 1):
        assert known.of(lambda number=number: computed.append(number) or number, number) == number  # type: ignore[misc,func-returns-value]
    assert computed == [1, 2, 3, 1]
