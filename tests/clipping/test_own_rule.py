"""A third party adds a rule in one small file; the shared battery tests it, and finds a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, check_rule
from discreet.clipping.rules import RULES, Rule, rule
from discreet.clipping.rules.numbers import added, examples_together, norms_of, weighted_sum, with_rounding

PAGE = Path(__file__).parents[2] / "docs" / "modules.md"


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)


def published() -> str:
    """The example of the page."""
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_rule_of_the_page_is_used() -> None:
    names: dict[str, Any] = {}
    exec(compile(published(), PAGE.name, "exec"), names)
    asked = []
    real = names["GainRule"].gradients
    names["GainRule"].gradients = lambda self, *span: asked.append(span) or real(self, *span)
    model = nn.Sequential(nn.Linear(5, 4), names["Gain"](4))
    ENGINES["bookkeeping"].clipped_sum(
        model, lambda output, _: output.sum(), Chunk(torch.randn(3, 2, 5), torch.zeros(3)), Clip(1.0, 2.0**-30)
    )
    assert asked == [(0, 3)]


WRONG = {
    "mean over positions": (".sum(1)}", ".mean(1)}"),
    "without the gradient": ("* self.gradient[start:stop]", ""),
    "without the activation": ("self.activation[start:stop] *", ""),
    "first position only": (".flatten(1, -2).sum(1)", "[:, 0]"),
    "positions of other examples": (".sum(1)}", ".cumsum(0).sum(1)}"),
    "of other examples": (".sum(1)}", ".sum(1).roll(1, 0)}"),
    "a little too long": (".sum(1)}", ".sum(1) * 1.001}"),
    "all examples together": (".flatten(1, -2).sum(1)", ".flatten(0, -2).sum(0)"),
    "not registered": ("@rule(Gain)", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str) -> None:
    right, wrong = WRONG[name]
    code = published()
    assert right in code
    with pytest.raises(AssertionError, match=r"clip norm|has no rule|gradients of the shape \(examples,"):
        exec(compile(code.replace(right, wrong), PAGE.name, "exec"), {})


class Shift(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x + self.shift)


class ShiftRule(Rule):
    """A rule without forming, whose faults are set by a test."""

    names = ("shift",)
    measured, added, dropped = 1.0, 1.0, True

    def _rows(self) -> Tensor:
        inner = torch.tanh(self.activation + self.module.get_parameter("shift").detach())
        return self.gradient * (1 - inner.square())

    def squares(self, name: str) -> Tensor:
        return self._rows().double().square().sum(1) * self.measured

    def total(self, name: str, weights: Tensor) -> Tensor:
        return weighted_sum(weights, self._rows()) * self.added

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        return self._rows()[start:stop]

    def drop(self, unusable: Tensor) -> None:
        if self.dropped:
            super().drop(unusable)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({}, None),
        ({"measured": 0.5}, "reference"),
        ({"added": 1.01}, "reference"),
        ({"dropped": False}, "an example of nan"),
    ],
)
def test_a_rule_that_forms_nothing_passes_and_its_faults_are_found(fault: dict[str, Any], words: str | None) -> None:
    rule(Shift)(type("Faulty", (ShiftRule,), fault))
    model, inputs = nn.Sequential(nn.Linear(2, 3), Shift()), torch.randn(5, 2)
    if words is None:
        check_rule(model, inputs)
    else:
        with pytest.raises(AssertionError, match=words):
            check_rule(model, inputs)


class Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


class GainRule(Rule):
    """A rule that adds up places and examples at once, and does not say how much longer they are than their sum."""

    names = ("gain",)

    def squares(self, name: str) -> Tensor:
        return (self.activation.double() * self.gradient.double()).sum(1).square().sum(1)

    def total(self, name: str, weights: Tensor) -> Tensor:
        terms = (self.activation * self.gradient).flatten(0, 1)
        return weights.to(terms.dtype).repeat_interleave(self.activation.shape[1]) @ terms

    def rows(self, name: str, start: int, stop: int) -> Tensor:
        return (self.activation * self.gradient)[start:stop].sum(1)


class HonestGainRule(GainRule):
    def squares(self, name: str) -> Tensor:
        return with_rounding(super().squares(name), self.lengths(name), self.gradient.dtype, self.terms(name))

    def lengths(self, name: str) -> Tensor:
        return norms_of(self.activation * self.gradient, 2).sum(1)

    def terms(self, name: str) -> int:
        return self.activation.shape[1]


def test_a_rule_that_leaves_out_the_rounding_of_terms_that_cancel_is_found() -> None:
    torch.manual_seed(0)

    def check() -> None:
        check_rule(nn.Sequential(nn.Linear(5, 4), Gain()), torch.randn(6, 30, 5))

    rule(Gain)(FewRule)
    check()
    rule(Gain)(GainRule)
    with pytest.raises(AssertionError, match=r"places that cancel: an example moved .* gives their `lengths`"):
        check()


class FewRule(HonestGainRule):
    """Adds up few examples at a time."""

    def total(self, name: str, weights: Tensor) -> Tensor:
        terms, each = self.activation * self.gradient, examples_together(self.activation.shape[1])
        places = self.activation.shape[1]
        blocks = zip(weights.to(terms.dtype).split(each), terms.split(each), strict=True)
        return added(share.repeat_interleave(places) @ part.flatten(0, 1) for share, part in blocks)


@pytest.mark.parametrize("places", [2, 5, 30, 200])
def test_a_rule_that_adds_up_many_examples_beside_a_long_one_is_found(places: int) -> None:
    torch.manual_seed(0)

    def check() -> None:
        check_rule(nn.Sequential(nn.Linear(5, 4), Gain()), torch.randn(6, places, 5))

    rule(Gain)(FewRule)
    check()
    rule(Gain)(HonestGainRule)
    with pytest.raises(AssertionError, match=r"'gain' of module '1' \(Gain\): terms of .* `examples_together"):
        check()


def test_what_would_test_nothing_is_said() -> None:
    with pytest.raises(AssertionError, match="has no rule"):
        check_rule(nn.Sequential(nn.Linear(2, 3), Shift()), torch.randn(5, 2))
    with pytest.raises(AssertionError, match="four examples"):
        check_rule(nn.Linear(2, 3), torch.randn(3, 2))
    with pytest.raises(AssertionError, match="gradients are zero"):
        check_rule(nn.Sequential(nn.Linear(2, 3), nn.Threshold(1e9, 0.0)), torch.randn(5, 2))


@pytest.mark.filterwarnings("ignore:Using padding='same'", "ignore:LSTM with projections")
@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"without a rule", "parameters of its own"}))
@settings(max_examples=1, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_rules_of_the_library_pass(name: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, _ = problem.make(5, torch.float64, data.draw(st.integers(0, 99)))
    check_rule(model, inputs)
