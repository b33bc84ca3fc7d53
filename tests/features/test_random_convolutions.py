"""Random filters: the declared seed says which, and what they give."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.signal import correlate2d

from discreet import InputError
from discreet.features import RandomConvolutions
from discreet.features.random_convolutions import public_normals


def test_the_seed_says_which_numbers_are_drawn() -> None:
    digest = hashlib.shake_256(b"17").digest(24)
    words = [int.from_bytes(digest[i : i + 8], "little") >> 11 for i in (0, 8, 16)]
    wanted = stats.norm.ppf([(word + 0.5) / 2**53 for word in words])
    np.testing.assert_allclose(public_normals(17, 3).numpy(), wanted, rtol=1e-12)
    assert torch.equal(public_normals(17, 3), public_normals(17, 5)[:3])
    assert not torch.equal(public_normals(18, 3), public_normals(17, 3))


def test_the_numbers_are_normal() -> None:
    """Deterministic: the seed is fixed. A correct generator fails for one seed in 1,000."""
    assert stats.kstest(public_normals(0, 20_000).numpy(), "norm").pvalue > 1e-3
    assert stats.kstest(1.05 * public_normals(0, 20_000).numpy(), "norm").pvalue < 1e-3


def test_it_is_a_correlation_with_the_filters() -> None:
    layer = RandomConvolutions(2, filters=3, size=3, pool=4, seed=5).double()
    x = torch.rand(2, 2, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    filters, found = layer.get_buffer("filters"), layer(x)
    assert found.shape == (2, 6, 3, 2)
    for number in range(3):
        answer = sum(correlate2d(x[1, c].numpy(), filters[number, c].numpy(), mode="same") for c in range(2))
        for half, sign in ((0, 1), (3, -1)):
            kept = np.maximum(sign * answer, 0)
            wanted = [[kept[i : i + 4, j : j + 4].mean() for j in (0, 4)] for i in (0, 4, 8)]
            np.testing.assert_allclose(found[1, half + number].numpy(), wanted, rtol=0, atol=1e-12)


def test_filters_see_no_constant_and_are_of_one_size() -> None:
    filters = RandomConvolutions(3, filters=10, size=5).get_buffer("filters").flatten(1)
    assert float(filters.mean(1).abs().max()) < 1e-7
    torch.testing.assert_close(filters.norm(dim=1), torch.ones(10))


def test_the_filters_are_part_of_the_declared_state() -> None:
    layer = RandomConvolutions(1, filters=4)
    assert list(layer.state_dict()) == ["filters"]
    assert not list(layer.parameters())


@pytest.mark.parametrize(
    ("options", "words"),
    [({"filters": 0}, "filters"), ({"size": 4}, "size"), ({"pool": 0}, "pool"), ({"seed": 0.5}, "seed")],
)
def test_bad_options_are_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        RandomConvolutions(1, **options)
