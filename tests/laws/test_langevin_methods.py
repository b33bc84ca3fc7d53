"""What holds for Langevin methods as for every method over releases.

Engines agree, chunks do not matter, a run that stopped goes on with what it had, rows that are not finite and empty
batches are survived, and what a run ends with follows from its releases and the noise it was told.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import Plan
from discreet.core.errors import Interrupted
from discreet.core.release import Release
from discreet.methods import SGLD, DPDropout, LangevinSteps, NoiseAware
from discreet.randomness import TestStream
from discreet.training import step as step_module

STEPS = LangevinSteps(first=0.02, decay=1.0)


def sampled(**changes: Any) -> Plan:
    """The plan whose noise is that of `STEPS`."""
    batch = changes.get("batch", 12)
    return tiny_plan(noise_multiplier=STEPS.noise(7, rate=batch / 24, clip_norm=1.0), **changes)


METHODS: dict[str, tuple[Callable[[nn.Module], NoiseAware], Callable[..., Plan]]] = {
    "SGLD": (lambda model: SGLD(model.parameters(), 24, steps=STEPS), sampled),
    "SGLD, calibrated": (lambda model: SGLD(model.parameters(), 24, precision=3.0, temperature=0.1), tiny_plan),
    "DP dropout": (lambda model: DPDropout(model.parameters(), lr=0.5, weight_decay=0.05), tiny_plan),
}
every_method = pytest.mark.parametrize("name", METHODS)

Seen = list[tuple[dict[str, Tensor], float]]


@contextmanager
def noted(fail_after: int | None = None) -> Iterator[Seen]:
    """Inside, the noisy mean of every step and the noise that its optimizer was told; it may die before a step."""
    found: Seen = []
    real = step_module.apply

    def spy(release: Release, parameters: Any, optimizer: Any, divisor: float) -> None:
        if len(found) == fail_after:
            raise Interrupted("here", 2)
        mean = {name: torch.as_tensor(tensor / divisor) for name, tensor in release.tensors.items()}
        found.append((mean, optimizer._told[0]))
        real(release, parameters, optimizer, divisor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "apply", spy)
        yield found


def run(folder: Path, name: str, **changes: Any) -> nn.Module:
    """The model after a run of the method."""
    build, plan = METHODS[name]
    model = linear().double()
    inputs, targets = changes.pop("data", None) or blobs()
    options = {"plan": plan(**changes.pop("planned", {})), "data": (inputs.double(), targets)} | changes
    tiny_training(folder, model=model, optimizer=build(model), **options).run()
    return model


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def by_hand(name: str, seen: Seen) -> Tensor:
    """The method on a model of its own, without a run."""
    model = linear().double()
    optimizer = METHODS[name][0](model)
    for mean, noise in seen:
        for key, parameter in model.named_parameters():
            parameter.grad = mean[key].clone()
        optimizer.tell(noise)
        optimizer.step()
    return weights(model)


@every_method
def test_a_run_follows_from_its_releases(name: str, tmp_path: Path) -> None:
    with noted() as seen:
        found = weights(run(tmp_path, name))
    assert len(seen) == 7
    assert torch.equal(found, by_hand(name, seen))
    assert not torch.allclose(found, weights(linear().double()), atol=1e-3)


@every_method
def test_engines_agree(name: str, tmp_path: Path) -> None:
    """Up to the float slack of their sums, which the noise covers: a thousandth of it here."""
    start = weights(linear().double())
    found = {
        engine: weights(run(tmp_path / engine, name, engine=engine)) - start
        for engine in ("reference", "exact", "vmap", "ghost", "bookkeeping")
    }
    size = float(found["exact"].abs().max())
    for moved in found.values():
        torch.testing.assert_close(moved, found["exact"], rtol=0.0, atol=5e-3 * size)


@every_method
def test_chunks_do_not_matter(name: str, tmp_path: Path) -> None:
    found = [weights(run(tmp_path / str(size), name, physical_batch=size)) for size in (1, 5, 64)]
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0.0, atol=1e-5)


@every_method
def test_a_run_that_stopped_goes_on_with_what_it_had(name: str, tmp_path: Path) -> None:
    """Blocks of three: the stop in the fifth step loses the second block; the seventh is taken with its own noise."""
    with noted(fail_after=4) as first, pytest.raises(Interrupted):
        run(tmp_path, name)
    with noted() as rest:
        found = weights(run(tmp_path, name, resume=True, stream=TestStream(8)))
    assert len(rest) == 1
    assert torch.equal(found, by_hand(name, [*first[:3], *rest]))
    if name == "SGLD":
        eta = 4 / (24 * rest[0][1]) ** 2
        assert eta == pytest.approx(STEPS.at(7), rel=3e-3)


@every_method
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_gradients_that_are_not_finite_do_no_harm(name: str, bad: float, tmp_path: Path) -> None:
    """A third of the rows has one."""

    def criterion(output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target) * torch.where(target == 0, bad, 1.0).sum()

    assert torch.isfinite(weights(run(tmp_path, name, criterion=criterion))).all()


@every_method
def test_empty_batches_are_steps_of_noise(name: str, tmp_path: Path) -> None:
    """Expected batch 0.02: for this seed no step has a row, and every step moves the weights."""
    with noted() as seen:
        found = weights(run(tmp_path, name, planned={"batch": 0.02}))
    assert len(seen) == 7
    assert torch.isfinite(found).all()
    assert not torch.equal(found, weights(linear().double()))


@every_method
def test_the_state_is_put_back(name: str) -> None:
    """After three steps and a copy through `state_dict`, both go on alike; so do the rates of dropout."""
    models = linear().double(), linear().double()
    one, other = (METHODS[name][0](model) for model in models)
    noises = [0.5 / math.sqrt(0.02) / 6 / (1 / math.sqrt(t)) for t in range(1, 6)]

    def step(optimizer: NoiseAware, model: nn.Module, t: int) -> None:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.1 * t)
        optimizer.tell(noises[t])
        optimizer.step()

    for t in range(3):
        step(one, models[0], t)
    models[1].load_state_dict(models[0].state_dict())
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for t in range(3, 5):
        for optimizer, model in zip((one, other), models, strict=True):
            step(optimizer, model, t)
    assert torch.equal(weights(models[0]), weights(models[1]))
    if isinstance(one, DPDropout) and isinstance(other, DPDropout):
        for a, b in zip(one.rates().values(), other.rates().values(), strict=True):
            assert torch.equal(a, b)
