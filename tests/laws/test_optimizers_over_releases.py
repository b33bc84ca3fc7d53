"""NoisySGD, NoisyAdam, NoisyAdaGrad and NoisyRMSProp are torch.optim over releases, to the last bit.

Every run is repeated by hand: plain torch.optim on a copy of the model, in a loop without the library, fed the noisy
means that the run released. (`tests/methods/test_torch_optim.py` holds the updates to the formulas of the papers.)
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import FEATURES, blobs, tiny_training
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop, lr_scheduler

from discreet.core.release import Release
from discreet.methods import Several
from discreet.training import step as step_module

Means = list[dict[str, Tensor]]


def two_layers() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def groups(model: nn.Module) -> list[dict[str, Any]]:
    """The head faster and without weight decay."""
    return [
        {"params": model[0].parameters()},
        {"params": [model[2].weight], "lr": 0.3, "weight_decay": 0.0},
        {"params": [model[2].bias], "lr": 0.01},
    ]


OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "NoisySGD": lambda model: SGD(model.parameters(), lr=0.1),
    "NoisySGD, momentum and weight decay": lambda model: SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.2
    ),
    "NoisySGD, Nesterov": lambda model: SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "NoisySGD, groups": lambda model: SGD(groups(model), lr=0.1, momentum=0.5, weight_decay=0.1),
    "NoisyAdam": lambda model: Adam(model.parameters(), lr=0.1),
    "NoisyAdam, weight decay and largest moment": lambda model: Adam(
        model.parameters(), lr=0.1, weight_decay=0.1, amsgrad=True
    ),
    "NoisyAdam, groups": lambda model: Adam(groups(model), lr=0.1, weight_decay=0.1),
    "NoisyAdamW": lambda model: AdamW(model.parameters(), lr=0.1, weight_decay=0.1),
    "NoisyAdaGrad": lambda model: Adagrad(model.parameters(), lr=0.1, lr_decay=0.01, weight_decay=0.1),
    "NoisyRMSProp": lambda model: RMSprop(model.parameters(), lr=0.01),
    "NoisyRMSProp, centred, momentum": lambda model: RMSprop(model.parameters(), lr=0.01, centered=True, momentum=0.9),
    "several": lambda model: Several(
        SGD(model[0].parameters(), lr=0.1, momentum=0.9), Adam(model[2].parameters(), lr=0.1, weight_decay=0.1)
    ),
}

SCHEDULERS: dict[str, Callable[[Optimizer], lr_scheduler.LRScheduler] | None] = {
    "constant": None,
    "step": lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5),
    "warm-up and cosine": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3), lr_scheduler.CosineAnnealingLR(optimizer, 4)],
        milestones=[3],
    ),
}


@pytest.fixture
def means(monkeypatch: pytest.MonkeyPatch) -> Means:
    """The noisy mean of every step from now on."""
    found: Means = []
    real = step_module.apply

    def spy(release: Release, parameters: Any, optimizer: Any, divisor: float, *rest: Any) -> None:
        found.append({name: torch.as_tensor(tensor / divisor) for name, tensor in release.tensors.items()})
        real(release, parameters, optimizer, divisor, *rest)

    monkeypatch.setattr(step_module, "apply", spy)
    return found


def by_hand(
    model: nn.Module,
    optimizers: list[Optimizer],
    schedule: Callable[[Optimizer], lr_scheduler.LRScheduler] | None,
    means: Means,
) -> None:
    """torch's own loop."""
    schedulers = [] if schedule is None else [schedule(optimizer) for optimizer in optimizers]
    for mean in means:
        for name, parameter in model.named_parameters():
            parameter.grad = mean[name].clone()
        for optimizer in optimizers:
            optimizer.step()
        for scheduler in schedulers:
            scheduler.step()


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("schedule", SCHEDULERS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_run_is_torch_optim_fed_the_same_noisy_means(name: str, schedule: str, tmp_path: Path, means: Means) -> None:
    model = two_layers()
    alone = copy.deepcopy(model)
    optimizer = OPTIMIZERS[name](model)
    make = SCHEDULERS[schedule]
    inputs, targets = blobs()
    training = tiny_training(
        tmp_path,
        model=model,
        optimizer=optimizer,
        scheduler=None if make is None else make(optimizer),
        data=(inputs.double(), targets),
    )
    training.run()
    assert len(means) == training.plan.steps
    plain = OPTIMIZERS[name](alone)
    by_hand(alone, list(plain.optimizers) if isinstance(plain, Several) else [plain], make, means)
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_law_sees_a_mean_that_was_touched(tmp_path: Path, means: Means) -> None:
    """It can fail: one mean of seven changed in the last bit is another run."""
    model = two_layers()
    alone = copy.deepcopy(model)
    inputs, targets = blobs()
    tiny_training(tmp_path, model=model, optimizer=OPTIMIZERS["NoisySGD"](model), data=(inputs.double(), targets)).run()
    weight = means[-1]["2.bias"]
    weight.copy_(torch.nextafter(weight, torch.full_like(weight, torch.inf)))
    weight.mul_(1 + 2.0**-48)
    by_hand(alone, [OPTIMIZERS["NoisySGD"](alone)], None, means)
    assert not torch.equal(model[2].bias, alone[2].bias)
    assert torch.equal(model[0].weight, alone[0].weight)
