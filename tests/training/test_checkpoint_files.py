"""Files of checkpoints: values go in and come out bit for bit; an index names the parts beside it."""

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import linear, tiny_training
from torch import Tensor, nn
from torch.optim import lr_scheduler

from discreet.core.errors import InputError
from discreet.distributed.ranks import Ranks
from discreet.training.run import checkpoint_files
from discreet.training.run.checkpoint import Checkpoint, read_checkpoint, save_checkpoint
from discreet.training.run.checkpoint_files import Index, load_checkpoint, part_name, write_index, write_part
from discreet.training.run.state_json import Shard, encoded


def kept(state: dict[str, Any], position: int = 1) -> Checkpoint:
    return Checkpoint("run", position, state, {}, None, ())


def save(folder: Path, state: dict[str, Any], position: int = 1) -> Path:
    index = folder / "checkpoint.json"
    save_checkpoint(index, lambda: kept(state, position), Ranks(), shared_out=False)
    return index


def read(index: Path) -> Checkpoint:
    found = read_checkpoint(load_checkpoint(index), Ranks(), lambda _, tensor: tensor)
    assert found is not None
    return found


def same(one: Any, other: Any) -> None:
    """The same values, types and bits."""
    assert type(one) is type(other)
    if isinstance(one, Tensor):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert bits(one) == bits(other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    else:
        assert one == other or (math.isnan(one) and math.isnan(other))


def bits(value: Tensor) -> bytes:
    real = torch.view_as_real(value) if value.is_complex() else value
    return real.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


ODD = {
    "a tuple": (0.9, 0.999, (1, None, True)),
    "numbers": [math.inf, -math.inf, math.nan, -0.0, 5e-324, 0.1, 2**70],
    "a counter": Counter({30: 1, 60: 2}),
    "keys": {0: "zero", "0": "text", (1, 2): "pair"},
    "in order": OrderedDict(b=1, a=2),
    "nothing": torch.empty(0),
    "no axis": torch.tensor(3.0),
    "bfloat16": torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).bfloat16(),
    "complex": torch.randn(3, 2, dtype=torch.complex128, generator=torch.Generator().manual_seed(1)),
    "truths": torch.tensor([True, False, True]),
    "not numbers": torch.tensor([math.nan, -0.0, math.inf]),
    "bytes": torch.arange(7, dtype=torch.uint8),
    "a view": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "spread": torch.zeros(()).expand(3, 4),
    "dots. and /": {"é": torch.ones(1), "a.b": {"c": torch.zeros(1)}, "a": {"b.c": torch.full((1,), 2.0)}},
}


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    found = read(save(tmp_path, ODD)).model
    same(found, ODD)
    assert found["a view"].stride() == ODD["a view"].stride()  # type: ignore[attr-defined]


def test_the_part_is_a_plain_file_of_tensors_and_a_tied_weight_is_in_it_once(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    weight = torch.randn(3, 4)
    state = {"one": weight.detach(), "two": weight.detach(), "other": torch.ones(2)}
    index = save(tmp_path, state)
    (part,) = tmp_path.glob("checkpoint-1-*.safetensors")
    assert {name: one.numel() for name, one in load_file(part).items()} == {"model.one": 12, "model.other": 2}
    same(read(index).model, state)


@pytest.mark.parametrize(
    "optimizer", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam"]
)
def test_optimizers_come_back(tmp_path: Path, optimizer: str) -> None:
    model = linear()
    made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.step()
    same(read(save(tmp_path, made.state_dict())).model, made.state_dict())


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]] = {
    "step": lambda optimizer: lr_scheduler.StepLR(optimizer, 3),
    "milestones": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 2, 5]),
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.5, 10),
    "function": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step),
    "cyclic": lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.1, 0.5),
    "in a row": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)], [3]
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_come_back(tmp_path: Path, name: str) -> None:
    optimizer = torch.optim.SGD(linear().parameters(), lr=0.1, momentum=0.9)
    state = SCHEDULERS[name](optimizer).state_dict()
    same(read(save(tmp_path, state)).model, state)


def test_what_a_checkpoint_cannot_keep_is_said_before_anything_is_charged(tmp_path: Path) -> None:
    class Rate:
        def __init__(self) -> None:
            self.of = object()

        def __call__(self, step: int) -> float:
            return 1.0

    optimizer = torch.optim.SGD((model := linear()).parameters(), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, Rate())
    training = tiny_training(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler)
    with pytest.raises(InputError, match=r"scheduler.*\.of is an object, which a checkpoint cannot keep"):
        training.run()
    assert not (tmp_path / "run").exists()


def test_parts_of_several_processes_are_one_tensor(tmp_path: Path) -> None:
    whole = torch.randn(5, 3)
    cuts = [(0, 8), (8, 15), (15, 15)]
    parts = []
    for rank, (start, stop) in enumerate(cuts):
        tree, tensors = encoded(kept({"weight": Shard(whole.reshape(-1)[start:stop], whole.shape)}).as_dict())
        parts.append(write_part(tmp_path / part_name(1, "a", rank), tensors))
    write_index(Index(tmp_path / "checkpoint.json", "run", 1, tuple(parts), tree))
    same(read(tmp_path / "checkpoint.json").model, {"weight": whole})


@pytest.mark.parametrize("name", ["../other/checkpoint-3-a-0.safetensors", "key", "checkpoint-3-\0-0.safetensors"])
def test_an_index_names_parts_beside_it_alone(tmp_path: Path, name: str) -> None:
    save(tmp_path, {"weight": torch.ones(3)})
    write_index(Index(tmp_path / "checkpoint.json", "run", 1, (), {}))
    facts = json.loads((tmp_path / "checkpoint.json").read_text())
    del facts["sha256"]
    facts["parts"] = [{"file": name, "size": 1, "sha256": ""}]
    digest = checkpoint_files._digest(facts)
    (tmp_path / "checkpoint.json").write_text(json.dumps(facts | {"sha256": digest}))
    with pytest.raises(InputError, match=r"cannot read .* of the checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.json")


def test_without_an_index_there_is_no_new_checkpoint_and_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that an index never named are gone."""
    index = save(tmp_path, {"weight": torch.ones(3)})
    real = checkpoint_files.write_durably

    def full(path: Path, write: Any, mode: int, **more: Any) -> None:
        if path == index:
            raise OSError("no space")
        real(path, write, mode, **more)

    monkeypatch.setattr(checkpoint_files, "write_durably", full)
    with pytest.raises(OSError, match="no space"):
        save(tmp_path, {"weight": torch.zeros(3)}, 2)
    assert [path.name[:13] for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1-"]
    found = load_checkpoint(index)
    assert found is not None
    assert found.position == 1
    same(read(index).model, {"weight": torch.ones(3)})
    monkeypatch.undo()
    save(tmp_path, {"weight": torch.zeros(3)}, 3)
    assert [path.name[:13] for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-3-"]


def test_a_file_that_the_first_process_does_not_see_makes_no_checkpoint(tmp_path: Path) -> None:
    index = save(tmp_path, {"weight": torch.ones(3)})
    part = write_part(tmp_path / part_name(1, "c", 1), {})
    (tmp_path / part.file).unlink()
    with pytest.raises(InputError, match="must lie where all processes see it"):
        write_index(Index(index, "run", 2, (part,), {}))
    assert read(index).position == 1


def test_a_buffer_that_is_sparse_is_refused_by_name() -> None:
    module = nn.Module()
    module.register_buffer("held", torch.eye(3).to_sparse())
    with pytest.raises(InputError, match="held is sparse"):
        encoded(module.state_dict())
