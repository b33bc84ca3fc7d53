"""The ziggurat's decisions against a scalar written from the description, and the law of what only spare words decide:
the wedges and the tail, of which few values of a sample are made.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import replace

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest
from bell import bell
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import special, stats

from discreet.randomness import ASSUMPTION, Purpose, Substream, TestStream, normals
from discreet.randomness import ziggurat as ziggurat_module
from discreet.randomness.normal import Ziggurat
from discreet.randomness.ziggurat import TAIL, Tables, compiled, tables

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LANES = 10**6
LEVEL = 1e-7  # 7 tests of laws below: false-alarm rate under 1e-6, and fixed seeds


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def substream(seed: int = 1) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


# The tables.


# The decisions.


class Scalar:
    """One value from the words of one place, as the module's description says it, in rational and 40-digit numbers."""

    def __init__(self, table: Tables) -> None:
        self._x = [mp.mpf(edge) for edge in table.edges]
        self._y = [mp.mpf(height) for height in table.heights]
        self.kinds: dict[str, int] = {}
        self.margin = mp.inf
        """How clear the least clear decision was. Below 2^-50, float64 may decide otherwise."""

    def value(self, word: int, spares: Iterator[tuple[int, int]]) -> mp.mpf:
        while True:
            layer, odd = word % 1024, 2 * (word // 2048) + 1
            odd -= 2**54 if odd >= 2**53 else 0
            point = self._x[layer] * odd / 2**53
            if self._below(abs(point), self._x[layer + 1]):
                return self._seen("inside", point)
            first, second = next(spares)
            if layer == 0:
                along, above = (-mp.log((mp.mpf(w) + 0.5) / 2**64) for w in (first, second))
                if self._below((along / self._x[1]) ** 2, 2 * above):
                    return self._seen("tail", mp.sign(point) * (self._x[1] + along / self._x[1]))
                self._seen("tail again", point)
                continue
            share = (mp.mpf(2 * ((first + 2**63) % 2**64 // 2**12) + 1)) / 2**53
            if self._below(self._y[layer] + share * (self._y[layer + 1] - self._y[layer]), bell(point)):
                return self._seen("wedge", point)
            self._seen("new proposal", point)
            word = second

    def _below(self, a: mp.mpf, b: mp.mpf) -> bool:
        self.margin = min(self.margin, abs(a - b) / b if b else mp.inf)
        return bool(a < b)

    def _seen(self, kind: str, value: mp.mpf) -> mp.mpf:
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return value


def key_stream(key: bytes, counters: list[int]) -> list[tuple[int, int]]:
    """Encrypt each counter, and read the result as two words."""
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = [cipher.update(counter.to_bytes(16, "big")) for counter in counters]
    return [(int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")) for block in blocks]


def test_values_are_those_of_the_description() -> None:
    key, n = bytes(range(32)), 20_000
    values = normals(Substream(key), n)
    scalar = Scalar(tables())
    words = [word for pair in key_stream(key, list(range(n // 2))) for word in pair]

    def spares(place: int) -> Iterator[tuple[int, int]]:
        counter = 2**127 + 2**64 * place
        while True:
            yield key_stream(key, [counter])[0]
            counter += 1

    for place, (word, value) in enumerate(zip(words, values, strict=True)):
        assert abs(scalar.value(word, spares(place)) - mp.mpf(value)) < 2.0**-47
    assert min(scalar.kinds[kind] for kind in ("wedge", "new proposal")) > 20


class Chosen:
    """Stands in for a sub-stream: gives words and spares of the test's choice."""

    def __init__(self, words: Integers, rounds: Integers) -> None:
        self._words, self._rounds, self._round, self._read = words, rounds, 0, 0

    def spares(self, count: int) -> "Chosen":
        assert count == len(self._words)
        return self

    def fill(self, out: npt.NDArray[np.uint64]) -> None:
        out[:] = self._words[self._read : self._read + len(out)].view(np.uint64)
        self._read += len(out)

    def next_round(self, places: Integers) -> npt.NDArray[np.uint64]:
        drawn = self._rounds[self._round % len(self._rounds), places].view(np.uint64)
        self._round += 1
        return drawn


def ziggurat(words: Integers, rounds: Integers) -> Floats:
    out = np.empty(len(words))
    Ziggurat(compiled(), len(words)).fill(Chosen(words, rounds), out)
    return out


def edge_words() -> Integers:
    """Words whose points lie beside the edge of the next layer, beside 0 and at the ends, in all kinds of layers."""
    x, words = tables().edges, []
    for layer in (0, 1, 2, 511, 512, 1021, 1022, 1023):
        inner = int(mp.mpf(x[layer + 1]) / mp.mpf(x[layer]) * 2**53)
        for position in (1, 2**52, inner - 40, inner, inner + 40, 2**53 - 1):
            for signed in (position | 1, -(position | 1)):
                if -(2**53) <= signed < 2**53:
                    words.append((signed << 10) + layer)
    return np.array(words, np.int64)


def test_words_at_the_edges_are_decided_as_described() -> None:
    words = np.repeat(edge_words(), 6)
    rounds = substream(2).words(12 * 2 * len(words)).view(np.int64).reshape(12, len(words), 2)
    rounds[0, ::6], rounds[0, 1::6] = [2**63 - 1, 5], [-(2**63), -1]  # heights at both ends of the layer
    rounds[0, 2::6], rounds[0, 3::6] = [0, -1], [-1, 0]  # both ends of the exponentials
    values, scalar, clear = ziggurat(words, rounds), Scalar(tables()), 0
    for place, (word, value) in enumerate(zip(words.tolist(), values, strict=True)):
        spares = ((int(a) % 2**64, int(b) % 2**64) for a, b in rounds[:, place].tolist())
        scalar.margin = mp.inf
        expected = scalar.value(word % 2**64, spares)
        clear += scalar.margin > 2.0**-50
        assert scalar.margin <= 2.0**-50 or abs(expected - mp.mpf(value)) < 2.0**-47
    assert clear > 0.8 * len(words)
    assert min(scalar.kinds[kind] for kind in ("inside", "wedge", "new proposal", "tail", "tail again")) > 10


def test_positions_are_symmetric_and_never_zero() -> None:
    words = substream(3).words(10**5).view(np.int64)
    rounds = substream(4).words(12 * 2 * 10**5).view(np.int64).reshape(12, 10**5, 2)
    mirrored = (~words & ~np.int64(1023)) | (words & 1023)  # the same layer, every other bit turned
    inside = np.abs(((words >> 10) | 1) * tables().units[words & 1023]) < tables().edges[1:][words & 1023]
    values, others = ziggurat(words, rounds), ziggurat(mirrored, rounds)
    even = (words >> 10) & 1 == 0  # the bit that is always set moves the others' mirror by one point
    units = tables().units[words & 1023]
    assert np.count_nonzero(inside) > 99_000
    assert np.abs(values).min() > 0
    assert np.array_equal(values[inside & even].shape, others[inside & even].shape)
    assert (np.abs(values + others)[inside] <= 2 * units[inside]).all()


# The laws of what is rare.


def lanes_in(layer: int, seed: int) -> tuple[Integers, Integers]:
    """Words of one layer whose points are beyond the edge of the next, and one round of spares for each."""
    stream, edge = substream(seed), tables().edges[layer + 1] / tables().edges[layer]
    uniform = stream.words(LANES)
    sizes = edge + (1 - edge) * ((uniform >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    positions = (sizes * 2.0**53).astype(np.int64) | 1
    positions = np.where(uniform & np.uint64(1), positions, -positions)
    keep = (np.abs(positions) * tables().units[layer] >= tables().edges[layer + 1]) & (np.abs(positions) < 2**53)
    words = ((positions << 10) + layer)[keep]
    return words, stream.words(2 * len(words)).view(np.int64).reshape(len(words), 2)


def first_round(layer: int, seed: int, table: Tables) -> tuple[Floats, Floats]:
    """Return the proposed points of the lanes, and of those the ones that one round lets stand, as values."""
    words, drawn = lanes_in(layer, seed)
    values = np.full(len(words), np.nan)
    points = ((words >> 10) | 1) * tables().units[layer]
    compiled().settle(np.arange(len(words)), words.copy(), drawn, values, table.units, table.edges, table.heights)
    stands = ~np.isnan(values) if layer == 0 else values == points
    return points, values[stands]


def wedge_p_value(layer: int, seed: int, table: Tables) -> float:
    """Chi-square of where the accepted points of a wedge lie, and of how many there are (the last cell: rejected)."""
    points, accepted = first_round(layer, seed, table)
    low, high = tables().edges[layer + 1], tables().edges[layer]
    bounds = np.linspace(low, high, 21)
    area = np.diff([float(mp.quad(bell, [low, b])) if b > low else 0.0 for b in bounds])
    y_low, y_high = tables().heights[layer], tables().heights[layer + 1]
    shares = (area / np.diff(bounds) - y_low) / (y_high - y_low)
    expected = len(points) * np.append(shares, 20 - shares.sum()) / 20
    observed, _ = np.histogram(np.abs(accepted), bounds)
    observed = np.append(observed, len(points) - observed.sum())
    assert expected.min() > 100
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("layer", [1, 2, 300, 1000, 1023])
def test_wedges_have_the_law_of_a_normal(layer: int) -> None:
    assert wedge_p_value(layer, layer, tables()) > LEVEL


def test_a_wedge_with_a_wrong_height_fails() -> None:
    heights = tables().heights.copy()
    heights[301] += 0.02 * (heights[301] - heights[300])
    assert wedge_p_value(300, 300, replace(tables(), heights=heights)) < 1e-12


def tail_p_values(values: Floats) -> dict[str, float]:
    sizes = np.abs(values)
    p_values = {"kolmogorov-smirnov": stats.kstest(stats.norm.sf(sizes) / stats.norm.sf(TAIL), "uniform").pvalue}
    for t in (5.0, 6.0):
        share, hits = stats.norm.sf(t) / stats.norm.sf(TAIL), int(np.count_nonzero(sizes > t))
        p_values[f"beyond {t}"] = float(stats.binomtest(hits, len(sizes), share).pvalue)
    p_values["signs"] = float(stats.binomtest(int(np.count_nonzero(values > 0)), len(values)).pvalue)
    return p_values


def test_the_tail_has_the_law_of_a_normal_beyond_r() -> None:
    words, drawn = lanes_in(0, 7)
    rounds = np.stack([drawn, *substream(8).words(20 * len(words)).view(np.int64).reshape(10, len(words), 2)])
    values = ziggurat(words, rounds)
    assert np.abs(values).min() > TAIL
    assert np.array_equal(values > 0, words > 0)
    assert np.count_nonzero(np.abs(values) > 5) > 5000
    assert min(tail_p_values(values).values()) > LEVEL / 4


def test_a_tail_without_rejection_fails() -> None:
    along = -np.log1p(-stats.uniform.rvs(size=LANES, random_state=1)) / TAIL  # Marsaglia's proposal alone
    found = tail_p_values(TAIL + along)
    assert max(found["kolmogorov-smirnov"], found["beyond 5.0"], found["signs"]) < 1e-12


def test_the_tail_ends_where_stated() -> None:
    word = np.array([(2**53 - 1) << 10], np.int64)
    end = float(mp.sqrt(2 * 65 * mp.log(2)))  # E' is at most 65 ln 2, from the word 0
    near = math.floor(2**64 * math.exp(-TAIL * end)) + 2
    assert ziggurat(word, np.array([[[near, 0]]]))[0] == pytest.approx(TAIL + end, abs=1e-2)
    assert ziggurat(np.repeat(word, 2), np.array([[[0, 0], [1, 1]], [[-1, 0], [-1, 1]]]))[0] < TAIL + 1e-9
    assert TAIL + end < 13.54
    assert 2 * special.ndtr(-(TAIL + end)) < 2.0**-128
    assert {"13.54", "2^-128", "4.03"} <= set(ASSUMPTION.replace(",", "").replace(".\n", "").rstrip(".").split())


# Compiled code.


def test_machine_code_does_what_the_source_does() -> None:
    words = np.concatenate([substream(9).words(20_000).view(np.int64), edge_words()])
    table, n = tables(), len(words)
    results = []
    for functions in (compiled(), ziggurat_module):
        values = np.empty(n)
        places, left = np.empty((2, n), np.int64)
        count = functions.propose(words, values, table.units, table.edges, places, left)
        drawn = substream(10).words(2 * count).view(np.int64).reshape(count, 2)
        again = functions.settle(places[:count], left[:count], drawn, values, table.units, table.edges, table.heights)
        units = values.copy()
        functions.round_to_grid(units, 2.0**50)
        found = places[:again].tolist(), left[:again].tolist(), units.view(np.int64).tolist()
        results.append((count, again, *found, values))
    assert results[0][:4] == results[1][:4]
    assert np.allclose(results[0][5], results[1][5], rtol=2.0**-51, atol=0)
    assert np.abs(np.subtract(results[0][4], results[1][4])).max() <= 8  # the last bits of a logarithm


def test_words_and_values_may_share_memory() -> None:
    words, table = substream(11).words(5000).view(np.int64), tables()
    apart, places, left = np.empty(5000), *np.empty((2, 5000), np.int64)
    count = compiled().propose(words, apart, table.units, table.edges, places, left)
    shared = words.copy()
    others, more = np.empty((2, 5000), np.int64)
    assert compiled().propose(shared, shared.view(np.float64), table.units, table.edges, others, more) == count
    assert np.array_equal(shared.view(np.float64), apart)
    assert np.array_equal(left[:count], more[:count])
    assert np.array_equal(words[places[:count]], left[:count])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_may_draw_from_a_stream_of_its_own() -> None:
    expected = normals(substream(12), 1000)  # compiled and used before the fork
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, normals(substream(12), 1000).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        drawn = np.frombuffer(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(drawn, expected)
