"""Sharded and sparse parameters are refused by name: engines would sum up zeros, or fail on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from problems import tiny_training
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor

from discreet.clipping import ENGINES, Chunk, Clip, admit_model
from discreet.clipping.digests import state_digests
from discreet.core.errors import UnsupportedModel


@pytest.fixture(scope="module")
def mesh() -> Iterator[DeviceMesh]:
    """A group of one process: nothing is shared with anybody, and parameters are DTensors all the same."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sharded_model_is_refused_by_name_in_every_engine(mesh: DeviceMesh, tmp_path: Path, engine: str) -> None:
    model = net()
    fully_shard(model, mesh=mesh)
    with pytest.raises(UnsupportedModel, match=r"^'0\.weight' \(and 3 more\) is a DTensor: .* before sharding "):
        tiny_training(tmp_path, model=model, engine=engine)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_so_it_is_by_an_engine_alone(mesh: DeviceMesh, engine: str) -> None:
    """`reference` and `exact` would add up zeros without a word."""
    model = net()
    fully_shard(model, mesh=mesh)
    rows = torch.randn(3, 4), torch.tensor([0, 1, 2])
    with pytest.raises(UnsupportedModel, match=r"^'0\.weight' is a DTensor: "):
        ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(*rows), Clip(1.0, 2.0**-30))
    with pytest.raises(UnsupportedModel, match=r"is a DTensor: "):
        state_digests(model)


def test_so_is_one_parameter_or_buffer_among_others(mesh: DeviceMesh) -> None:
    model = net()
    model[2].bias = nn.Parameter(distribute_tensor(model[2].bias.detach(), mesh, [Replicate()]))
    with pytest.raises(UnsupportedModel, match=r"^'2\.bias' is a DTensor"):
        admit_model(model)
    model = net()
    model.register_buffer("shift", distribute_tensor(torch.zeros(4), mesh, [Replicate()]))
    with pytest.raises(UnsupportedModel, match=r"^'shift' is a DTensor"):
        admit_model(model)


@pytest.mark.filterwarnings("ignore:FSDP", "ignore:.*NO_SHARD", "ignore:.*deprecated")
@pytest.mark.usefixtures("mesh")
def test_so_is_a_wrapper_that_keeps_parameters_flat() -> None:
    wrapped = FullyShardedDataParallel(net(), device_id=torch.device("cpu"))
    with pytest.raises(UnsupportedModel, match=r"^'model' is a FullyShardedDataParallel"):
        admit_model(wrapped)


def test_so_is_any_other_tensor_around_tensors() -> None:
    model = net()
    model[0].weight = nn.Parameter(TwoTensor(torch.zeros(8, 4), torch.zeros(8, 4)))
    with pytest.raises(UnsupportedModel, match=r"^'0\.weight' is a TwoTensor"):
        admit_model(model)


def test_a_sparse_parameter_is_refused() -> None:
    model = net()
    model.register_buffer("adjacent", torch.eye(4).to_sparse())
    with pytest.raises(UnsupportedModel, match=r"^'adjacent' is a sparse tensor: make it dense, with \.to_dense\(\)$"):
        admit_model(model)


class Words(nn.Module):
    """The mean of embedded codes, looked up by a module or by a function of its weights."""

    def __init__(self, table: nn.Module, function: str | None = None) -> None:
        super().__init__()
        self.table, self.head, self.function = table, nn.Linear(4, 3), function

    def forward(self, codes: Tensor) -> Tensor:
        if self.function is None:
            found = self.table(codes)
        else:
            found = getattr(functional, self.function)(codes, self.table.weight, sparse=True)
        return self.head(found if found.dim() == 2 else found.mean(1))


CODES = torch.arange(120).reshape(24, 5) % 10, torch.arange(24) % 3


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_sparse_embedding_is_refused_in_one_line(kind: type[nn.Module], engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=rf"^module 'table' \({kind.__name__}\) has .* with sparse=False$"):
        tiny_training(tmp_path, model=Words(kind(10, 4, sparse=True)), data=CODES, engine=engine)


@pytest.mark.parametrize(("kind", "function"), [(nn.Embedding, "embedding"), (nn.EmbeddingBag, "embedding_bag")])
def test_so_is_one_that_a_function_looks_up(kind: type[nn.Module], function: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"^parameter 'table\.weight' has a sparse gradient; .* sparse=False"):
        tiny_training(tmp_path, model=Words(kind(10, 4), function), data=CODES)


def test_one_that_is_not_trained_is_admitted(tmp_path: Path) -> None:
    model = Words(nn.Embedding(10, 4, sparse=True))
    model.table.weight.requires_grad_(False)
    assert tiny_training(tmp_path, model=model, data=CODES).run().charged_steps == 7
