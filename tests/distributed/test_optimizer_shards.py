"""The state of an optimizer is cut like its parameters, also of one that is a single number."""

import copy

import pytest
import torch
from torch import nn

from discreet.distributed.ranks import Ranks
from discreet.distributed.weight_shards import WeightShards
from discreet.training.sharded.optimizer_shards import OptimizerShards


class Scale(nn.Module):
    """One number."""

    def __init__(self) -> None:
        super().__init__()
        self.size = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.size


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.NAdam, torch.optim.Adagrad, torch.optim.Adadelta])
def test_a_state_that_was_kept_goes_on(kind: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), Scale())
    whole = kind(model.parameters(), lr=0.1)
    gradients = [[torch.randn_like(one) for one in model.parameters()] for _ in range(2)]

    def step(optimizer: torch.optim.Optimizer, parts: list[torch.Tensor]) -> None:
        held = [one for group in optimizer.param_groups for one in group["params"]]
        for one, part in zip(held, parts, strict=True):
            one.grad = part.reshape(one.shape).clone()
        optimizer.step()

    step(whole, gradients[0])
    other = copy.deepcopy(model)
    cut = kind(other.parameters(), lr=0.1)
    cut.load_state_dict(copy.deepcopy(whole.state_dict()))
    shards = WeightShards(other, Ranks())
    OptimizerShards(cut, other, shards, 0)
    step(cut, gradients[1])
    step(whole, gradients[1])
    for name, one in model.named_parameters():
        assert torch.equal(shards.own[name], one.detach().flatten()), name
