"""The randomness of an audit: draws that can be repeated, beside noise that cannot."""

from __future__ import annotations

from typing import final

from discreet.randomness import Purpose, Stream, Substream, SystemStream, TestStream, new_run_key


@final
class FreshNoise:
    """A stream with the noise of the operating system, and everything else (who is drawn, what a model draws) from a
    seed. Its kind is that of a test: no certificate accepts it."""

    def __init__(self, seed: int) -> None:
        self._noise: Stream = SystemStream.start(new_run_key(), 1)
        self._other: Stream = TestStream(seed)

    @property
    def kind(self) -> str:
        """`"test"`."""
        return self._other.kind

    def substream(self, purpose: Purpose, step: int) -> Substream:
        """The sub-stream at (purpose, step), once; errors as in `SystemStream.substream`."""
        return (self._noise if purpose is Purpose.NOISE else self._other).substream(purpose, step)
