"""AGD's optimizer: averages of noisy gradients have the law of one with all of their budget; moves forget them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from discreet.core.errors import InputError
from discreet.methods import AGD, tell_noise
from discreet.methods.agd import moved
from discreet.plan import Controls, History, LineSearch, Phase

FALSE_ALARM = 1e-9
COORDINATES = 40_000
GROWTH = 0.6


def gradient_at(parameter: Tensor) -> Tensor:
    """Of a quadratic: another one everywhere."""
    return 3.0 + 2.0 * parameter.detach().double()


def drawn(optimizer: torch.optim.Optimizer, parameter: Tensor, std: float, generator: np.random.Generator) -> None:
    noise = torch.from_numpy(generator.normal(size=COORDINATES) * std)
    parameter.grad = gradient_at(parameter) + noise
    tell_noise(optimizer, std)
    optimizer.step()
    parameter.grad = None


def has_the_law(held: Tensor, mean: Tensor, precision: float) -> bool:
    """Mean and variance over the coordinates: both tests have a false alarm of 1e-9 together."""
    z = (held - mean).numpy() * math.sqrt(precision)
    about = abs(z.sum()) / math.sqrt(COORDINATES)
    squares = float(np.square(z).sum())
    low, high = stats.chi2.ppf([FALSE_ALARM / 4, 1 - FALSE_ALARM / 4], COORDINATES)
    return bool(about < stats.norm.ppf(1 - FALSE_ALARM / 4) and low < squares < high)


def course(sizes: list[float], make: Callable[..., AGD] = AGD) -> list[bool]:
    """Gradients with the noise that the policy says, moves as given; whether each average has the law of one release
    with the whole budget at this place."""
    search, start = LineSearch(bound=1.0, epsilon=1.0, growth=GROWTH), Controls(2.0, 1.0)
    parameter = torch.nn.Parameter(torch.zeros(COORDINATES, dtype=torch.float64))
    optimizer, generator = make([parameter]), np.random.default_rng(5)
    phases: list[Phase] = []
    found = []
    for size in [*sizes, 0.0]:
        controls = search(len(phases), History(tuple(phases), start, lambda _: 1.0))
        assert controls is not None
        drawn(optimizer, parameter, controls.noise_multiplier, generator)
        stays = sum(phase.step_size == 0 for phase in phases)
        planned = (1 + GROWTH) ** stays / start.noise_multiplier**2
        held = optimizer.state[parameter]["gradient"]
        found.append(has_the_law(held, gradient_at(parameter), planned))
        assert make is not AGD or not found[-1] or optimizer.precision == pytest.approx(planned, rel=1e-12)
        optimizer.move(size)
        phases.append(Phase(len(phases), controls, step_size=size))
    return found


SIZES = [0.0, 0.0, 200.0, 0.0, 50.0, 100.0, 0.0]


def test_the_average_is_in_law_one_gradient_with_the_whole_budget() -> None:
    assert course(SIZES) == [True] * (len(SIZES) + 1)


class Unweighted(AGD):
    """Averages as if all noise were alike."""

    def step(self, closure: Any = None) -> None:
        self.tell(1.0)
        super().step(closure)


class Unforgetting(AGD):
    """Goes on with the old gradient after a move, as if that were the gradient here."""

    def move(self, step_size: float) -> None:
        kept = {one: dict(state) for one, state in self.state.items()}
        super().move(step_size)
        for one, state in kept.items():
            self.state[one].update(state)


@pytest.mark.parametrize("broken", [Unweighted, Unforgetting])
def test_a_broken_average_is_found_out(broken: type[AGD]) -> None:
    assert not all(course(SIZES, broken))


def test_growth_charged_after_a_move_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that asks for the difference only, although the model moved and there is nothing to add it to."""
    real = LineSearch.__call__

    def cheap(self: LineSearch, phase: int, history: History) -> Controls | None:
        if not history.phases:
            return real(self, phase, history)
        stayed = Phase(0, history.start, step_size=0.0)
        return real(self, phase, History((*history.phases[:-1], stayed), history.start, history.epochs_left))

    monkeypatch.setattr(LineSearch, "__call__", cheap)
    assert not all(course(SIZES))


def test_a_move_goes_its_length_and_staying_keeps_the_gradient() -> None:
    one, two = (torch.nn.Parameter(torch.ones(shape)) for shape in ((3, 2), (4,)))
    optimizer = AGD([{"params": [one]}, {"params": [two]}])
    before = [one.detach().clone(), two.detach().clone()]
    for parameter in (one, two):
        parameter.grad = torch.full_like(parameter, 5.0)
    optimizer.tell(0.5)
    optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(before, (one, two), strict=True))
    assert optimizer.precision == 4.0
    optimizer.move(0.0)
    assert optimizer.precision == 4.0
    directions = optimizer.directions()
    assert sum(float(part.square().sum()) for part in directions.values()) == pytest.approx(1.0)
    expected = moved(one, directions[one], 0.7)
    optimizer.move(0.7)
    assert torch.equal(one, expected)
    length = sum(float((a - b).square().sum()) for a, b in zip(before, (one.detach(), two.detach()), strict=True))
    assert math.sqrt(length) == pytest.approx(0.7, rel=1e-6)
    assert optimizer.precision == 0.0
    assert all(not part.any() for part in optimizer.directions().values())


def test_a_gradient_without_length_or_beyond_all_numbers_moves_nothing() -> None:
    for value in (0.0, 3e38):
        parameter = torch.nn.Parameter(torch.zeros(4))
        optimizer = AGD([parameter])
        parameter.grad = torch.full((4,), value)
        optimizer.tell(1.0)
        optimizer.step()
        optimizer.move(1.0)
        assert torch.isfinite(parameter).all()
        assert bool(parameter.any()) == (value > 0)


def test_the_state_goes_into_a_checkpoint_and_back() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = AGD([parameter])
    parameter.grad = torch.arange(4.0)
    optimizer.tell(0.25)
    optimizer.step()
    other = torch.nn.Parameter(torch.zeros(4))
    again = AGD([other])
    again.load_state_dict(optimizer.state_dict())
    assert again.precision == optimizer.precision == 16.0
    assert torch.equal(again.directions()[other], optimizer.directions()[parameter])


def test_mistakes_are_errors() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = AGD([parameter])
    parameter.grad = torch.ones(4)
    with pytest.raises(InputError, match="was not told the noise"):
        optimizer.step()
    optimizer.tell(0.0)
    with pytest.raises(InputError, match="one positive number"):
        optimizer.step()
    with pytest.raises(InputError, match="no closure"):
        optimizer.step(lambda: 0.0)
    for size in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="a step size must be"):
            optimizer.move(size)
