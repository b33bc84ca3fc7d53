"""Products of engines are in full precision, however torch is set; and it is set as before afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import tiny_training

from discreet.clipping.precision import full_precision

BACKENDS: Any = torch.backends
CARDS = (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn)
PROCESSORS = (BACKENDS.mkldnn.matmul, BACKENDS.mkldnn.conv, BACKENDS.mkldnn.rnn)
KINDS = CARDS + PROCESSORS


def put(kind: Any, value: str) -> Callable[[], None]:
    return lambda: setattr(kind, "fp32_precision", value)


SET: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "all products": lambda: torch.set_float32_matmul_precision("medium"),
    "products of cards": put(BACKENDS.cuda.matmul, "tf32"),
    "products of processors": put(BACKENDS.mkldnn.matmul, "bf16"),
    "convolutions of cards": put(BACKENDS.cudnn.conv, "ieee"),
    "convolutions of processors": put(BACKENDS.mkldnn.conv, "bf16"),
    "recurrent layers of processors": put(BACKENDS.mkldnn.rnn, "bf16"),
    "all of processors": put(BACKENDS.mkldnn, "bf16"),
    "everything": put(BACKENDS, "tf32"),
}
"""What users may have set, in the former way or in the newer one, which the former cannot tell."""


@pytest.fixture(autouse=True)
def as_torch_begins() -> Iterator[None]:
    """The settings with which torch begins, before a test and after it."""
    begin()
    yield
    begin()


def begin() -> None:
    BACKENDS.fp32_precision = BACKENDS.mkldnn.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    for kind in KINDS:
        kind.fp32_precision = "tf32" if kind in CARDS[1:] else "none"
    assert BACKENDS.cudnn.allow_tf32


@pytest.fixture(params=SET)
def setting(request: pytest.FixtureRequest) -> str:
    SET[request.param]()
    name: str = request.param
    return name


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_it_is_full_inside_and_as_before_outside(setting: str, device: str) -> None:
    before = [kind.fp32_precision for kind in KINDS]
    with full_precision(device):
        kinds = PROCESSORS if device == "cpu" else CARDS
        assert {kind.fp32_precision for kind in kinds} <= {"ieee", "none"}
    assert [kind.fp32_precision for kind in KINDS] == before


@pytest.mark.parametrize("above", [BACKENDS, BACKENDS.mkldnn])
def test_what_follows_a_setting_above_does_so_afterwards(above: Any) -> None:
    above.fp32_precision = "bf16"
    try:
        with full_precision("cpu"):
            assert {kind.fp32_precision for kind in PROCESSORS} == {"ieee"}
        assert {kind.fp32_precision for kind in PROCESSORS} == {"bf16"}
    finally:
        above.fp32_precision = "none"
    assert {kind.fp32_precision for kind in PROCESSORS} == {"none"}


def test_convolutions_of_cards_keep_their_precision_when_all_others_are_set_back() -> None:
    BACKENDS.fp32_precision = "tf32"
    with full_precision("cuda"):
        assert {kind.fp32_precision for kind in CARDS} == {"ieee"}
    BACKENDS.fp32_precision = "none"
    assert [kind.fp32_precision for kind in CARDS] == ["none", "tf32", "tf32"]


def test_every_setting_trains(setting: str, tmp_path: Path) -> None:
    made = tiny_training(tmp_path / "here", engine="bookkeeping")
    made.run()
    assert all(bool(torch.isfinite(one).all()) for one in made.model.parameters())
