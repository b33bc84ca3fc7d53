"""Tests of noise in standard deviations: each number of each step should be a standard normal, independent of others.

`noise` has shape (steps, numbers), `spans` says where each tensor is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from discreet.audit import tails
from discreet.audit.outcomes import Outcome, together
from discreet.core.array_types import Array

_MORE = 1.05
"""So much more noise than is paid for is worth a notice: it costs accuracy, and no privacy."""

_SURELY = 1e-6
_SEEN = 20_000
"""The most numbers of a tensor that are compared with others."""

_STEPS_BEFORE = (1, 2, 3)
"""The distances, in steps, at which the noise of a tensor is compared with its own."""

_LEAST = 200
"""The fewest products of a correlation at a distance."""

Spans = Mapping[str, slice]


def scale(name: str, noise: Array, spans: Spans, phases: Sequence[int] = ()) -> Outcome:
    """Chi-squared, tensor by tensor and phase by phase: less than is paid for is a finding, more of it a notice."""
    ends = np.cumsum([0, *phases]) if len(phases) > 1 else np.array([0, len(noise)])
    parts: list[tuple[str, float]] = []
    seen: dict[str, float] = {}
    too_much = 1.0
    for number, (begin, end) in enumerate(itertools.pairwise(ends), start=1):
        for tensor, span in spans.items():
            part = noise[begin:end, span]
            where = f"{tensor!r}" + (f", phase {number} of {len(ends) - 1}" if len(ends) > 2 else "")
            squares = float(np.square(part).sum())
            seen[where] = float(np.sqrt(squares / part.size))
            parts.append((f"{where} has {seen[where]:.4f} of it", tails.less_spread(squares, part.size)))
            too_much = min(too_much, tails.more_spread(squares / _MORE**2, part.size))
    low, high = min(seen, key=seen.__getitem__), max(seen, key=seen.__getitem__)
    said = f"noise is {seen[low]:.4f} ({low}) to {seen[high]:.4f} times what is paid for, over {noise.size} numbers"
    found = together(name, parts, said, least=seen[low], most=seen[high])
    notice = f"noise is {seen[high]:.3f} times what is paid for ({high}): it costs accuracy, and no privacy"
    return replace(found, notice=notice if len(parts) * too_much < _SURELY else None)


def scale_of_each_number(name: str, noise: Array, spans: Spans) -> Outcome:
    """Chi-squared, number by number over all steps: the least spread of all, times how many there are."""
    squares = np.square(noise).sum(0)
    worst = int(squares.argmin())
    tensor = next(key for key, span in spans.items() if span.start <= worst < span.stop)
    least = float(np.sqrt(squares[worst] / len(noise)))
    p = min(1.0, len(squares) * tails.less_spread(float(squares[worst]), len(noise)))
    said = f"the number with the least noise has {least:.3f} of it over {len(noise)} steps (in {tensor!r})"
    return Outcome(name, said, p=p, figures={"least": least})


def law(name: str, noise: Array, spans: Spans) -> Outcome:
    """Kolmogorov and Smirnov, tensor by tensor. More noise than is paid for is scaled down, which `scale` judges; that
    makes distances shorter, so p too large if anything."""
    parts, furthest = [], 0.0
    for tensor, span in spans.items():
        values = noise[:, span].ravel()
        p, distance = tails.furthest(ndtr(values / max(1.0, float(np.sqrt(np.mean(np.square(values)))))))
        parts.append((f"{tensor!r}, {distance:.4f} away", p))
        furthest = max(furthest, distance)
    said = f"noise is normal: its distribution is at most {furthest:.4f} away in each of {len(parts)} tensors"
    return together(name, parts, said, distance=furthest)


def steps_apart(name: str, noise: Array) -> Outcome:
    """The largest correlation of two steps, of one run or two, among all pairs."""
    part = noise[:, :_SEEN]
    lengths = np.linalg.norm(part, axis=1)
    pairs = np.triu_indices(len(part), 1)
    with np.errstate(all="ignore"):
        found = np.abs((part @ part.T)[pairs] / (lengths[pairs[0]] * lengths[pairs[1]]))
    found = np.where(np.isnan(found), 1.0, found)
    worst = int(found.argmax())
    p = min(1.0, len(found) * tails.correlation(float(found[worst]), part.shape[1]))
    where = f"steps {pairs[0][worst] + 1} and {pairs[1][worst] + 1} of {len(part)}"
    said = f"the largest correlation of the noise of two steps is {found[worst]:.3f} ({where})"
    return Outcome(name, said, p=p, figures={"largest": float(found[worst])})


def steps_apart_by_tensor(name: str, noise: Array, spans: Spans) -> Outcome:
    """Correlations of the noise of one tensor with its own some steps before; where the tensor is small, that of whole
    steps hides them."""
    parts, largest = [("there is nothing to compare", 1.0)], 0.0
    for tensor, span in spans.items():
        part = noise[:, span][:, :_SEEN]
        for lag, phase in itertools.product(_STEPS_BEFORE, range(2)):
            first = np.arange(len(part) - lag)
            first = first[first // lag % 2 == phase]  # disjoint, so that products are independent
            r, size = _correlated(part[first], part[first + lag])
            largest = max(largest, abs(r)) if size > 1 else largest
            parts.append((f"{tensor!r}, {lag} steps before, {r:.3f}", tails.correlation(r, size)))
    said = f"the largest correlation of a tensor's noise with that of an earlier step is {largest:.3f}"
    return together(name, parts, said, largest=largest)


def runs_apart(name: str, one: Array, other: Array, spans: Spans) -> Outcome:
    """The correlation of the noise of two runs at the same steps, tensor by tensor."""
    found = {tensor: _correlated(one[:, span][:, :_SEEN], other[:, span][:, :_SEEN]) for tensor, span in spans.items()}
    parts = [(f"{tensor!r}, {r:.3f}", tails.correlation(r, size)) for tensor, (r, size) in found.items()]
    largest = max(abs(r) for r, _ in found.values())
    said = f"the largest correlation of the noise of two runs is {largest:.3f}"
    return together(name, parts, said, largest=largest)


def _correlated(one: Array, other: Array) -> tuple[float, int]:
    """The correlation of equally many numbers, 1 where there is no noise; and how many they are."""
    a, b = one.ravel(), other.ravel()
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return (float(a @ b) / scale if scale > 0 else 1.0), a.size


def tensors_apart(name: str, noise: Array, spans: Spans) -> Outcome:
    """The correlation of two tensors, which may begin with the same noise. The first half of the steps names the pairs
    that are looked at."""
    half, keys = len(noise) // 2, [key for key, span in spans.items() if span.stop - span.start > 1]
    if len(keys) < 2:
        return Outcome(name, "there is one tensor", p=1.0)

    def correlation(one: str, other: str, steps: slice) -> tuple[float, int]:
        size = min(spans[one].stop - spans[one].start, spans[other].stop - spans[other].start, _SEEN)
        return _correlated(*(noise[steps, spans[key]][:, :size] for key in (one, other)))

    pairs = [(one, other) for i, one in enumerate(keys) for other in keys[i + 1 :]]
    first = {pair: correlation(*pair, slice(half)) for pair in pairs}
    chosen = sorted(pairs, key=lambda pair: -abs(first[pair][0]) * np.sqrt(first[pair][1]))[:3]
    second = {pair: correlation(*pair, slice(half, None)) for pair in chosen}
    parts = [(f"{a!r} and {b!r}, {r:.3f}", tails.correlation(r, size)) for (a, b), (r, size) in second.items()]
    largest = max(abs(r) for r, _ in second.values())
    return together(name, parts, f"the largest correlation of two tensors is {largest:.3f}", largest=largest)


def places_apart(name: str, noise: Array, spans: Spans) -> Outcome:
    """Correlations at a distance, within a tensor and within all of them together: noise drawn for a row of a tensor or
    for the share of one process, and repeated. The first half of the steps names the distances that are looked at."""
    half, looked = len(noise) // 2, dict(spans)
    if len(spans) > 1:
        looked["all tensors"] = slice(0, noise.shape[1])
    parts, largest = [("there is nothing to compare", 1.0)], 0.0
    for tensor, span in looked.items():
        part = noise[:, span][:, :_SEEN]
        for lag in _lags(part[:half]):
            pairs = np.arange(part.shape[1] - lag)
            pairs = pairs[pairs // lag % 2 == 0]  # disjoint, so that products are independent
            r, count = _correlated(part[half:, pairs], part[half:, pairs + lag])
            largest = max(largest, abs(r))
            parts.append((f"{tensor!r} at distance {lag}, {r:.3f}", tails.correlation(r, count)))
    return together(name, parts, f"the largest correlation of two places is {largest:.3f}", largest=largest)


def _lags(part: Array) -> list[int]:
    """The two distances at which numbers are correlated most, if there are products enough."""
    size = part.shape[1]
    if size < 2:
        return []
    spectrum = np.abs(np.fft.rfft(part, 2 * size, axis=1)) ** 2
    products = np.fft.irfft(spectrum.sum(0), 2 * size)[1:size]
    counts = len(part) * (size - np.arange(1, size))
    strength = np.where(counts >= _LEAST, np.abs(products) / np.sqrt(counts), -1.0)
    order = np.argsort(-strength)[:2]
    return [int(place) + 1 for place in order if strength[place] > 0]
