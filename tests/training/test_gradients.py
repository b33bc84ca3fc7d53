"""What an optimizer may read: the release of every private parameter, and no gradient that somebody left there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from problems import WithPublicTensors, linear, tiny_training
from torch import Tensor, nn

from discreet import InputError, PrivacyViolation
from discreet.core.errors import UnsupportedModel
from discreet.training import Session, Training

LOSS = nn.CrossEntropyLoss()


def take(session: Session, inside: Callable[[], None] = lambda: None) -> None:
    with session.step() as step:
        for chunk in step.chunks:
            step.add(LOSS, chunk)
        inside()


def weights(training: Training) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in training.model.parameters()])


def gradient_of_one(training: Training) -> None:
    parameter = next(iter(training.model.parameters()))
    parameter.grad = torch.full_like(parameter, 7.0)


def gradient_of_all(training: Training) -> None:
    inputs, targets = training.data.fetch(torch.arange(24).numpy())
    LOSS(training.model(inputs), targets).backward()


def another_optimizer(training: Training) -> None:
    gradient_of_all(training)
    torch.optim.SGD(training.model.parameters(), lr=1.0).step()
    training.optimizer.zero_grad()


def written_in_place(training: Training) -> None:
    with torch.no_grad():
        next(iter(training.model.parameters())).add_(1.0)


def written_past_the_count(training: Training) -> None:
    next(iter(training.model.parameters())).data.add_(1.0)


def loaded(training: Training) -> None:
    training.model.load_state_dict(linear(seed=3).state_dict())


def frozen(training: Training) -> None:
    next(iter(training.model.parameters())).requires_grad_(False)


def replaced(training: Training) -> None:
    model = training.model
    assert isinstance(model, nn.Linear)
    model.bias = nn.Parameter(model.bias.detach().clone())


BETWEEN: list[Callable[[Training], None]] = [
    gradient_of_one,
    gradient_of_all,
    another_optimizer,
    written_in_place,
    written_past_the_count,
    loaded,
    frozen,
    replaced,
]


@pytest.mark.parametrize("when", ["before the first step", "between two steps", "inside a step"])
@pytest.mark.parametrize("change", BETWEEN, ids=lambda change: change.__name__)
def test_nothing_but_a_release_reaches_a_parameter(
    tmp_path: Path, change: Callable[[Training], None], when: str
) -> None:
    training = tiny_training(tmp_path)
    with training.session() as session:
        if when == "between two steps":
            take(session)
        position, found = session.position, []

        def interfere() -> None:
            change(training)
            found.append(weights(training))

        if when != "inside a step":
            interfere()
        with pytest.raises(PrivacyViolation, match=r"backward|not a release"):
            take(session, inside=interfere if when == "inside a step" else lambda: None)
        assert torch.equal(weights(training), found[0])  # nothing was released on top of it
        assert session.position == position + (when == "inside a step")


@pytest.mark.parametrize("change", BETWEEN, ids=lambda change: change.__name__)
def test_nothing_but_releases_is_kept_or_published(tmp_path: Path, change: Callable[[Training], None]) -> None:
    training = tiny_training(tmp_path)
    with training.session() as session:
        while not session.finished:
            take(session)
        change(training)
        for leave in (training.save, training.result):
            with pytest.raises(PrivacyViolation, match=r"backward|not a release"):
                leave(session)
    assert not training.folder.checkpoint.exists()


def test_gradients_of_passes_before_the_run_are_dropped(tmp_path: Path) -> None:
    """Of pretraining on public rows, say. An error would come after the charge."""
    model = linear()
    training = tiny_training(tmp_path, model=model)
    model(torch.ones(2, model.in_features)).sum().backward()
    before = training.plan.steps
    assert training.run(progress=False).charged_steps == before


def test_an_optimizer_that_is_given_a_frozen_parameter_later_is_found_at_the_next_step(tmp_path: Path) -> None:
    """Its gradient is nobody's release. The parameter is declared public, so it must stay what it was."""
    training = tiny_training(tmp_path, model=WithPublicTensors())
    scale = training.model.get_parameter("scale")
    with training.session() as session:
        take(session)
        scale.grad = torch.ones_like(scale)
        training.optimizer.add_param_group({"params": [scale]})
        take(session)
        with pytest.raises(PrivacyViolation, match="'scale' is not a private parameter but changed"):
            take(session)
        with pytest.raises(PrivacyViolation, match="'scale' is not a private parameter but changed"):
            training.result(session)


def test_a_parameter_that_is_trained_only_later_is_refused(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, model=WithPublicTensors())
    with training.session() as session:
        take(session)
        training.model.get_parameter("scale").requires_grad_(True)
        with pytest.raises(PrivacyViolation, match="not a release"):
            take(session)


def test_one_optimizer_must_hold_all_that_is_trained(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    halves = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    for optimizer in halves:
        with pytest.raises(UnsupportedModel, match="lacks parameter"):
            tiny_training(tmp_path, model=model, optimizer=optimizer)


def test_an_optimizer_that_remembers_gradients_is_refused(tmp_path: Path) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    LOSS(model(torch.rand(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
    optimizer.zero_grad()
    with pytest.raises(InputError, match="remembers gradients"):
        tiny_training(tmp_path, model=model, optimizer=optimizer)


def test_an_optimizer_that_is_used_after_the_checks_is_refused(tmp_path: Path) -> None:
    """Weights that are put back hide the step; momentum of rows without noise would move every step of the run."""
    model = linear()
    training = tiny_training(tmp_path, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradient_of_all(training)
    training.optimizer.step()
    training.optimizer.zero_grad()
    model.load_state_dict(before)
    with pytest.raises(InputError, match="remembers gradients"), training.session():
        pass
    assert not training.folder.path.exists()


def test_a_memory_of_gradients_beside_a_count_of_no_steps_is_refused(tmp_path: Path) -> None:
    """Adam whose count was put back, so that its first steps are corrected as such; its means are of rows."""
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    LOSS(model(torch.rand(2, 4)), torch.tensor([0, 1])).backward()
    optimizer.step()
    optimizer.zero_grad()
    for state in optimizer.state.values():
        state["step"].zero_()
    with pytest.raises(InputError, match="remembers gradients"):
        tiny_training(tmp_path, model=model, optimizer=optimizer)


class Wrapped(torch.optim.Optimizer):
    """Takes the steps of another optimizer, which keeps the memory."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, inner.defaults)
        self.inner, self.param_groups = inner, inner.param_groups

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.inner.step()


def test_a_used_optimizer_inside_another_is_refused(tmp_path: Path) -> None:
    model = linear()
    inner = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    tiny_training(tmp_path, model=model, optimizer=Wrapped(inner))
    LOSS(model(torch.rand(2, 4)), torch.tensor([0, 1])).backward()
    inner.step()
    inner.zero_grad()
    with pytest.raises(InputError, match="remembers gradients"):
        tiny_training(tmp_path, model=model, optimizer=Wrapped(inner))


@pytest.mark.parametrize("initial", [0, 0.1, 2])
def test_a_memory_as_before_the_first_step_is_taken(tmp_path: Path, initial: float) -> None:
    model = linear()
    optimizer = torch.optim.Adagrad(model.parameters(), initial_accumulator_value=initial)
    tiny_training(tmp_path, model=model, optimizer=optimizer)


def test_an_optimizer_that_fails_leaves_no_gradient(tmp_path: Path) -> None:
    class Failing(torch.optim.SGD):
        def step(self, *_: object) -> None:  # type: ignore[override]
            raise KeyError("out of order")

    model = linear()
    training = tiny_training(tmp_path, model=model, optimizer=Failing(model.parameters(), lr=0.1))
    with training.session() as session:
        with pytest.raises(KeyError):
            take(session)
        assert all(parameter.grad is None for parameter in model.parameters())
        assert session.position == 1
