"""Products of engines are in full precision, however torch is set; and it is set as before afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import tiny_training

from discreet.clipping.precision import full_precision, product_precision

BACKENDS: Any = torch.backends
KINDS = (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn, BACKENDS.mkldnn.matmul)


def put(kind: Any, value: str) -> Callable[[], None]:
    return lambda: setattr(kind, "fp32_precision", value)


SET: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "all products": lambda: torch.set_float32_matmul_precision("medium"),
    "products of cards": put(BACKENDS.cuda.matmul, "tf32"),
    "products of processors": put(BACKENDS.mkldnn.matmul, "bf16"),
    "convolutions of cards": put(BACKENDS.cudnn.conv, "ieee"),
}
"""What users may have set, in the former way or in the newer one, which the former cannot tell."""


@pytest.fixture(params=SET)
def setting(request: pytest.FixtureRequest) -> Iterator[str]:
    before = [kind.fp32_precision for kind in KINDS]
    SET[request.param]()
    yield request.param
    torch.set_float32_matmul_precision("highest")
    for kind, value in zip(KINDS, before, strict=True):
        kind.fp32_precision = value


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_is_full_inside_and_as_before_outside(setting: str, device: str) -> None:
    before = [kind.fp32_precision for kind in KINDS]
    with full_precision(device):
        inside = dict(zip(("cards", "convolutions", "recurrent", "processors"), KINDS, strict=True))
        relevant = ["processors"] if device == "cpu" else ["cards", "convolutions", "recurrent"]
        assert {inside[one].fp32_precision for one in relevant} <= {"ieee", "none"}
    assert [kind.fp32_precision for kind in KINDS] == before


def test_what_lowers_products_has_another_name(setting: str) -> None:
    assert (product_precision() == "highest") == (setting in ("nothing", "convolutions of cards"))


def test_every_setting_trains(setting: str, tmp_path: Path) -> None:
    made = tiny_training(tmp_path / "here", engine="bookkeeping")
    made.run()
    assert all(bool(torch.isfinite(one).all()) for one in made.model.parameters())
