"""Products of half precision on devices with units for them, where the processor stands in for such a device."""

import half_rules
import pytest
import torch
from half_rules import SIZES, check_half_rule, half_rule
from torch import nn

from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.products import half

KINDS = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def _multiplied_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "MULTIPLYING_HALF", frozenset({"cpu"}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", SIZES)
def test_norms_and_sums_have_the_digits_of_single_precision(way: str, kind: torch.dtype) -> None:
    assert {half_rule(way, "cpu", kind)[0].activation.dtype} == {kind}
    check_half_rule(way, "cpu", kind)


@pytest.mark.parametrize("way", SIZES)
def test_products_that_are_rounded_again_are_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = half.products
    for module in ("linear", "products.gram"):
        monkeypatch.setattr(
            f"discreet.clipping.rules.{module}.products",
            lambda one, other: real(one, other).to(one.dtype).to(torch.promote_types(one.dtype, torch.float32)),
        )
    with pytest.raises(AssertionError):
        half_rules.check_half_rule(way, "cpu")


@pytest.mark.parametrize("axes", [(), (1,), (1, 1)])
def test_rows_with_one_position_are_kept_in_single_precision(axes: tuple[int, ...]) -> None:
    """Their norm is |a| |g|, which may be finite where the product is beyond the range of single precision."""
    a, g = torch.rand(3, *axes, 4), torch.rand(3, *axes, 5).bfloat16()
    assert [one.dtype for one in half.factors(a, g)] == [torch.float32] * 2


def test_a_row_whose_product_is_beyond_all_range_adds_its_share() -> None:
    a, g = torch.full((2, 1, 4), 1.0), torch.full((2, 1, 3), 1.0).bfloat16()
    a[1], g[1] = 3e19, 3e19
    rule = LinearRule(nn.Linear(4, 3), ("weight",), (a,), {}, (g,))
    total = rule.total("weight", rule.squares("weight").rsqrt())
    share = 12**-0.5
    torch.testing.assert_close(total, torch.full((3, 4), 2 * share), rtol=1e-2, atol=0)
