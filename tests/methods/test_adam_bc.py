"""DP-AdamBC: its formula, its one promise, and where it gets the noise from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from stops import dying
from torch import nn

from discreet import InputError
from discreet.methods import DPAdamBC, NoiseAware, Several, tell_noise
from discreet.plan import mean_noise
from discreet.randomness import TestStream
from discreet.training import step as step_module


def direct(w: float, gradients: list[float], noises: list[float], lr: float, floor: float, decay: float) -> float:
    """One coordinate with betas 0.8 and 0.95, the sums of the moving averages written out."""
    b1, b2 = 0.8, 0.95
    for t in range(1, len(gradients) + 1):
        m = sum((1 - b1) * b1 ** (t - 1 - i) * gradients[i] for i in range(t)) / (1 - b1**t)
        v = sum((1 - b2) * b2 ** (t - 1 - i) * gradients[i] ** 2 for i in range(t)) / (1 - b2**t)
        noise = sum((1 - b2) * b2 ** (t - 1 - i) * noises[i] ** 2 for i in range(t)) / (1 - b2**t)
        w = w * (1 - lr * decay) - lr * m / math.sqrt(max(v - noise, floor))
    return w


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("noises", [[0.3] * 6, [0.5, 0.5, 0.4, 0.2, 0.2, 0.1]])
def test_it_is_the_formula(noises: list[float], decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    w = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    first = w.detach().clone()
    optimizer = DPAdamBC([w], lr=0.05, betas=(0.8, 0.95), floor=0.2, weight_decay=decay)
    for row, noise in zip(rows, noises, strict=True):
        w.grad = row.clone()
        optimizer.tell(noise)
        optimizer.step()
    for i in range(3):
        wanted = direct(float(first[i]), rows[:, i].tolist(), noises, 0.05, 0.2, decay)
        assert float(w[i].detach()) == pytest.approx(wanted, rel=1e-12)


def test_without_noise_it_is_adam() -> None:
    """With torch's own, whose eps does what the floor does: nothing, here."""
    one, other = (nn.Parameter(torch.tensor([1.0, -3.0])) for _ in range(2))
    ours, theirs = DPAdamBC([one], lr=0.1, floor=1e-30), torch.optim.Adam([other], lr=0.1, eps=0.0)
    for t in range(5):
        one.grad = other.grad = torch.tensor([1.0, 0.01]) * (1 + t)
        ours.tell(0.0)
        ours.step()
        theirs.step()
    torch.testing.assert_close(one, other)


def test_steps_have_the_size_of_the_signal_again() -> None:
    """Gradients of 0.5 and 0.1 under noise of 1: after the correction the smaller is divided by less, as in Adam
    without noise; Adam divides both by about 1. Fixed seed; all within 4 standard errors."""
    generator = torch.Generator().manual_seed(1)
    signal, memory, steps = torch.tensor([0.5, 0.1]), 0.9995, 4000
    w = {name: nn.Parameter(torch.zeros(2)) for name in ("corrected", "adam")}
    corrected = DPAdamBC([w["corrected"]], lr=1.0, betas=(0.0, memory), floor=0.01)
    adam = torch.optim.Adam([w["adam"]], lr=1.0, betas=(0.0, memory))
    for noise in torch.randn(steps, 2, generator=generator):
        w["corrected"].grad, w["adam"].grad = signal + noise, signal + noise
        corrected.tell(1.0)
        corrected.step()
        adam.step()
    state, begun = corrected.state[w["corrected"]], 1 - memory**steps
    assert float((state["square"] - state["noise"])[0] / begun) == pytest.approx(0.25, abs=0.16)
    assert float(adam.state[w["adam"]]["exp_avg_sq"][0] / begun) == pytest.approx(1.25, abs=0.16)
    smaller_over_larger = {name: float((each[1] / each[0]).detach()) for name, each in w.items()}
    assert smaller_over_larger["adam"] == pytest.approx(0.2 * math.sqrt(1.25 / 1.01), abs=0.14)
    assert smaller_over_larger["corrected"] > 1.6 * smaller_over_larger["adam"]


def told(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What optimizers are told from now on."""
    seen: list[float] = []
    real = tell_noise

    def spy(optimizer: torch.optim.Optimizer, std: float, scales: Mapping[torch.Tensor, torch.Tensor] | None) -> None:
        seen.append(std)
        real(optimizer, std, scales)

    monkeypatch.setattr(step_module, "tell_noise", spy)
    return seen


def bc(model: nn.Module, **options: Any) -> DPAdamBC:
    return DPAdamBC(model.parameters(), **({"lr": 0.05} | options))


def test_it_is_told_what_the_plan_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiplier x clip norm / divisor, phase by phase; the float slack of the sum is at most a thousandth here."""
    seen, model = told(monkeypatch), linear()
    plan = tiny_plan(noise_multiplier=[(2.0, 2), (1.0, 4), (3.0, 1)], clip_norm=0.7)
    tiny_training(tmp_path, plan=plan, model=model, optimizer=bc(model)).run()
    wanted = [m * 0.7 / 12 for m in (2, 2, 1, 1, 1, 1, 3)]
    assert seen == pytest.approx(wanted, rel=1e-3)
    assert [mean_noise(plan, step) for step in range(7)] == pytest.approx(wanted, rel=1e-12)
    assert all(one >= mean_noise(plan, step) for step, one in enumerate(seen))


def test_the_noise_that_it_is_told_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of zero under noise: their spread is what was told. 5,000 numbers, 5 standard errors: a correct
    build fails for one seed in a million; half the noise fails."""
    seen, spread = told(monkeypatch), []
    model = nn.Linear(FEATURES, 1250, bias=False)
    optimizer = bc(model)
    real = optimizer._update

    def spy(parameter: Any, gradient: torch.Tensor, variance: float, group: Any) -> None:
        spread.append((float(gradient.std()), math.sqrt(variance)))
        real(parameter, gradient, variance, group)

    monkeypatch.setattr(optimizer, "_update", spy)
    tiny_training(tmp_path, model=model, optimizer=optimizer, criterion=lambda output, target: 0 * output.sum()).run()
    for found, wanted in spread:
        assert abs(found / wanted - 1) < 5 / math.sqrt(2 * 5000)
        assert abs(found / (2 * wanted) - 1) > 5 / math.sqrt(2 * 5000)
    assert len(seen) == len(spread) == 7


def test_a_resumed_run_goes_on_with_the_noise_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, model = told(monkeypatch), linear()
    plan = tiny_plan(noise_multiplier=[(2.0, 4), (1.0, 3)], block=2)
    with dying(after=3):  # in the second block: its second step is lost
        tiny_training(tmp_path, plan=plan, model=model, optimizer=bc(model)).run()
    again = linear()
    optimizer = bc(again)
    tiny_training(tmp_path, plan=plan, model=again, optimizer=optimizer, resume=True, stream=TestStream(8)).run()
    assert seen[4:] == pytest.approx([1 / 12] * 3, rel=1e-3)
    (state,) = [optimizer.state[p] for p in again.parameters() if p.dim() == 2]
    assert state["step"] == 2 + 3  # the checkpoint was of the first block


def test_it_learns(tmp_path: Path) -> None:
    model = linear()
    plan = tiny_plan(steps=60, noise_multiplier=0.5, batch=24)
    trained = tiny_training(
        tmp_path, plan=plan, model=model, optimizer=bc(model, lr=0.1, floor=1e-3), public_test=blobs(30, seed=1)
    ).run()
    assert trained.evaluations[-1].metrics["accuracy"] > 0.8


def test_a_step_without_the_noise_is_refused() -> None:
    w = nn.Parameter(torch.zeros(2))
    w.grad = torch.ones(2)
    optimizer = DPAdamBC([w])
    with pytest.raises(InputError, match="not told"):
        optimizer.step()
    optimizer.tell(1.0)
    optimizer.step()
    with pytest.raises(InputError, match="not told"):
        optimizer.step()
    with pytest.raises(InputError, match="std of the noise"):
        optimizer.tell(math.nan)
    with pytest.raises(InputError, match="closure"):
        optimizer.step(lambda: 0.0)


def test_several_pass_the_noise_on() -> None:
    w, v = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    optimizer = Several(torch.optim.SGD([w], lr=0.1), DPAdamBC([v]))
    for parameter in (w, v):
        parameter.grad = torch.ones(2)
    tell_noise(optimizer, 0.5)
    optimizer.step()
    assert isinstance(optimizer, NoiseAware)
    assert optimizer.optimizers[1].state[v]["noise"] == pytest.approx(0.001 * 0.25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": -1.0}, "lr"),
        ({"lr": math.nan}, "lr"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"betas": (-0.1, 0.9)}, "betas"),
        ({"floor": 0.0}, "floor"),
        ({"floor": math.nan}, "floor"),
        ({"weight_decay": -0.1}, "weight_decay"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DPAdamBC([nn.Parameter(torch.zeros(1))], **options)


def test_steps_beyond_the_plan_have_no_noise() -> None:
    for step in (-1, 7, 1.5):
        with pytest.raises(InputError, match="step"):
            mean_noise(tiny_plan(), step)  # type: ignore[arg-type]
    assert isinstance(np.float64(mean_noise(tiny_plan(), 6)), float)
