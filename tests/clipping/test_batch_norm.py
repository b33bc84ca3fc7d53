"""BatchNorm: replaced when asked, kept with public statistics in evaluation mode, and never put into training mode."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from problems import CLASSES, FEATURES, blobs, tiny_plan, tiny_training
from torch import Tensor, nn

import discreet
from discreet.clipping import (
    ENGINES,
    Chunk,
    Clip,
    admit_model,
    evaluation_mode,
    modes_kept,
    replace_batch_norm,
    training_mode,
)
from discreet.core.errors import InputError, PrivacyViolation, UnsupportedModel
from discreet.training import Training
from discreet.training.session import Session

CLIP = Clip(0.5, 2.0**-30)


def images() -> nn.Module:
    torch.manual_seed(0)
    shared = nn.BatchNorm2d(6)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3),
        shared,
        nn.ReLU(),
        nn.Sequential(nn.Conv2d(6, 6, 3), shared, nn.BatchNorm2d(6, affine=False)),
        nn.Flatten(),
        nn.Linear(24, 64),
        nn.BatchNorm1d(64, eps=1e-3),
        nn.Linear(64, 3),
    )


def test_every_batch_norm_is_replaced_and_named() -> None:
    model = images().double()
    with torch.no_grad():
        model[1].weight.fill_(2.0)
    model[1].bias.requires_grad_(False)
    replaced = discreet.replace_batch_norm(model)
    assert list(replaced) == ["1", "6", "3.1", "3.2"]
    assert replaced["1"] is replaced["3.1"] is model[1]
    assert {name: (new.num_groups, new.num_channels, new.affine) for name, new in replaced.items()} == {
        "1": (3, 6, True),
        "3.1": (3, 6, True),
        "3.2": (3, 6, False),
        "6": (1, 64, True),
    }
    assert model[6].eps == 1e-3
    assert bool((model[1].weight == 2).all())
    assert not model[1].bias.requires_grad
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    admit_model(model)
    assert replace_batch_norm(model) == {}


@pytest.mark.parametrize(
    ("channels", "most", "groups"), [(64, 32, 32), (48, 32, 24), (7, 32, 1), (2, 32, 1), (12, 4, 4)]
)
def test_groups_divide_the_channels_and_have_two_at_least(channels: int, most: int, groups: int) -> None:
    model = nn.Sequential(nn.BatchNorm2d(channels))
    assert replace_batch_norm(model, most)["0"].num_groups == groups
    model(torch.randn(1, channels, 2, 2))


def test_what_cannot_be_replaced_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"torch\.nn\.GroupNorm"):
        replace_batch_norm(nn.BatchNorm1d(3))
    with pytest.raises(UnsupportedModel, match=r"'0' .*lazy"):
        replace_batch_norm(nn.Sequential(nn.LazyBatchNorm1d()))
    with pytest.raises(ValueError, match="most_groups"):
        replace_batch_norm(images(), 0)


def frozen() -> nn.Module:
    """Statistics and scale are those of public data, say."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Dropout(0.1), nn.Linear(5, CLASSES))
    model(torch.randn(50, FEATURES))
    with torch.no_grad():
        model[1].weight.uniform_(0.5, 2.0)
    model[1].eval()
    return model


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_frozen_norm_is_a_scale_and_a_shift(engine: str, trained: bool) -> None:
    model = frozen().eval()
    model[1].requires_grad_(trained)
    admit_model(model)
    inputs, targets = torch.randn(7, FEATURES), torch.arange(7) % CLASSES
    norm = model[1]
    scale = (norm.running_var + norm.eps).rsqrt()
    fixed = {"mean": norm.running_mean, "scale": scale}
    plain = nn.Sequential(model[0], Shifted(norm, fixed), model[3])
    sums = ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
    wanted = ENGINES["reference"].clipped_sum(plain, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
    for one, other in zip(sums.values(), wanted.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6, check_dtype=False)


class Shifted(nn.Module):
    """What a frozen norm computes, in ordinary operations."""

    def __init__(self, norm: nn.BatchNorm1d, fixed: dict[str, Tensor]) -> None:
        super().__init__()
        self.weight, self.bias, self.fixed = norm.weight, norm.bias, fixed

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.fixed["mean"]) * self.fixed["scale"] * self.weight + self.bias


@pytest.mark.parametrize("engine", ENGINES)
def test_training_never_switches_a_frozen_norm_on(tmp_path: Path, engine: str) -> None:
    model = frozen()
    statistics = [buffer.clone() for buffer in model.buffers()]
    seen: set[tuple[bool, bool]] = set()
    model[1].register_forward_hook(lambda module, *_: seen.add((module.training, model.training)))
    training = tiny_training(tmp_path, model=model, engine=engine, public_test=blobs(6, 9))
    assert "norm '1' stays in evaluation mode" in training.preflight.line
    training.run(evaluate_every=2)
    assert seen == {(False, True)}  # it is a copy of the model that is evaluated
    assert all(torch.equal(*pair) for pair in zip(statistics, model.buffers(), strict=True))


def test_a_loop_that_switches_it_on_is_stopped_before_anything_is_released(tmp_path: Path) -> None:
    for engine in ("bookkeeping", "reference"):
        training = tiny_training(tmp_path / engine, model=frozen(), engine=engine, plan=tiny_plan(population=24))
        with training.session() as session:
            training.model.train()
            with pytest.raises((UnsupportedModel, PrivacyViolation, ValueError)):
                take(session, training)


def take(session: Session, training: Training) -> None:
    with session.step() as step:
        for chunk in step.chunks:
            step.add(training.criterion, chunk)


def test_without_statistics_it_is_refused_in_evaluation_mode_too() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(UnsupportedModel, match=r"'1' \(BatchNorm1d\).*in evaluation mode too") as refusal:
        admit_model(model)
    assert ".eval()" not in str(refusal.value)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(4), nn.InstanceNorm2d(4, track_running_stats=True)])
def test_with_statistics_it_is_admitted_in_evaluation_mode_only(norm: nn.Module) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), norm)
    with pytest.raises(UnsupportedModel, match=r"freeze it .*\.eval\(\)"):
        admit_model(model)
    norm.eval()
    admit_model(model)


def test_modes_are_restored_module_by_module() -> None:
    model = frozen()
    model[2].eval()
    before = [module.training for module in model.modules()]
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before
    with modes_kept(model):
        training_mode(model)
        assert [module.training for module in model] == [True, False, True, True]
    with pytest.raises(RuntimeError), evaluation_mode(model):
        model(torch.zeros(1, FEATURES + 1))
    assert [module.training for module in model.modules()] == before


def test_the_new_modules_are_not_taken_for_the_model() -> None:
    """The dict by name is what it was; the usual `model = ...` is told what to write."""
    model = images()
    replaced = replace_batch_norm(model)
    assert isinstance(replaced, dict)
    with pytest.raises(
        AttributeError, match="no 'parameters', and changes the model in place: write replace_batch_norm"
    ):
        torch.optim.SGD(replaced.parameters(), lr=0.1)  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(replaced)).keys() == copy.deepcopy(replaced).keys() == replaced.keys()
    optimizer, rows = torch.optim.SGD(model.parameters(), lr=0.1), (torch.rand(20, 1, 8, 8), torch.arange(20) % 3)
    with pytest.raises(InputError, match=r"^model cannot be a dict; give the module itself, which replace_batch_norm"):
        Training(tiny_plan(), replaced, nn.CrossEntropyLoss(), optimizer, rows)  # type: ignore[arg-type]
