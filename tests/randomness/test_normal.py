"""The law of the normals.

The battery makes 18 tests on 10^7 values. Each is held at 5e-7 / 18, so the total false-alarm rate is below
5e-7 by the union bound; the tests that rest on the central limit (moments, correlations) are exact enough
there for the stated total of 1e-6. The seed is fixed, so a green battery stays green.
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from discreet.core.errors import InputError
from discreet.randomness import ASSUMPTION, Purpose, Substream, TestStream, blocks, normal, normals
from discreet.randomness.blocks import BLOCK

Sample = npt.NDArray[np.float64]

COUNT = 10**7
TESTS = 18
LEVEL = 5e-7 / TESTS
TAILS = (1.0, 2.0, 3.0, 4.0, 4.5)


def substream(seed: int = 1) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return normals(substream(), COUNT)


def battery(values: Sample) -> set[str]:
    """Return the names of the tests that `values` fail as independent standard normals."""
    p_values = moments(values) | tails(values) | correlations(values) | {"kolmogorov-smirnov": ks(special.ndtr(values))}
    assert len(p_values) == TESTS
    return {name for name, p in p_values.items() if not p >= LEVEL}


def moments(values: Sample) -> dict[str, float]:
    square = values * values
    n = len(values)
    raw = {1: values.mean(), 2: square.mean(), 3: (square * values).mean(), 4: (square * square).mean()}
    expected = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}  # mean and variance of x^k
    return {
        f"moment {k}": two_sided((raw[k] - mean) / math.sqrt(variance / n)) for k, (mean, variance) in expected.items()
    }


def tails(values: Sample) -> dict[str, float]:
    n = len(values)
    result = {}
    for t in TAILS:
        for side, hits in (("upper", np.count_nonzero(values > t)), ("lower", np.count_nonzero(values < -t))):
            p = special.ndtr(-t)
            tail = min(special.bdtr(hits, n, p), special.bdtrc(hits - 1, n, p) if hits else 1.0)
            result[f"{side} tail {t}"] = 2 * tail
    return result


def correlations(values: Sample) -> dict[str, float]:
    """Within a Box-Muller pair, and between neighbouring pairs; of squares too, since a pair shares its radius."""
    cosines, sines = values[0::2], values[1::2]
    root = math.sqrt(len(cosines))
    pairs = (cosines**2 - 1) @ (sines**2 - 1)
    return {
        "within pairs": two_sided(cosines @ sines / root),
        "squares within pairs": two_sided(pairs / (2 * root)),
        "between pairs": two_sided(sines[:-1] @ cosines[1:] / root),
    }


def exponentials(words: npt.NDArray[np.uint64]) -> Sample:
    out = np.empty(len(words))
    normal._exponentials(words, out=out, spare=np.empty(len(words)))
    return out


def directions(words: npt.NDArray[np.uint64]) -> tuple[Sample, Sample]:
    cosine, sine = np.empty((2, len(words)))
    normal._directions(words, cosine=cosine, sine=sine)
    return cosine, sine


def two_sided(z: float) -> float:
    return 2 * special.ndtr(-abs(z))


def ks(uniforms: Sample) -> float:
    """Return a bound on the p-value, valid for every n (Massart 1990)."""
    n = len(uniforms)
    ordered = np.sort(uniforms)
    ranks = np.arange(n + 1) / n
    distance = max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1]))
    return min(1.0, 2 * math.exp(-2 * n * distance**2))


def test_ten_million_normals_pass(sample: Sample) -> None:
    assert battery(sample) == set()


def test_two_percent_less_spread_fails(sample: Sample) -> None:
    assert {"moment 2", "moment 4", "kolmogorov-smirnov", "upper tail 3.0"} <= battery(0.98 * sample)


def test_cut_tails_fail(sample: Sample) -> None:
    assert {"upper tail 4.5", "lower tail 4.5"} <= battery(np.clip(sample, -4.4, 4.4))


def test_reused_words_fail() -> None:
    half = normals(substream(), 10**5)
    assert "within pairs" in battery(np.repeat(half, 2))


def test_the_far_tail_has_the_law_of_the_tail() -> None:
    # Words below 2^44 leave u = (k + 1) / 2^64 below 2^-20, where -ln(u) - 20 ln 2 is exponential.
    rare = np.invert(substream(2).words(10**6) >> np.uint64(20))
    excess = exponentials(rare) - 20 * math.log(2)
    assert ks(-np.expm1(-excess)) > 1e-6


def test_the_tail_reaches_beyond_nine_sigma_and_ends_where_stated() -> None:
    largest = np.sqrt(2 * exponentials(np.array([2**64 - 1], np.uint64)))[0]
    assert largest == pytest.approx(math.sqrt(128 * math.log(2)), rel=1e-15)
    assert 9.4 < largest < 9.42
    assert 2 * special.ndtr(-largest) < 2.0**-67
    assert "9.42" in ASSUMPTION
    assert "2^-67" in ASSUMPTION


EDGES = [k + d for k in (2, 2**11, 2**53, 2**60, 2**62, 2**63, 2**64 - 2**53, 2**64 - 2) for d in (-2, -1, 0, 1)]


@pytest.fixture
def words() -> npt.NDArray[np.uint64]:
    scales = np.arange(64, dtype=np.uint64)[:, None]
    spread = substream(3).words(64 * 200).reshape(64, 200) >> scales
    return np.concatenate([np.array(EDGES, np.uint64), spread.ravel(), np.invert(spread).ravel()])


def test_radii_are_accurate_from_zero_to_the_tail(words: npt.NDArray[np.uint64]) -> None:
    with np.errstate(all="raise"):  # no infinity, no log of 0
        values = np.sqrt(2.0 * exponentials(words))
    complement = [2**64 - int(w) for w in words]
    assert all(values[words == 0] == 0)
    for value, w, k in zip(values, words.tolist(), complement, strict=True):
        # The exact side of the logarithm, from integers: k / 2^64 is rounded once, relatively, as is w / 2^64.
        exact = math.sqrt(-2 * (math.log1p(-w / 2**64) if w < 2**63 else math.log(k / 2**64)))
        assert value == pytest.approx(exact, rel=2**-50, abs=0)


def test_directions_are_accurate_and_lie_on_the_circle(words: npt.NDArray[np.uint64]) -> None:
    with np.errstate(all="raise"):
        cosine, sine = directions(words)
    angles = [math.pi * (w if w < 2**63 else w - 2**64) / 2**63 for w in words.tolist()]
    assert np.abs(cosine - [math.cos(a) for a in angles]).max() < 2**-50
    assert np.abs(sine - [math.sin(a) for a in angles]).max() < 2**-50
    assert np.abs(cosine**2 + sine**2 - 1).max() < 2**-49


def test_values_are_pairs_of_radius_and_direction() -> None:
    words = substream().words(6).reshape(3, 2)
    radius, (cosine, sine) = np.sqrt(2 * exponentials(words[:, 0])), directions(words[:, 1])
    expected = np.stack([radius * cosine, radius * sine], axis=1).ravel()
    assert np.allclose(normals(substream(), 6), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 3])
def test_any_length_is_served_and_is_a_prefix(n: int) -> None:
    values = normals(substream(), n)
    assert values.shape == (n,)
    assert values.dtype == np.float64
    longer = normals(substream(), n + 5)
    assert np.allclose(values, longer[:n], rtol=1e-14, atol=1e-15)


def test_even_requests_divide_anywhere() -> None:
    stream = substream()
    parts = np.concatenate([normals(stream, 4), normals(stream, 6)])
    assert np.allclose(parts, normals(substream(), 10), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("n", [blocks.THREADS_FROM - 1, blocks.THREADS_FROM, 3 * BLOCK + 1, 5 * BLOCK])
def test_no_bit_depends_on_the_number_of_threads(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(blocks, "usable_cores", lambda cores=cores: cores)
        stream = substream(4)
        drawn.append(np.append(normals(stream, n).view(np.uint64), stream.words(3)))  # and the stream goes on alike
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])


def test_a_failure_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(normal.BoxMuller, "fill", fail)
    monkeypatch.setattr(blocks, "usable_cores", lambda: 2)
    with pytest.raises(MemoryError):
        normals(substream(), blocks.THREADS_FROM)


@pytest.mark.parametrize("bad", [-1, 1.0, float("nan"), True, None])
def test_lengths_are_checked(bad: object) -> None:
    with pytest.raises(InputError, match="n must be"):
        normals(substream(), bad)
