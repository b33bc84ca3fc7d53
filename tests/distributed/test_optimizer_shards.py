"""The state of an optimizer is cut like its parameters, also of one that is a single number."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from discreet.distributed.ranks import Ranks
from discreet.distributed.weight_shards import Cut, WeightShards
from discreet.training.run.checkpoint import Checkpoint, read_checkpoint
from discreet.training.run.checkpoint_files import Index, load_checkpoint, part_name, write_index, write_part
from discreet.training.run.state_json import Shard, Way, encoded
from discreet.training.sharded.optimizer_shards import OptimizerShards, own_state


class Scale(nn.Module):
    """One number."""

    def __init__(self) -> None:
        super().__init__()
        self.size = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.size


KINDS = [torch.optim.Adam, torch.optim.NAdam, torch.optim.Adagrad, torch.optim.Adadelta]


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 7), Scale())


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_three_processes_are_those_of_two_after_a_checkpoint(
    tmp_path: Path, kind: type[torch.optim.Optimizer]
) -> None:
    """A step in three processes, a checkpoint, a step in two: the weights of two steps with the whole."""
    whole = made()
    reference = kind(whole.parameters(), lr=0.1)
    gradients = [{name: torch.randn_like(one) for name, one in whole.named_parameters()} for _ in range(2)]

    def step(optimizer: torch.optim.Optimizer, held: dict[str, nn.Parameter], number: int, rank: int, of: int) -> None:
        for name, one in held.items():
            gradient = gradients[number][name].reshape(-1)
            start, stop = Cut.of(gradients[number][name], of).part(rank)
            one.grad = (gradient if of == 1 else gradient[start:stop]).reshape(one.shape).clone()
        optimizer.step()

    parts = []
    for rank in range(3):
        model = made()
        optimizer = kind(model.parameters(), lr=0.1)
        shards = WeightShards(model, Ranks(rank, 3))
        cut = OptimizerShards(optimizer, model, shards, rank)
        step(optimizer, shards.pieces, 0, rank, 3)
        own = {name: Shard(part, shards.cuts[name].shape) for name, part in shards.own.items()}
        tree, tensors = encoded(Checkpoint("run", 1, own, cut.state_dict(), None, ()).as_dict())
        kept = {name: one for name, one in tensors.items() if rank == 0 or isinstance(one, Shard)}
        parts.append(write_part(tmp_path / part_name(1, "a", rank), kept))
    write_index(Index(tmp_path / "checkpoint.json", "run", 1, tuple(parts), tree))

    step(reference, dict(whole.named_parameters()), 0, 0, 1)
    step(reference, dict(whole.named_parameters()), 1, 0, 1)
    for rank in range(2):
        model = made()
        optimizer = kind(model.parameters(), lr=0.7)  # its settings come from the checkpoint

        def keep(
            way: Way, tensor: torch.Tensor, rank: int = rank, mine: torch.optim.Optimizer = optimizer
        ) -> torch.Tensor:
            if way[:2] != ("optimizer", "state"):
                return tensor
            return own_state(mine, int(str(way[2])), str(way[3]), tensor, rank, 2)

        found = read_checkpoint(load_checkpoint(tmp_path / "checkpoint.json"), Ranks(), keep)
        assert found is not None
        model.load_state_dict(found.model)
        shards = WeightShards(model, Ranks(rank, 2))
        OptimizerShards(optimizer, model, shards, rank).load_state_dict(found.optimizer)
        step(optimizer, shards.pieces, 1, rank, 2)
        for name, one in whole.named_parameters():
            start, stop = shards.cuts[name].part(rank)
            assert torch.equal(shards.own[name], one.detach().flatten()[start:stop]), (name, rank)


@pytest.mark.parametrize("kind", KINDS)
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
