"""Broken builds of runs that several processes take: lanes, sums in whole numbers, shares of one noise.

One process takes all lanes here, as an audit does; what is broken is what each of several would do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from broken_builds import broken, patched

from discreet.distributed.whole_sums import WholeSums
from discreet.mechanism import gaussian
from discreet.training import step

LANES = 3
Sums = dict[str, torch.Tensor]


def adding(change: Callable[[Sums, int], Sums]) -> Any:
    """Chunks changed before they are rounded to whole numbers: `change(chunk, its number)`."""
    real = WholeSums.add

    def add(self: Any, sums: Any) -> None:
        number = vars(self).setdefault("chunks_seen", 0)
        self.chunks_seen += 1
        real(self, change(dict(sums), number))

    return patched((WholeSums, "add", add))


def _norm(sums: Sums) -> float:
    return float(torch.cat([one.double().flatten() for one in sums.values()]).norm())


@broken("a lane that was sent again after an error is added twice", "replay/", lanes=LANES)
def lane_added_twice() -> Any:
    return adding(lambda sums, number: {name: one * (2.0 if number == 1 else 1.0) for name, one in sums.items()})


@broken("the sum of a lane is clipped as a whole, to three times the norm", "replay/", lanes=LANES)
def lane_clipped_as_a_whole() -> Any:
    def change(sums: Sums, number: int) -> Sums:
        return {name: one * (2.1 / max(_norm(sums), 1e-9)) for name, one in sums.items()}

    return adding(change)


@broken("lanes are weighed by their length, so that all count alike", "replay/", lanes=LANES)
def lanes_weighed_alike() -> Any:
    def change(sums: Sums, number: int) -> Sums:
        return {name: one * (4.0 / max(_norm(sums), 0.5)) for name, one in sums.items()}

    return adding(change)


@broken("chunks are rounded to a grid that the sensitivity does not know", "replay/", lanes=LANES)
def rounded_to_a_coarse_grid() -> Any:
    return adding(lambda sums, number: {name: (one / 0.3).round() * 0.3 for name, one in sums.items()})


@broken(
    "the second half of the numbers has the noise of the first: both shares are drawn from one place",
    "noise/",
    lanes=LANES,
)
def shares_drawn_from_one_place() -> Any:
    real = gaussian.draw_noise

    def draw(*given: Any) -> Any:
        noise = real(*given)
        half = len(noise) // 2
        noise[half : 2 * half] = noise[:half]
        return noise

    return patched((gaussian, "draw_noise", draw))


@broken("each process draws its share of the noise with the scale of a third", "noise/scale", lanes=LANES)
def noise_shared_out() -> Any:
    return _released(lambda noise: noise / np.sqrt(LANES))


@broken("the last share gets no noise, as its process had no unit", "noise/scale", lanes=LANES)
def last_share_without_noise() -> Any:
    def change(noise: Any) -> Any:
        noise[2 * len(noise) // 3 :] = 0
        return noise

    return _released(change)


@broken("in all processes the stream begins anew at every step", "noise/", lanes=LANES)
def same_noise_at_every_step() -> Any:
    kept: list[Any] = []

    def change(noise: Any) -> Any:
        kept[:] = kept or [noise.copy()]
        return kept[0] if len(kept[0]) == len(noise) else noise

    return _released(change)


def _released(change: Callable[[Any], Any]) -> Any:
    """The noise of a share changed."""
    real = step.gaussian_release

    def release(total: Any, receipt: Any, *rest: Any) -> Any:
        sums = {name: np.array(value, np.float64) for name, value in total.tensors.items()}
        found = real(total, receipt, *rest)
        noisy = {name: sums[name] + change(one - sums[name]) for name, one in found.tensors.items()}
        return dataclasses.replace(found, tensors=noisy)

    return patched((step, "gaussian_release", release))
