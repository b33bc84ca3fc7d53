"""The noise of a step: how much the event that was paid for asks for, drawn at once or while the step computes.

The noise is drawn on the host. Where the model is on another device, a thread draws it while that device computes: how
much is known beforehand, since neither the size of the sum nor its sensitivity depends on the rows. The address in the
stream and the bits are the same either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from discreet.core.array_types import IntArray
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event, Gaussian
from discreet.core.release import Receipt
from discreet.randomness import Purpose, RoundedSampler, Stream

Parts = Sequence[tuple[int, int]] | None
"""Parts of a release, as pairs (start, stop) of places in it; None for all of it."""


def noise_multiplier(release: Event) -> float:
    """The noise multiplier of a step's event; `PrivacyViolation` unless the event is one Gaussian release."""
    if not isinstance(release, Gaussian):
        raise PrivacyViolation(f"the receipt pays for {type(release).__name__}, not for one Gaussian release")
    return release.noise_multiplier


def draw_noise(
    receipt: Receipt,
    stream: Stream,
    sampler: RoundedSampler,
    size: int,
    sensitivity: float,
    grid: float,
    parts: Parts = None,
) -> IntArray:
    """`size` rounded Gaussians, in units of `grid`, of standard deviation >= `noise_multiplier x sensitivity`, from the
    sub-stream (noise, receipt.position). With `parts`, pairs (start, stop), only these of them, with the same bits."""
    scale = math.ceil(noise_multiplier(receipt.release) * sensitivity / grid * (1 + 2.0**-50))
    substream = stream.substream(Purpose.NOISE, receipt.position)
    if parts is None:
        return sampler.draw(substream, size, scale)
    return sampler.draw_parts(substream, size, scale, parts)


@dataclass(frozen=True, slots=True)
class NoiseAhead:
    """Noise that a thread draws for one release, which must turn out to be the one it was drawn for."""

    drawn_for: tuple[Receipt, int, float, float, Parts]
    noise: Future[IntArray]

    def of(self, receipt: Receipt, size: int, sensitivity: float, grid: float, parts: Parts = None) -> IntArray:
        """The noise, once the thread has drawn it; `PrivacyViolation` if it was drawn for another release."""
        if self.drawn_for != (receipt, size, sensitivity, grid, parts):
            raise PrivacyViolation("noise was drawn ahead for another release; nothing was released for this step")
        return self.noise.result()


@contextmanager
def drawing_ahead(
    receipt: Receipt,
    stream: Stream,
    sampler: RoundedSampler,
    size: int,
    sensitivity: float,
    grid: float,
    parts: Parts = None,
) -> Iterator[NoiseAhead]:
    """Draw noise as `draw_noise` does, in a thread. If the step is broken off, the noise is dropped with it."""
    wanted = receipt, size, sensitivity, grid, parts
    with ThreadPoolExecutor(1, "discreet-noise") as thread:
        yield NoiseAhead(wanted, thread.submit(draw_noise, receipt, stream, sampler, size, sensitivity, grid, parts))
