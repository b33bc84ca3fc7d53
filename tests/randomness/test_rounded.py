"""The law of both samplers of grid noise, against the closed form.

One sampler meets 4 chi-square tests at small scales and 18 tests at a large one; each is held at LEVEL, so the
false-alarm rate of the two samplers together is below 1e-6 by the union bound, up to the chi-square and normal
approximations (every cell expects more than 100 values). Seeds are fixed, so a green battery stays green.
"""

import math
from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from scipy import special, stats

from discreet.core.errors import InputError
from discreet.randomness import ASSUMPTION, NOISE_SAMPLERS, Purpose, Substream, TestStream, blocks, normals
from discreet.randomness.blocks import BLOCK
from discreet.randomness.exact import Integers

TESTS = 22
LEVEL = 1e-6 / (2 * TESTS)
SMALL_SCALES = (1, 2, 3, 7)
LARGE = 2**30
COUNT = 10**6
FEWER = 300_000  # enough for the planted faults
TAILS = (1.0, 2.0, 3.0, 3.5)

every_sampler = pytest.mark.parametrize("name", NOISE_SAMPLERS)


def substream(seed: int = 1) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


def draw(name: str, scale: int, seed: int = 1, n: int = COUNT) -> Integers:
    return NOISE_SAMPLERS[name].draw(substream(seed), n, scale)


def cells(values: Integers, scale: int) -> tuple[Integers, npt.NDArray[np.float64]]:
    """Return observed and expected counts of the values -3 scale .. 3 scale, the ends with their tails."""
    edge = 3 * scale
    counts = np.bincount(np.clip(values, -edge, edge) + edge, minlength=2 * edge + 1)
    upper = special.ndtr((np.arange(edge + 1) - 0.5) / -scale)  # P(K >= 0), P(K >= 1), ...: accurate in the tail
    tail = upper - np.append(upper[1:], 0)
    tail[0] = 1 - 2 * upper[1]
    return counts, len(values) * np.concatenate([tail[:0:-1], tail])


def chi_square(observed: Integers, expected: npt.NDArray[np.float64]) -> float:
    assert expected.min() > 100
    return float(special.chdtrc(len(expected) - 1, np.sum((observed - expected) ** 2 / expected)))


def small_p(values: Integers, scale: int) -> float:
    return chi_square(*cells(values, scale))


def large_battery(values: Integers, scale: int) -> set[str]:
    """Return the names of the tests that `values` fail."""
    n, z = len(values), values / scale
    ordered = np.sort(special.ndtr(z))
    distance = max(np.max(np.arange(1, n + 1) / n - ordered), np.max(ordered - np.arange(n) / n))
    p_values = {"kolmogorov-smirnov": min(1.0, 2 * math.exp(-2 * n * distance**2))}  # Massart 1990, valid for every n
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        p_values[f"moment {power}"] = two_sided((np.mean(z**power) - mean) / math.sqrt(variance / n))
    for t in TAILS:
        for side in (-1, 1):
            hits, p = np.count_nonzero(side * z > t), special.ndtr(-t)
            p_values[f"tail {side * t}"] = 2 * min(special.bdtr(hits, n, p), special.bdtrc(hits - 1, n, p))
    p_values["signs"] = two_sided(np.sum(np.sign(values)) / math.sqrt(n))
    p_values["neighbours"] = two_sided(z[1:] @ z[:-1] / math.sqrt(n))
    p_values["squares of neighbours"] = two_sided((z[1:] ** 2 - 1) @ (z[:-1] ** 2 - 1) / (2 * math.sqrt(n)))
    for shift in (0, 8):  # the last bits of a wide rounded normal are uniform, to within exp(-2 pi^2 scale^2 / 2^32)
        digits = np.bincount((values >> shift) & 255, minlength=256)
        p_values[f"bits from {shift}"] = chi_square(digits, np.full(256, n / 256))
    assert len(p_values) + len(SMALL_SCALES) == TESTS
    return {name for name, p in p_values.items() if not p >= LEVEL}


def two_sided(z: float) -> float:
    return float(2 * special.ndtr(-abs(z)))


@every_sampler
@pytest.mark.parametrize("scale", SMALL_SCALES)
def test_small_scales_have_the_closed_form(name: str, scale: int) -> None:
    assert small_p(draw(name, scale), scale) >= LEVEL


@every_sampler
def test_a_large_scale_passes(name: str) -> None:
    assert large_battery(draw(name, LARGE), LARGE) == set()


FINE = 2**20
FAULTS: dict[str, Callable[[Integers], Integers]] = {  # from a value on a grid that is FINE times finer
    "toward zero": lambda fine: np.sign(fine) * (np.abs(fine) // FINE),
    "downward": lambda fine: fine // FINE,
    "two percent wide": lambda fine: np.rint(1.02 * fine / FINE).astype(np.int64),
    "two percent narrow": lambda fine: np.rint(0.98 * fine / FINE).astype(np.int64),
    "nothing": lambda fine: np.rint(fine / FINE).astype(np.int64),
}


@every_sampler
@pytest.mark.parametrize("scale", SMALL_SCALES)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_fail_at_small_scales(fault: str, scale: int, name: str) -> None:
    faulty = FAULTS[fault](draw(name, scale * FINE, seed=2, n=FEWER))
    assert (small_p(faulty, scale) < LEVEL) == (fault != "nothing")


@every_sampler
def test_planted_faults_fail_at_a_large_scale(name: str) -> None:
    values = draw(name, LARGE, seed=3, n=FEWER)
    assert {"moment 2", "moment 4"} <= large_battery(values * 102 // 100, LARGE)
    assert {"moment 2", "moment 4"} <= large_battery(values * 98 // 100, LARGE)
    # How the last bit is rounded cannot be seen in a sample at this scale; test_exact.py checks it in integers.
    assert "bits from 0" in large_battery(values & -2, LARGE)
    assert "signs" in large_battery(np.abs(values), LARGE)
    assert "neighbours" in large_battery(np.repeat(values[: FEWER // 2], 2), LARGE)
    assert {"tail 3.5", "tail -3.5"} <= large_battery(np.clip(values, -3 * LARGE, 3 * LARGE), LARGE)


def test_the_samplers_agree_in_law() -> None:
    # Two tests, each held at 5e-7.
    pairs = [draw(name, 7, seed) for name, seed in (("fast", 4), ("exact", 5))]
    table = np.array([cells(values, 7)[0] for values in pairs])
    assert stats.chi2_contingency(table).pvalue > 5e-7
    pairs = [draw(name, LARGE, seed, 300_000) for name, seed in (("fast", 6), ("exact", 7))]
    assert stats.ks_2samp(*pairs, method="asymp").pvalue > 5e-7


@every_sampler
@pytest.mark.parametrize("scale", [1, 3, LARGE])
def test_the_law_is_symmetric(name: str, scale: int) -> None:
    values = draw(name, scale, seed=8)
    top = 3 * scale
    bins = np.minimum(np.abs(values) // max(scale // 4, 1), 12)
    above, below = (np.bincount(bins[side], minlength=13) for side in (values > 0, values < 0))
    total = above + below
    seen = total > 0
    statistic = np.sum((above - below)[seen] ** 2 / total[seen])
    assert special.chdtrc(np.count_nonzero(seen), statistic) > 1e-7
    assert np.count_nonzero(values >= top)
    assert np.count_nonzero(values <= -top)


@every_sampler
@pytest.mark.parametrize("n", [0, 1, 2, 7, blocks.BLOCK - 1, blocks.BLOCK, blocks.BLOCK + 1])
def test_any_length_is_served_and_one_address_gives_one_answer(name: str, n: int) -> None:
    first, second = draw(name, LARGE, n=n), draw(name, LARGE, n=n)
    assert first.shape == (n,)
    assert first.dtype == np.int64
    assert np.array_equal(first, second)
    assert n < 7 or not np.array_equal(first, draw(name, LARGE, seed=2, n=n))


@every_sampler
@pytest.mark.parametrize("n", [blocks.THREADS_FROM, 3 * blocks.BLOCK + 1])
def test_no_value_depends_on_the_number_of_threads(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(blocks, "usable_cores", lambda cores=cores: cores)
        stream = substream(9)
        values = NOISE_SAMPLERS[name].draw(stream, n, 2**50 - 1)
        drawn.append(values.tolist() + stream.words(3).tolist())  # and the stream goes on alike
    assert drawn[0] == drawn[1] == drawn[2]


@every_sampler
def test_blocks_and_successive_requests_are_independent(name: str) -> None:
    stream = substream(10)
    first, second = (NOISE_SAMPLERS[name].draw(stream, 2 * blocks.BLOCK, 2**40) for _ in range(2))
    parts = [*first.reshape(2, -1), *second.reshape(2, -1)]
    repeats = 4 * blocks.BLOCK - len(np.unique(np.concatenate(parts)))
    assert repeats < 10  # by chance, 2^18 values have 2^35 x 0.28 / 2^40 = 0.01 equal pairs
    correlations = np.corrcoef(parts)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() * math.sqrt(blocks.BLOCK) < 6


@every_sampler
def test_values_at_the_largest_scale_are_far_from_overflow(name: str) -> None:
    values = draw(name, 2**50, n=10**5)
    assert 4 < np.abs(values).max() / 2**50 < 6


@every_sampler
@pytest.mark.parametrize("bad", [0, -1, 2**50 + 1, 1.0, float("nan"), float("inf"), True, None, "7"])
def test_scales_are_checked_even_if_nothing_is_drawn(name: str, bad: object) -> None:
    for n in (0, 5):
        with pytest.raises(InputError, match="scale must be"):
            NOISE_SAMPLERS[name].draw(substream(), n, bad)


@every_sampler
@pytest.mark.parametrize("bad", [-1, 1.0, float("nan"), True, None])
def test_lengths_are_checked(name: str, bad: object) -> None:
    with pytest.raises(InputError, match="n must be"):
        NOISE_SAMPLERS[name].draw(substream(), bad, 7)


def test_fast_is_the_rounded_product_of_the_normals() -> None:
    for n, scale in ((5, 7), (blocks.BLOCK + 3, 2**30)):
        assert np.array_equal(draw("fast", scale, n=n), np.rint(scale * normals(substream(), n)).astype(np.int64))


def test_samplers_are_named_and_say_what_they_assume() -> None:
    assert {name: sampler.name for name, sampler in NOISE_SAMPLERS.items()} == {"fast": "fast", "exact": "exact"}
    assert ASSUMPTION in NOISE_SAMPLERS["fast"].assumption
    assert "uniform" in NOISE_SAMPLERS["exact"].assumption
    assert "ideal" not in NOISE_SAMPLERS["exact"].assumption
    with pytest.raises(TypeError):
        NOISE_SAMPLERS["fast"] = NOISE_SAMPLERS["exact"]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(NOISE_SAMPLERS)), st.integers(0, 3 * BLOCK), st.data())
def test_parts_of_a_release_have_the_noise_of_the_whole(name: str, n: int, data: st.DataObject) -> None:
    """Any cuts, bit for bit: each process draws its own share, and no two draw for the same number."""
    ends = sorted(data.draw(st.lists(st.integers(0, n), max_size=12)))
    parts = list(zip(ends[::2], ends[1::2], strict=False))
    sampler, scale = NOISE_SAMPLERS[name], 2**40
    whole = sampler.draw(TestStream(1).substream(Purpose.NOISE, 5), n, scale)
    drawn = sampler.draw_parts(TestStream(1).substream(Purpose.NOISE, 5), n, scale, parts)
    assert np.array_equal(drawn, np.concatenate([whole[:0], *(whole[start:stop] for start, stop in parts)]))


@pytest.mark.parametrize("parts", [[(-1, 3)], [(4, 3)], [(0, 11)], [(0, 4), (3, 6)], [(5, 6), (0, 4)]])
def test_parts_lie_within_the_release_and_do_not_overlap(parts: list[tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="lie within them, one after the other"):
        NOISE_SAMPLERS["fast"].draw_parts(TestStream(1).substream(Purpose.NOISE, 5), 10, 4, parts)
