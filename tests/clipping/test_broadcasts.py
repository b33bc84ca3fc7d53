"""Parameters that a class holds itself and broadcasts over the examples are clipped where that happens."""

from __future__ import annotations

import pytest
import torch
from broadcasting import BROADCAST, CLASSES, OTHERWISE, ROW, WIDTH, Held, rows
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.capture.capture import record
from discreet.clipping.rules import base
from discreet.clipping.rules.broadcast import Broadcast
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel

LOSS = nn.CrossEntropyLoss(reduction="none")


def clipped_apart(model: nn.Module, count: int = 9) -> set[str]:
    """The parameters that are clipped where they are broadcast."""
    calls = record(model, LOSS, *rows(count))[1]
    return {name for call in calls if call.owner.rule.__name__ == "Broadcast" for name in call.owner.names}


def test_they_are_found() -> None:
    found = {name: clipped_apart(Held(meets)) for name, (_, meets) in BROADCAST.items()}
    assert found == {name: held for name, (held, _) in BROADCAST.items()}


@pytest.mark.parametrize("count", [4, 9])
def test_other_uses_are_not_taken_for_them(count: int) -> None:
    found = {name: clipped_apart(Held(meets), count) & held for name, (held, meets) in OTHERWISE.items()}
    assert found == {name: set() for name in OTHERWISE}


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", [*BROADCAST, *OTHERWISE])
def test_clipped_sums_are_those_of_one_pass_per_example(name: str, engine: str) -> None:
    """Of one row, of as many as a parameter has places, of others. (Five constant rows are told from five examples by
    a proof alone: see `separation/test_of_each.py`.) A clip norm of 1e-3 clips every gradient."""
    model = Held((BROADCAST | OTHERWISE)[name][1])
    digits = 2.0**-7 if name == "rounded" else 1e-5  # which torch adds up in bfloat16 itself
    for count in (1, 4, 5, 7) if name in BROADCAST else (1, 4, 7):
        for norm in (1e-3, 1e3):
            agrees(model, norm, digits, Chunk(*rows(count)), engine)


def agrees(
    model: nn.Module, norm: float, digits: float, given: Chunk | None = None, engine: str = "bookkeeping"
) -> None:
    """An engine's clipped sums agree with those of `reference`."""
    given, clip = given or Chunk(*rows(6)), Clip(norm, norm * 2.0**-30)
    wanted = ENGINES["reference"].clipped_sum(model, LOSS, given, clip)
    found = ENGINES[engine].clipped_sum(model, LOSS, given, clip)
    for parameter, total in wanted.items():
        torch.testing.assert_close(found[parameter].double(), total, rtol=digits, atol=0.3 * digits * min(norm, 1.0))


def test_units_of_several_rows() -> None:
    agrees(Held(BROADCAST["all"][1]), 1e-3, 1e-5, Chunk(*rows(9), Units((2, 3, 4))))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_adds_nothing(value: float) -> None:
    model, (inputs, targets) = Held(BROADCAST["all"][1]), rows(6)
    inputs[2] = value
    clip, rest = Clip(1.0, 2.0**-30), [0, 1, 3, 4, 5]
    found = ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs, targets), clip)
    wanted = ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs[rest], targets[rest]), clip)
    for parameter, total in wanted.items():
        torch.testing.assert_close(found[parameter], total)


def test_a_large_parameter_is_formed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of it are small, but its gradients are not kept beyond the memory that rules have."""
    monkeypatch.setattr(base, "BUDGET", 8 * 7 * WIDTH * 2)
    agrees(Held(BROADCAST["places in parts"][1]), 1e-3, 1e-5)
    model = Held(BROADCAST["places in parts"][1])
    (call,) = [one for one in record(model, LOSS, *rows(6))[1] if one.owner.rule is Broadcast]
    call.gradients = tuple(torch.ones(6, 5, WIDTH) for _ in call.outputs)
    made = Broadcast(model, ("places",), call.args, {}, call.gradients)
    assert len([*made._blocks()]) > 1
    made.squares("places")
    assert made.forms_again("places")


class Amplified(nn.Module):
    """A weight that is multiplied by a parameter that another class holds."""

    def __init__(self, holder: Held) -> None:
        super().__init__()
        self.holders = [holder]

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.holders[0].one


@pytest.mark.parametrize("both", [False, True])
def test_a_use_inside_a_module_with_a_rule_is_seen(both: bool) -> None:
    model = Held(lambda m, h: h * m.one if both else h)
    parametrize.register_parametrization(model.last, "weight", Amplified(model))
    assert "one" not in clipped_apart(model)
    agrees(model, 1e-3, 1e-5)


class Scale(nn.Module):
    """A scale in a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.randn(WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        return h * self.factor


def test_a_scale_under_a_checkpoint_runs_again() -> None:
    """A checkpoint gives what was saved only once, to torch's own backward pass."""
    model = Held(lambda m, h: checkpoint(m.factor, h + m.places[:, :5], use_reentrant=False))  # type: ignore[return-value]
    model.factor = Scale()
    assert clipped_apart(model) == {"places"}
    agrees(model, 1e-3, 1e-5)
    model.meets = lambda m, h: m.factor(h + m.places[:, :5])  # type: ignore[no-any-return, operator]
    assert clipped_apart(model) == {"places", "factor"}
    agrees(model, 1e-3, 1e-5)


class Lists(nn.Module):
    """Parameters in a list, which is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(ROW[1], WIDTH), nn.Linear(WIDTH, CLASSES)
        self.scales = nn.ParameterList([torch.randn(WIDTH) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for scale in self.scales:
            h = torch.tanh(h * scale)
        output: Tensor = self.last(h.mean(1))
        return output


def test_parameters_in_a_list() -> None:
    torch.manual_seed(0)
    model = Lists()
    assert clipped_apart(model) == {"0", "1", "2"}
    agrees(model, 1e-3, 1e-5)


def test_a_parameter_that_two_modules_hold_is_measured_as_a_whole() -> None:
    """The gradients of both uses are added up before they are measured."""
    model = Held(lambda m, h: h + m.scale[:5] + m.table(torch.ones(len(h), 1, dtype=torch.long)))  # type: ignore[operator]
    model.table = nn.Embedding(7, WIDTH)
    model.table.weight = model.scale = nn.Parameter(torch.randn(7, WIDTH))
    assert "scale" not in clipped_apart(model)
    agrees(model, 1e-3, 1e-5)


class Positions(nn.Module):
    """Relative positions, looked up in a table, that are added to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        return h + self.table[torch.arange(5) % 4]


def test_a_class_that_draws_is_told_which_parameters_to_move() -> None:
    model = Held(lambda m, h: nn.functional.dropout(h + m.places[:, :5] + (m.table * m.table)[:1], 0.1))
    model.table = nn.Parameter(torch.randn(4, WIDTH))
    with pytest.raises(UnsupportedModel, match=r"draws random numbers; put 'table' into a module that draws none"):
        record(model, LOSS, *rows(9))
    model.table = None
    model.positions = Positions()
    model.meets = lambda m, h: nn.functional.dropout(m.positions(h + m.places[:, :5]), 0.1)
    assert {name for call in record(model, LOSS, *rows(9))[1] for name in call.owner.names} >= {"places", "table"}
