"""The clip factor, and that no clipped example is longer than the clip norm, in exact arithmetic."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from promises import exactly, squared_norm
from torch import Tensor

from discreet.clipping import Clip
from discreet.clipping import factor as home
from discreet.clipping.factor import clip_factor

C = 0.75
LIMIT = C * (1 - 17 * 2.0**-52)
"""For one term: so far below the clip norm that the rounding of the norm itself does no harm."""

Gradients = dict[str, Tensor]


def clipped(gradients: Gradients, norm: float) -> Gradients:
    return home.clipped(gradients, Clip(norm, 2.0**-30))


def clipped_sum(gradients: Gradients, norm: float) -> Gradients:
    return home.clipped_sum(gradients, Clip(norm, 2.0**-30))


def factor(norm: float, clip_norm: float = C, terms: int = 1) -> float:
    result = clip_factor(torch.tensor([norm], dtype=torch.float64), clip_norm, terms)
    assert result.dtype == torch.float64
    assert result.shape == (1,)
    return float(result)


def test_a_zero_gradient_keeps_factor_one() -> None:
    assert factor(0.0) == 1.0


def test_below_the_limit_nothing_changes() -> None:
    assert factor(math.nextafter(LIMIT, 0)) == 1.0


def test_exactly_at_the_limit_nothing_changes() -> None:
    assert factor(LIMIT) == 1.0


@pytest.mark.parametrize("norm", [math.nextafter(LIMIT, 1), math.nextafter(C, 0), C])
def test_between_the_limit_and_the_clip_norm_next_to_nothing_changes(norm: float) -> None:
    assert 1 - 1e-14 < factor(norm) < 1
    assert exactly(factor(norm)) * exactly(norm) <= exactly(LIMIT)


def test_the_limit_falls_with_the_number_of_terms() -> None:
    assert factor(C, terms=10**6) < factor(C, terms=1)
    assert factor(C, terms=10**9) > 1 - 1e-6


def test_above_the_clip_norm_the_factor_is_rounded_down() -> None:
    assert factor(3.0) < C / 3
    assert factor(3.0) == pytest.approx(C / 3, rel=1e-14)


def test_just_above_the_clip_norm_the_product_is_not_above_it() -> None:
    norm = math.nextafter(C, 1)
    assert factor(norm) * norm <= C


def test_an_infinite_norm_gives_zero() -> None:
    assert factor(math.inf) == 0.0


def test_a_nan_norm_gives_zero() -> None:
    assert factor(math.nan) == 0.0


def test_a_tiny_norm_keeps_factor_one() -> None:
    assert factor(5e-324) == 1.0


def test_a_huge_norm_is_still_brought_inside() -> None:
    assert 0 <= factor(1.7e308) * 1.7e308 <= C


@given(
    norm=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    clip_norm=st.floats(min_value=1e-100, max_value=1e100),
    terms=st.integers(1, 10**9),
)
@example(norm=1.7e308, clip_norm=0.01, terms=1)  # the factor is subnormal, so it has few digits
@example(norm=1.3e154, clip_norm=1e-100, terms=1)
def test_factor_times_norm_never_exceeds_the_clip_norm(norm: float, clip_norm: float, terms: int) -> None:
    """Not even if the norm was computed too small by as many roundings as it has terms."""
    assert 0 <= factor(norm, clip_norm, terms) <= 1
    largest = exactly(norm) * (1 + Fraction(terms, 2**52))
    assert exactly(factor(norm, clip_norm, terms)) * largest <= exactly(clip_norm)


def test_many_terms_whose_squares_all_round_down_stay_inside() -> None:
    """A norm of a hundred thousand terms, computed in float64, is a little off; what is clipped by it is not."""
    generator = torch.Generator().manual_seed(8)
    for scale in (1.0, 1e-3, 1e5):
        row = torch.randn(1, 100_000, generator=generator, dtype=torch.float64) * scale
        ratios = (value.as_integer_ratio() for value in clipped({"w": row}, C)["w"].flatten().tolist())
        steps = sum((numerator * (2**300 // denominator)) ** 2 for numerator, denominator in ratios)
        assert Fraction(steps, 2**600) <= exactly(C) ** 2


@pytest.mark.parametrize("clip_norm", [1e-8, 0.01, 1.0])
def test_norms_at_the_end_of_the_range_are_brought_inside(clip_norm: float) -> None:
    norms = torch.logspace(268, 308, 100_001, dtype=torch.float64)  # some factors are subnormal: few digits
    assert bool((clip_factor(norms, clip_norm) * norms <= clip_norm).all())


@pytest.mark.parametrize("gamma", [0.0, 1e-9, 0.01, 5.0])
@pytest.mark.parametrize("clip_norm", [1e-8, 0.75, 1.0, 1e100])
def test_the_factors_of_all_devices_are_the_same(clip_norm: float, gamma: float) -> None:
    """Machine code on the CPU, operators of torch elsewhere; bit by bit."""
    drawn = 3 * torch.rand(10_000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    edges = [0.0, -0.0, 5e-324, 1.7e308, math.inf, math.nan]
    norms = torch.cat([drawn, torch.logspace(-320, 308, 10_000, dtype=torch.float64), torch.tensor(edges).double()])
    limit = clip_norm * (1 - 17 * 2.0**-52)
    expected = home._factors_elsewhere(norms, limit, limit * (1 - 2.0**-51), gamma)
    assert torch.equal(clip_factor(norms, clip_norm, 1, gamma), expected)


def norm_of(sums: Gradients) -> float:
    return math.hypot(*(float(value) for tensor in sums.values() for value in tensor.flatten()))


def without(gradients: Gradients, row: int) -> Gradients:
    keep = [i for i in range(len(next(iter(gradients.values())))) if i != row]
    return {name: tensor[keep] for name, tensor in gradients.items()}


def adversarial() -> dict[str, Gradients]:
    generator = torch.Generator().manual_seed(3)

    def draw(scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Gradients:
        weight = torch.randn(6, 3, 4, generator=generator, dtype=torch.float64) * scale
        bias = torch.randn(6, 3, generator=generator, dtype=torch.float64) * scale
        return {"weight": weight.to(dtype), "bias": bias.to(dtype)}

    nan, inf, minus, mixed = draw(), draw(), draw(), draw()
    nan["weight"][2, 1, 1] = math.nan
    inf["bias"][4, 0] = math.inf
    minus["bias"][0, 2] = -math.inf
    mixed["weight"] *= torch.logspace(-30, 30, 6).view(-1, 1, 1)
    one_direction = {"weight": torch.ones(6, 3, 4) * 7, "bias": torch.ones(6, 3) * 7}
    return {
        "ordinary": draw(),
        "small": draw(1e-3),
        "NaN in one tensor": nan,
        "inf in one tensor": inf,
        "-inf in one tensor": minus,
        "all in one direction": one_direction,
        "squares overflow float32": draw(1e30),
        "the largest float32": {"weight": torch.full((6, 3, 4), 3.4e38), "bias": torch.full((6, 3), -3.4e38)},
        "squares overflow float64": draw(1e200, torch.float64),
        "sixty orders of magnitude": mixed,
        "half precision": draw(1e4, torch.float16),
        "a parameter that is one number": {"scale": torch.tensor([5.0, -9.0, math.nan, 0.0, 1e38, 0.1])},
    }


@pytest.mark.parametrize("case", adversarial())
@pytest.mark.parametrize("clip_norm", [1e-6, 0.5, 1e3])
def test_no_example_moves_the_sum_by_more_than_the_clip_norm(case: str, clip_norm: float) -> None:
    gradients = adversarial()[case]
    whole = clipped_sum(gradients, clip_norm)
    assert all(torch.isfinite(tensor).all() and tensor.dtype == torch.float64 for tensor in whole.values())
    for row in range(6):
        rest = clipped_sum(without(gradients, row), clip_norm)
        moved = norm_of({name: whole[name] - rest[name] for name in whole})
        assert moved <= clip_norm * (1 + 1e-12)
        alone = clipped({name: tensor[row : row + 1] for name, tensor in gradients.items()}, clip_norm)
        assert squared_norm(alone) <= exactly(clip_norm) ** 2


@pytest.mark.parametrize("case", adversarial())
def test_the_sum_is_the_sum_of_what_was_clipped(case: str) -> None:
    gradients = adversarial()[case]
    sums, rows = clipped_sum(gradients, 0.5), clipped(gradients, 0.5)
    for name, tensor in sums.items():
        assert tensor.shape == gradients[name].shape[1:]
        torch.testing.assert_close(tensor, rows[name].sum(0), rtol=1e-13, atol=1e-15)
    for row in range(6):
        alone = {name: tensor[row : row + 1] for name, tensor in gradients.items()}
        assert squared_norm(clipped_sum(alone, 0.5)) <= exactly(0.5) ** 2


@pytest.mark.parametrize("case", adversarial())
def test_an_example_is_clipped_alone_as_in_company(case: str) -> None:
    gradients = adversarial()[case]
    together = clipped(gradients, 0.5)
    assert {name: tensor.shape for name, tensor in together.items()} == {n: t.shape for n, t in gradients.items()}
    for row in range(6):
        alone = clipped({name: tensor[row : row + 1] for name, tensor in gradients.items()}, 0.5)
        for name, tensor in alone.items():
            torch.testing.assert_close(tensor[0], together[name][row], rtol=1e-14, atol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_unusable_example_contributes_nothing_in_any_tensor(value: float) -> None:
    gradients = {"weight": torch.ones(3, 2), "bias": torch.ones(3, 1)}
    gradients["weight"][1, 0] = value
    sums = clipped_sum(gradients, 1.0)
    rest = clipped_sum(without(gradients, 1), 1.0)
    assert all(torch.equal(sums[name], rest[name]) for name in sums)


def test_only_unusable_examples_give_zero() -> None:
    sums = clipped_sum({"weight": torch.full((3, 2), math.nan)}, 1.0)
    assert torch.equal(sums["weight"], torch.zeros(2, dtype=torch.float64))


def test_gradients_inside_the_clip_norm_are_summed_as_they_are() -> None:
    gradient = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)) / 100
    assert torch.allclose(clipped_sum({"w": gradient}, 1.0)["w"], gradient.double().sum(0), rtol=0, atol=1e-15)


def test_all_parameters_of_an_example_are_scaled_by_one_factor() -> None:
    sums = clipped_sum({"a": torch.tensor([[3.0]]), "b": torch.tensor([[4.0]])}, 1.0)
    assert float(sums["a"]) == pytest.approx(0.6, rel=1e-14)
    assert float(sums["b"]) == pytest.approx(0.8, rel=1e-14)
