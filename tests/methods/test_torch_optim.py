"""The noisy methods of the literature are torch.optim over releases: each against its own formula, written out.

What an optimizer sees is recorded where it is handed over, so the formulas are put to the very same noise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from handed_over import steps_seen
from problems import FEATURES, blobs, tiny_plan, tiny_training
from torch import nn

from discreet import InputError, UnsupportedModel
from discreet.methods import Several

Array = np.ndarray
Weights = dict[str, Array]


def two_layers() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[nn.Module], torch.optim.Optimizer], **changes: Any
) -> tuple[Weights, list[Weights], Weights]:
    """First weights, the noisy mean of every step, and the weights that training ended with."""
    model, seen = two_layers(), steps_seen(monkeypatch)
    first = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    inputs, targets = blobs()
    training = tiny_training(folder, model=model, optimizer=build(model), data=(inputs.double(), targets), **changes)
    training.run()
    assert len(seen) == training.plan.steps
    return (
        first,
        [one.means for one in seen],
        {name: parameter.detach().numpy() for name, parameter in model.named_parameters()},
    )


def sgd(w: Array, means: list[Array], lr: float = 0.1, momentum: float = 0.0, decay: float = 0.0) -> Array:
    """NoisySGD (Bu, Dong, Long and Su 2020, Algorithm 1), with momentum and weight decay."""
    velocity = np.zeros_like(w)
    for g in means:
        velocity = momentum * velocity + g + decay * w
        w = w - lr * velocity
    return w


def adam(w: Array, means: list[Array], lr: float = 0.1) -> Array:
    """NoisyAdam (the same, Algorithm 2) with the corrections of Kingma and Ba for the first steps."""
    m, u = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(means, 1):
        m, u = 0.9 * m + 0.1 * g, 0.999 * u + 0.001 * g * g
        w = w - lr * (m / (1 - 0.9**t)) / (np.sqrt(u / (1 - 0.999**t)) + 1e-8)
    return w


def adagrad(w: Array, means: list[Array]) -> Array:
    """NoisyAdaGrad: divided by the root of the sum of squares (Duchi, Hazan and Singer 2011)."""
    total = np.zeros_like(w)
    for g in means:
        total = total + g * g
        w = w - 0.1 * g / (np.sqrt(total) + 1e-10)
    return w


def rmsprop(w: Array, means: list[Array]) -> Array:
    """NoisyRMSProp: divided by the root of a running mean of squares (Tieleman and Hinton 2012)."""
    square = np.zeros_like(w)
    for g in means:
        square = 0.99 * square + 0.01 * g * g
        w = w - 0.01 * g / (np.sqrt(square) + 1e-8)
    return w


METHODS: dict[str, tuple[Callable[[nn.Module], torch.optim.Optimizer], Callable[[Array, list[Array]], Array]]] = {
    "NoisySGD": (lambda model: torch.optim.SGD(model.parameters(), lr=0.1), sgd),
    "NoisySGD with momentum": (
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.2),
        lambda w, means: sgd(w, means, momentum=0.9, decay=0.2),
    ),
    "NoisyAdam": (lambda model: torch.optim.Adam(model.parameters(), lr=0.1), adam),
    "NoisyAdaGrad": (lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1), adagrad),
    "NoisyRMSProp": (lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01), rmsprop),
}


@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_formula_over_releases(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, formula = METHODS[name]
    first, means, last = recorded(tmp_path, monkeypatch, build)
    for key in first:
        wanted = formula(first[key], [mean[key] for mean in means])
        np.testing.assert_allclose(last[key], wanted, rtol=1e-10, atol=1e-12)
        assert np.abs(last[key] - first[key]).max() > 1e-3


def test_groups_of_parameters_have_rates_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, means, last = recorded(
        tmp_path,
        monkeypatch,
        lambda model: torch.optim.SGD(
            [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5, "momentum": 0.3}],
            lr=0.02,
        ),
    )
    for key in first:
        options = {"lr": 0.02} if key.startswith("0") else {"lr": 0.5, "momentum": 0.3}
        np.testing.assert_allclose(last[key], sgd(first[key], [m[key] for m in means], **options), rtol=1e-10)


def halving(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


def test_a_scheduler_steps_after_every_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    first = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    seen = steps_seen(monkeypatch)
    inputs, targets = blobs()
    tiny_training(
        tmp_path, model=model, optimizer=optimizer, scheduler=halving(optimizer), data=(inputs.double(), targets)
    ).run()
    for name, parameter in model.named_parameters():
        wanted = first[name] - sum(0.4 * 0.5 ** (t // 2) * one.means[name] for t, one in enumerate(seen))
        np.testing.assert_allclose(parameter.detach().numpy(), wanted, rtol=1e-10)


def both(model: nn.Module) -> Several:
    return Several(
        torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9), torch.optim.Adam(model[2].parameters(), lr=0.1)
    )


def test_several_optimizers_share_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, means, last = recorded(tmp_path, monkeypatch, both)
    for key in first:
        noisy = [mean[key] for mean in means]
        wanted = sgd(first[key], noisy, momentum=0.9) if key.startswith("0") else adam(first[key], noisy)
        np.testing.assert_allclose(last[key], wanted, rtol=1e-10, atol=1e-12)


def test_a_scheduler_over_several_sets_the_rates_of_all() -> None:
    optimizer = both(two_layers())
    scheduler = halving(optimizer)
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    assert [group["lr"] for inner in optimizer.optimizers for group in inner.param_groups] == [0.025, 0.025]


def test_the_state_of_several_is_put_back() -> None:
    """Also into the rates that a scheduler sees afterwards."""
    models = two_layers(), two_layers()
    old, new = both(models[0]), both(models[1])
    for parameter in models[0].parameters():
        parameter.grad = torch.ones_like(parameter)
    old.step()
    old.param_groups[0]["lr"] = 0.7
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    models[1].load_state_dict(models[0].state_dict())
    for model, optimizer in zip(models, (old, new), strict=True):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.5)
        optimizer.step()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)
    assert new.param_groups[0] is new.optimizers[0].param_groups[0]
    assert new.param_groups[0]["lr"] == 0.7
    assert len(new.state) == 4
    with pytest.raises(ValueError, match="1 optimizers"):
        new.load_state_dict({"optimizers": [old.optimizers[0].state_dict()]})


def test_mistakes_with_several_are_named(tmp_path: Path) -> None:
    model = two_layers()
    with pytest.raises(InputError, match="at least one"):
        Several()
    with pytest.raises(InputError, match="two of the optimizers"):
        Several(torch.optim.SGD(model.parameters(), lr=1), torch.optim.SGD(model[0].parameters(), lr=1))
    with pytest.raises(InputError, match="LBFGS"):
        Several(torch.optim.LBFGS(model.parameters()))
    with pytest.raises(InputError, match="closure"):
        both(model).step(lambda: 0.0)
    with pytest.raises(InputError, match="before putting them together"):
        both(model).add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    half = Several(torch.optim.SGD(model[0].parameters(), lr=0.1))
    with pytest.raises(UnsupportedModel, match=r"2\.(weight|bias)"):
        tiny_training(tmp_path, model=model, optimizer=half)


def test_several_that_were_used_before_are_refused(tmp_path: Path) -> None:
    model = two_layers()
    optimizer = both(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    model.zero_grad()
    inputs, targets = blobs()
    with pytest.raises(InputError, match="used before"):
        tiny_training(tmp_path, model=model, optimizer=optimizer, data=(inputs.double(), targets), plan=tiny_plan())
