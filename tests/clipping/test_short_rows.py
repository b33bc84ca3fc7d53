"""The squared norms of short rows, in machine code, against float64."""

from __future__ import annotations

import math

import pytest
import torch

from discreet.clipping.rules.numbers import _SHORT, LARGEST, squared_norms


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 20, _SHORT, _SHORT + 1])
def test_norms_are_those_of_double_precision(length: int) -> None:
    """Over the whole range of single precision, subnormal numbers included; longer than `LARGEST` is infinite.

    Rows up to `_SHORT` are measured in float64 throughout: n squares and n additions err by n roundings at most.
    """
    scales = torch.logspace(-44, 36, 400, dtype=torch.float64)
    rows = (
        torch.randn(400, length, generator=torch.Generator().manual_seed(length)).double() * scales[:, None]
    ).float()
    exact = rows.double().square().sum(1)
    expected = torch.where(exact > LARGEST**2, math.inf, exact)
    tolerance = (length + 1) * 2.0**-53 if length <= _SHORT else 1e-6
    assert torch.allclose(squared_norms(rows), expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("length", [1, 4, _SHORT])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.1 * LARGEST])
def test_a_row_that_is_not_finite_or_too_long_has_no_finite_norm(length: int, bad: float) -> None:
    for place in range(length):
        rows = torch.ones(3, length)
        rows[1, place] = bad
        found = squared_norms(rows)
        assert not math.isfinite(found[1])
        assert torch.equal(found[[0, 2]], torch.full((2,), float(length), dtype=torch.float64))


def test_a_norm_does_not_depend_on_other_rows() -> None:
    rows = torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    assert torch.equal(squared_norms(rows)[7:9], squared_norms(rows[7:9]))
