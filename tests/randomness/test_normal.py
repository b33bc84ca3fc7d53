"""The law of the normals, and what a request may look like.

The battery makes 30 tests. Each is held at 5e-7 / 30, so the total false-alarm rate is below 5e-7 by the union
bound. Tests that rest on the central limit have other rates at 10^7 values; the eighth power differs most, by a factor
of about 4 (its third and fourth cumulants), for which a total of 1e-6 has room. The seed is fixed, so a green battery
stays green. What lies beyond 5 is too rare here and is tested in test_ziggurat.py.
"""

import math
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from discreet.core.errors import InputError
from discreet.randomness import Purpose, Substream, TestStream, blocks, normal, normals, ziggurat
from discreet.randomness.blocks import BLOCK

Sample = npt.NDArray[np.float64]

COUNT = 10**7
FEWER = 2 * 10**6  # enough for the planted faults
TESTS = 30
LEVEL = 5e-7 / TESTS
TAILS = (1.0, 2.0, 3.0, 3.65, ziggurat.TAIL, 4.5, 5.0)
CELLS = 1000


def substream(seed: int = 1) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return normals(substream(), COUNT)


def battery(values: Sample) -> set[str]:
    """Return the names of the tests that `values` fail as independent standard normals."""
    p_values = moments(values) | tails(values) | correlations(values) | {"chi-square": chi_square(values)}
    p_values["kolmogorov-smirnov"] = ks(special.ndtr(values))
    p_values["signs"] = two_sided(np.sum(np.sign(values)) / math.sqrt(len(values)))
    assert len(p_values) == TESTS
    return {name for name, p in p_values.items() if not p >= LEVEL}


def moments(values: Sample) -> dict[str, float]:
    power, result = np.ones_like(values), {}
    for k in range(1, 9):
        power *= values
        mean, square = (float(stats.norm.moment(order)) for order in (k, 2 * k))
        result[f"moment {k}"] = two_sided((power.mean() - mean) / math.sqrt((square - mean**2) / len(values)))
    return result


def tails(values: Sample) -> dict[str, float]:
    n = len(values)
    result = {}
    for t in TAILS:
        for side, hits in (("upper", np.count_nonzero(values > t)), ("lower", np.count_nonzero(values < -t))):
            p = stats.norm.sf(t)
            tail = min(special.bdtr(hits, n, p), special.bdtrc(hits - 1, n, p) if hits else 1.0)
            result[f"{side} tail {t:.4g}"] = 2 * tail
    return result


def correlations(values: Sample) -> dict[str, float]:
    """Between neighbours and at two places apart, of the values, their squares and, at one place, their sizes."""
    result = {}
    for apart in (1, 2):
        left, right = values[:-apart], values[apart:]
        root = math.sqrt(len(left))
        result[f"values {apart} apart"] = two_sided(left @ right / root)
        result[f"squares {apart} apart"] = two_sided((left**2 - 1) @ (right**2 - 1) / (2 * root))
    sizes = np.abs(values) - math.sqrt(2 / math.pi)
    result["sizes"] = two_sided(sizes[:-1] @ sizes[1:] / ((1 - 2 / math.pi) * math.sqrt(len(values) - 1)))
    return result


def chi_square(values: Sample) -> float:
    """Equally likely cells, with bounds from scipy.stats."""
    bounds = stats.norm.ppf(np.arange(1, CELLS) / CELLS)
    counts = np.bincount(np.searchsorted(bounds, values), minlength=CELLS)
    expected = len(values) / CELLS
    return float(special.chdtrc(CELLS - 1, np.sum((counts - expected) ** 2) / expected))


def two_sided(z: float) -> float:
    return float(2 * special.ndtr(-abs(z)))


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
    narrow = battery(0.98 * sample[:FEWER])
    assert {"moment 2", "moment 4", "moment 6", "moment 8", "kolmogorov-smirnov", "upper tail 3"} <= narrow


def test_cut_tails_fail(sample: Sample) -> None:
    assert {"upper tail 3.65", "lower tail 3.65"} <= battery(np.clip(sample[:FEWER], -3.6, 3.6))


def test_reused_words_fail() -> None:
    half = normals(substream(), 10**5)
    assert {"values 1 apart", "squares 1 apart"} <= battery(np.repeat(half, 2))


def narrow_base(table: ziggurat.Tables) -> ziggurat.Tables:
    """Layer 0 has the width r, so that nothing is left for the tail."""
    units = np.append(table.edges[1] * 2.0**-53, table.units[1:])
    return ziggurat.Tables(units, table.edges, table.heights)


def widths_of_the_next_layer(table: ziggurat.Tables) -> ziggurat.Tables:
    """An index that is one off: each layer has the width of the layer above it."""
    return ziggurat.Tables(np.append(table.units[1:], table.units[-1:]), table.edges, table.heights)


FAULTS: dict[Callable[[ziggurat.Tables], ziggurat.Tables], set[str]] = {
    narrow_base: {"upper tail 4.039", "lower tail 4.039"},
    widths_of_the_next_layer: {"upper tail 4.039", "lower tail 4.039"},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_faulty_table_fails(
    fault: Callable[[ziggurat.Tables], ziggurat.Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = fault(ziggurat.tables())
    monkeypatch.setattr(normal, "tables", lambda: faulty)
    assert FAULTS[fault] <= battery(normals(substream(), FEWER))


@pytest.mark.parametrize("n", [0, 1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 3])
def test_any_length_is_served_and_is_a_prefix(n: int) -> None:
    values = normals(substream(), n)
    assert values.shape == (n,)
    assert values.dtype == np.float64
    assert np.array_equal(values, normals(substream(), n + 5)[:n])


@pytest.mark.parametrize("counts", [(4, 6), (3, 1, 0, 6), (BLOCK + 1, 2 * BLOCK + 7, 5), (1, 3 * BLOCK)])
def test_requests_divide_anywhere(counts: tuple[int, ...]) -> None:
    stream, whole = substream(), substream()
    parts = np.concatenate([normals(stream, count) for count in counts])
    assert np.array_equal(parts, normals(whole, sum(counts)))
    assert np.array_equal(stream.words(3), whole.words(3))


@pytest.mark.parametrize("size", [1, 1000, BLOCK // 2 + 1, 2 * BLOCK])
def test_no_bit_depends_on_the_size_of_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 3000 if size == 1 else 3 * BLOCK
    expected = normals(substream(5), n)
    monkeypatch.setattr(blocks, "BLOCK", size)
    assert np.array_equal(normals(substream(5), n), expected)


@pytest.mark.parametrize("n", [blocks.THREADS_FROM - 1, blocks.THREADS_FROM, 3 * BLOCK + 1, 5 * BLOCK])
def test_no_bit_depends_on_the_number_of_threads(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(blocks, "usable_cores", lambda cores=cores: cores)
        stream = substream(4)
        drawn.append(np.append(normals(stream, n).view(np.uint64), stream.words(3)))  # and the stream goes on alike
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize("failing", ["first", "second", "both"])
def test_a_failure_in_a_thread_is_raised(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, real, met = threading.get_ident(), normal.Ziggurat.fill, threading.Barrier(2, timeout=20)

    def fill(self: normal.Ziggurat, part: Substream, out: Sample) -> None:
        here = "first" if threading.get_ident() == caller else "second"
        met.wait()  # so that each thread has a block
        if failing in (here, "both"):
            raise MemoryError(here)
        real(self, part, out)

    monkeypatch.setattr(normal.Ziggurat, "fill", fill)
    monkeypatch.setattr(blocks, "usable_cores", lambda: 2)
    with pytest.raises(MemoryError):
        normals(substream(), 2 * BLOCK)


@pytest.mark.parametrize("bad", [-1, 1.0, float("nan"), True, None])
def test_lengths_are_checked(bad: object) -> None:
    with pytest.raises(InputError, match="n must be"):
        normals(substream(), bad)
