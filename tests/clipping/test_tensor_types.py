"""Types of tensors: whatever real numbers torch and safetensors have can be declared, kept and published."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from problems import certified_run, linear
from safetensors.torch import save
from torch import Tensor, nn

from discreet import publish, verify
from discreet.certificate.tensorfile import tensor_digests
from discreet.clipping.digests import TYPE_NAMES, tensor_digest
from discreet.core.errors import UnsupportedModel
from discreet.verification.standalone import verify as reviewer


@pytest.mark.parametrize("dtype", TYPE_NAMES, ids=str)
def test_a_digest_is_that_of_the_tensor_in_a_file(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[1, 0, 3], [2, 1, 1]]).to(dtype)
    assert tensor_digest(tensor) == tensor_digests(save({"one": tensor}))["one"]


def test_complex_numbers_have_none() -> None:
    with pytest.raises(UnsupportedModel, match="convert it to a real type"):
        tensor_digest(torch.ones(2, dtype=torch.complex64))


class Shifted(nn.Module):
    """A linear layer on rows that public whole numbers shift."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.head = linear()
        self.register_buffer("shift", torch.tensor([1, 0, 2, 1]).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.shift.float())


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float8_e4m3fn], ids=str)
def test_a_model_with_a_buffer_of_a_rare_type_is_published(dtype: torch.dtype, tmp_path: Path) -> None:
    trained = certified_run(tmp_path, model=Shifted(dtype))
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    assert reviewer.main([str(tmp_path / "out")]) == 0
