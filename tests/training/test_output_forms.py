"""What models may return, and losses may do with it: the clipped sum is that of a backward pass for each row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from problems import blobs, linear, tiny_training
from torch import Tensor, nn

from discreet.clipping import Chunk, Clip
from discreet.core.errors import UnsupportedModel

BATCHED = ["bookkeeping", "ghost"]


class Returning(nn.Module):
    """Returns what it makes in a form of its own."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.head, self.form = linear(), form

    def forward(self, x: Tensor) -> Any:
        return self.form(self.head(x))


def with_nothing(made: Tensor) -> Any:
    return {"logits": made, "cache": None}


def with_length(made: Tensor) -> Any:
    return {"logits": made, "rows": len(made)}


def in_object(made: Tensor) -> Any:
    return SimpleNamespace(logits=made)


def of_logits(output: Any, target: Tensor) -> Tensor:
    return F.cross_entropy(output.logits if isinstance(output, SimpleNamespace) else output["logits"], target)


def close_to_rows(training: Any) -> bool:
    """Whether the clipped sum is that of ordinary backward passes, a row each."""
    model, (inputs, targets) = training.model, blobs()
    total = [torch.zeros_like(part, dtype=torch.float64) for part in model.parameters()]
    for i in range(len(inputs)):
        loss = training.criterion(model(inputs[i : i + 1].clone()), targets[i : i + 1].clone()).sum()
        row = [part.double() for part in torch.autograd.grad(loss, list(model.parameters()))]
        length = torch.cat([part.flatten() for part in row]).norm()
        for whole, part in zip(total, row, strict=True):
            whole += part * min(1.0, 0.5 / float(length))
    found = training.engine.clipped_sum(model, training.criterion, Chunk(inputs, targets), Clip(0.5, 2.0**-31))
    return all(torch.allclose(found[name].double(), one, atol=1e-5) for name, one in zip(found, total, strict=True))


@pytest.mark.parametrize("engine", ["auto", *BATCHED, "vmap", "reference"])
def test_a_model_may_return_none_beside_tensors(tmp_path: Path, engine: str) -> None:
    assert close_to_rows(tiny_training(tmp_path, model=Returning(with_nothing), criterion=of_logits, engine=engine))


@pytest.mark.parametrize("form", [with_length, in_object])
def test_what_cannot_be_parted_into_rows_goes_vectorised(tmp_path: Path, form: Callable[[Tensor], Any]) -> None:
    assert close_to_rows(tiny_training(tmp_path, model=Returning(form), criterion=of_logits, engine="auto"))
    for engine in BATCHED:
        with pytest.raises(UnsupportedModel, match=r"an object of type \w+, of which nobody can tell.*engine='vmap'"):
            tiny_training(tmp_path, model=Returning(form), criterion=of_logits, engine=engine)


def written(output: Tensor, target: Tensor) -> Tensor:
    output[target == 1] = output[target == 1] * 2
    return F.cross_entropy(output, target)


@pytest.mark.parametrize("engine", ["auto", *BATCHED, "reference"])
def test_a_loss_may_write_to_the_output_of_its_row(tmp_path: Path, engine: str) -> None:
    assert close_to_rows(tiny_training(tmp_path, criterion=written, engine=engine))


@pytest.mark.parametrize("engine", BATCHED)
def test_a_loss_of_torch_with_a_hook_is_called(tmp_path: Path, engine: str) -> None:
    """Its hook may look at targets that random rows do not have."""
    criterion = nn.CrossEntropyLoss()
    criterion.register_forward_hook(lambda module, given, loss: 3 * loss)
    assert close_to_rows(tiny_training(tmp_path, criterion=criterion, engine=engine))
