"""The lanes do what the scalar sampler does on the same words, whether or not 64 bits decide."""

import numpy as np
import numpy.typing as npt
import pytest

from discreet.core.errors import RandomnessReuse
from discreet.randomness import Purpose, Substream, TestStream, exact_rounded_normals
from discreet.randomness import exact as module
from discreet.randomness.candidate import LazyUniform, candidate, rounded_product
from discreet.randomness.exact import LARGEST_SCALE, Tapes, candidates

Words = npt.NDArray[np.uint64]


def substream(seed: int = 1) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


class Coarse:
    """Words of which only the first bits are random, so that ties are common. Stands in for a sub-stream."""

    def __init__(self, bits: int) -> None:
        self._source, self._drop = substream(bits), np.uint64(64 - bits)

    def words(self, count: int) -> Words:
        return self._source.words(count) >> self._drop << self._drop


class Bounds:
    """Every other word is at or beside a bound of the cumulative sums, at an end of the range, or at one half."""

    def __init__(self) -> None:
        self._source = substream(9)
        bounds = [b + d for b in (1, 2**63, 2**64 - 2, *module.cumulative(64)[0][:9]) for d in (-1, 0, 1)]
        self._bounds = np.array([b for b in bounds if b < 2**64], np.uint64)

    def words(self, count: int) -> Words:
        uniform, choice = self._source.words(2 * count).reshape(2, count)
        return np.where(choice >> 63 == 0, uniform, self._bounds[choice % np.uint64(len(self._bounds))])


class Log:
    """Passes words through and keeps them."""

    def __init__(self, source: Substream | Coarse | Bounds) -> None:
        self._source = source
        self.words_read: list[int] = []

    def words(self, count: int) -> Words:
        words = self._source.words(count)
        self.words_read += words.tolist()
        return words


class Playback:
    """Gives back words from a log, and fails where it ends."""

    def __init__(self, words: list[int]) -> None:
        self.left = words

    def words(self, count: int) -> Words:
        words, self.left = self.left[:count], self.left[count:]
        assert len(words) == count
        return np.array(words, np.uint64)


SOURCES = {"uniform": substream, "coarse 2": lambda: Coarse(2), "coarse 8": lambda: Coarse(8), "bounds": Bounds}


@pytest.mark.parametrize("scale", [1, 7, 2**30 + 1, 2**33 - 1, LARGEST_SCALE])
@pytest.mark.parametrize("source", SOURCES)
def test_lanes_agree_with_the_scalar_sampler_on_the_same_words(source: str, scale: int) -> None:
    log = Log(SOURCES[source]())
    tapes = Tapes(log, 1500)
    values = candidates(tapes, scale)

    # A lane that 64 bits decide reads no word after its own, a marked one reads those that it read before.
    drawn = sum(len(words) for _, words in tapes._draws)
    tapes._substream = playback = Playback(log.words_read[drawn:])
    expected = [candidate(tapes.replay(lane).__next__, scale) for lane in range(1500)]
    assert values.tolist() == [value for value in expected if value is not None]
    assert playback.left == []
    assert bool(tapes.marked()) == (source != "uniform")


def test_large_scales_mark_lanes_of_uniform_words_too() -> None:
    # Undecided with probability 2^50 / 2^64 a number, here 6 expected: none has probability 0.002. Powers of two
    # are the exception: half a grid step is then a multiple of what 64 bits tell apart.
    for scale, least, most in ((LARGEST_SCALE - 1, 1, 30), (LARGEST_SCALE, 0, 0)):
        tapes = Tapes(substream(3), 140_000)
        candidates(tapes, scale)
        assert least <= len(tapes.marked()) <= most


@pytest.mark.parametrize("scale", [1, 3, 2**31, 2**32 - 1, 2**32, 2**40 + 12345, LARGEST_SCALE - 1, LARGEST_SCALE])
def test_sizes_are_rounded_as_by_the_scalar_sampler_or_marked(scale: int) -> None:
    halves = [(2 * j + 1) * 2**63 // scale + d for j in range(min(scale, 50)) for d in (-1, 0, 1)]
    x = [min(w, 2**64 - 1) for w in halves] + [0, 2**64 - 1, *substream().words(300).tolist()]
    k = [i % 15 for i in range(len(x))]
    sizes, undecided = module._sizes(np.array(k, np.uint64), np.array(x, np.uint64), scale)
    for k_i, x_i, size, open_ in zip(k, x, sizes.tolist(), undecided.tolist(), strict=True):
        least = (scale * x_i + 2**63) >> 64
        most = (scale * (x_i + 1) + 2**63 - 1) >> 64
        assert open_ == (least != most)
        if not open_:
            assert (
                size == scale * k_i + least == scale * k_i + rounded_product(scale, LazyUniform(iter([x_i]).__next__))
            )


def test_the_integer_part_stays_below_what_a_coin_has_room_for() -> None:
    bounds = [bound for bound in module.cumulative(64)[1] if bound < 2**64]
    assert len(bounds) == 9
    assert (2 * len(bounds) + 2) << (64 - int(module._SPARE_BITS)) < 2**64
    assert len(bounds) < module._MOST_K


def test_a_shortage_of_accepted_candidates_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "isqrt", lambda n: -n // 4)  # asks for 40 % of what is missing
    values = exact_rounded_normals(substream(), 5000, 2**20)
    assert len(values) == 5000
    assert 0.9 < np.std(values / 2**20) < 1.1
    assert len(np.unique(values)) > 4900


def test_running_out_of_words_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_WORDS", 1000)
    with pytest.raises(RandomnessReuse, match="left in this part"):
        exact_rounded_normals(substream(), 5000, 2**20)


def test_a_value_beyond_64_bits_is_an_error_not_a_wrapped_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "candidate", lambda *_: 2**63)
    with pytest.raises(OverflowError):
        candidates(Tapes(Coarse(2), 100), 7)
