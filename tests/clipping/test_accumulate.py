"""The accumulator writes to memory of its own only: what engines and autograd gave may be several sums in one place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Clip
from discreet.core.errors import PrivacyViolation

CLIP = Clip(1.0, 2.0**-30)
NAMES = ("a", "b", "c")


def accumulated(chunks: list[dict[str, Tensor]], engine: str) -> tuple[Accumulator, dict[str, np.ndarray]]:
    accumulator = Accumulator({name: nn.Parameter(torch.zeros(4)) for name in NAMES})
    for chunk in chunks:
        accumulator.add(chunk)
    return accumulator, dict(accumulator.total(ENGINES[engine], CLIP, 1).tensors)


def one_place(value: float, dtype: torch.dtype) -> tuple[Tensor, dict[str, Tensor]]:
    """Two sums that are one tensor, as autograd returns them for x * (a + b), and one that is expanded."""
    held = torch.full((4,), value, dtype=dtype)
    return held, {"a": held, "b": held, "c": held[:1].expand(4)}


@pytest.mark.parametrize("engine", ["ghost", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_sums_in_one_place_are_added_up_apart_and_left_as_they_are(
    chunks: int, dtype: torch.dtype, engine: str
) -> None:
    given = [one_place(value, dtype) for value in (0.1, 0.2, 0.4)[:chunks]]
    before = [held.clone() for held, _ in given]
    _, total = accumulated([sums for _, sums in given], engine)
    wanted = sum(held.double() for held in before).numpy()
    for name in NAMES:
        np.testing.assert_allclose(total[name], wanted, rtol=0, atol=CLIP.grid)
    for part in total.values():
        if part.dtype == np.float64:
            part += 1.0  # the mechanism may write to them
    assert all(torch.equal(held, kept) for (held, _), kept in zip(given, before, strict=True))


def test_a_planted_accumulator_that_writes_to_what_it_was_given_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Accumulator.__init__

    def owning(self: Accumulator, *args: object) -> None:
        real(self, *args)  # type: ignore[arg-type]
        self._own = set(NAMES)

    monkeypatch.setattr(Accumulator, "__init__", owning)
    for chunks in (1, 3):
        with pytest.raises((AssertionError, ValueError)):
            test_sums_in_one_place_are_added_up_apart_and_left_as_they_are(chunks, torch.float64, "ghost")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_single_number_is_added_up_too(dtype: torch.dtype) -> None:
    """Numpy makes sums of arrays without axes into numbers, to which nothing can be added in place."""
    accumulator = Accumulator({"a": nn.Parameter(torch.zeros(()))})
    for value in (1.0, 2.0, 4.0):
        accumulator.add({"a": torch.tensor(value, dtype=dtype)})
    total = accumulator.total(ENGINES["ghost"], CLIP, 1).tensors["a"]
    assert total.shape == ()
    assert total == 7


def test_single_precision_is_released_as_it_is() -> None:
    held = torch.rand(4)
    accumulator = Accumulator({"a": nn.Parameter(torch.zeros(4))})
    accumulator.add({"a": held})
    assert np.shares_memory(accumulator._settled("a", (4,)), held.numpy())


@pytest.mark.parametrize("bit", [True, False])
def test_a_clip_with_a_bit_and_a_sum_without_one_are_not_taken_together(bit: bool) -> None:
    clip = Clip(1.0, 2.0**-30, bit=0.0 if bit else 0.5)
    with pytest.raises(PrivacyViolation, match="a bit and the sum has none, or the other way round"):
        Accumulator({"a": nn.Parameter(torch.zeros(4))}, bit=bit).total(ENGINES["exact"], clip, 1)


def test_nothing_is_added_to_a_sum_that_was_handed_over() -> None:
    _, sums = one_place(0.1, torch.float32)
    accumulator, _ = accumulated([sums], "ghost")
    with pytest.raises(PrivacyViolation, match="after it was handed over"):
        accumulator.add(sums)
    with pytest.raises(PrivacyViolation, match="asked for twice"):
        accumulator.total(ENGINES["ghost"], CLIP, 1)
