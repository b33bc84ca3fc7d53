"""What cannot be trained privately is refused by name, with the fix."""

import pytest
import torch
from torch import nn

from discreet.clipping import admit_model, admit_optimizer, private_parameters, replace_batch_norm
from discreet.core.errors import UnsupportedModel


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.BatchNorm2d(8), nn.BatchNorm3d(8), nn.SyncBatchNorm(8)])
def test_batch_norm_is_refused_with_its_name_and_group_norm(norm: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(norm))
    with pytest.raises(UnsupportedModel) as refusal:
        admit_model(model)
    message = str(refusal.value)
    assert "'1.0'" in message
    assert type(norm).__name__ in message
    assert "GroupNorm" in message
    assert "8" in message
    assert "\n" not in message


def test_batch_norm_as_the_whole_model_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"'model' \(BatchNorm1d\)"):
        admit_model(nn.BatchNorm1d(4))


def test_instance_norm_with_running_statistics_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="track_running_stats=False"):
        admit_model(nn.Sequential(nn.Conv2d(1, 2, 3), nn.InstanceNorm2d(2, track_running_stats=True)))


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d(2), nn.GroupNorm(1, 2), nn.LayerNorm(2)])
def test_norms_within_one_example_are_admitted(norm: nn.Module) -> None:
    admit_model(nn.Sequential(nn.Conv2d(1, 2, 3), norm))


def test_a_lazy_module_is_refused_until_it_has_parameters() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(UnsupportedModel, match=r"'0' .*lazy"):
        admit_model(model)
    model(torch.zeros(1, 4))
    admit_model(model)


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="nothing to train"):
        admit_model(nn.Flatten())
    with pytest.raises(UnsupportedModel, match="nothing to train"):
        admit_model(nn.Linear(2, 2).requires_grad_(False))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_refused_by_name(value: float) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[1].bias[1] = value
    with pytest.raises(UnsupportedModel, match=r"'1\.bias'"):
        admit_model(model)


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="complex"):
        admit_model(nn.Linear(2, 2, dtype=torch.complex64))


def test_only_what_requires_a_gradient_is_private() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    assert list(private_parameters(model)) == ["1.weight", "1.bias"]


def test_lbfgs_is_refused() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(UnsupportedModel, match="LBFGS"):
        admit_optimizer(torch.optim.LBFGS(model.parameters()), model)


def test_a_subclass_of_lbfgs_is_refused() -> None:
    class Mine(torch.optim.LBFGS):
        pass

    model = nn.Linear(2, 2)
    with pytest.raises(UnsupportedModel, match="LBFGS"):
        admit_optimizer(Mine(model.parameters()), model)


def test_an_optimizer_that_lacks_a_parameter_is_refused_by_name() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(UnsupportedModel, match="lacks parameter 'bias'"):
        admit_optimizer(torch.optim.SGD([model.weight], lr=0.1), model)


def test_an_optimizer_that_holds_a_frozen_parameter_is_refused_by_name() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    with pytest.raises(UnsupportedModel, match="'bias', which is not trained"):
        admit_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)


def test_an_optimizer_that_holds_a_stranger_is_refused() -> None:
    model = nn.Linear(2, 2)
    stranger = nn.Parameter(torch.zeros(1))
    with pytest.raises(UnsupportedModel, match="not in the model"):
        admit_optimizer(torch.optim.SGD([*model.parameters(), stranger], lr=0.1), model)


def test_the_optimizer_of_a_copy_of_the_model_is_refused() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(UnsupportedModel, match="lacks parameter"):
        admit_optimizer(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), model)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop])
def test_ordinary_optimizers_are_admitted_in_several_groups(kind: type[torch.optim.Optimizer]) -> None:
    model = nn.Linear(2, 2)
    admit_optimizer(kind([{"params": [model.weight]}, {"params": [model.bias]}], lr=0.1), model)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_on_a_gradient_is_refused_as_no_step_calls_it(register: str) -> None:
    model = nn.Linear(2, 2)
    hook = getattr(model.weight, register)(lambda given: None)
    with pytest.raises(UnsupportedModel, match="'weight' has a hook on its gradient"):
        admit_model(model)
    hook.remove()
    admit_model(model)


def test_an_optimizer_that_holds_what_a_loss_learns_says_so() -> None:
    model, loss = nn.Linear(2, 2), nn.Linear(2, 1)
    with pytest.raises(UnsupportedModel, match="make what a loss learns part of the model"):
        admit_optimizer(torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1), model)


def test_an_optimizer_that_is_older_than_its_model_is_told_so() -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    replace_batch_norm(model)
    with pytest.raises(UnsupportedModel, match=r"lacks parameter '1.bias'; .* replace_batch_norm, say: make it after"):
        admit_optimizer(optimizer, model)
