"""What a step would take on many graphics cards, on paper: an estimate by a model of one line for each part.

Of it, clipping alone was measured on a card. A collective of cards takes its volume over the bandwidth of a card, and
a latency for every doubling of their number; a card computes at the rate that large models reach; noise is drawn by
the processor cores of a card's share; clipping costs half as much again as a plain pass. Plain training hides most of
its messages behind the backward pass; private sums exist when all norms are known, and are sent then.

Private sums do not travel by such collectives, but by gloo, from the memory of the host (`ranks.Ranks`): a process
sends to each other one in turn, at the rate of one connection, and waits for a message of each. So with many processes
the latency grows with their number. `by_collectives` is what a step would take otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from discreet.core.errors import InputError

LATENCY, TO_HOST, CORES, NOISE = 25e-6, 55e9, 12, 11.3e-9
"""Seconds for each doubling in a collective; bytes a second from a card to its host; cores a card; seconds of a core
for a number of noise, as measured here."""

MESSAGE, CONNECTION = 1e-4, 1.5e9
"""Of gloo: seconds for a message, and bytes a second that a connection carries while another one's come, as measured
here between two processes of a machine."""

CLIPPING, NOT_HIDDEN = 1.5, 0.3
"""Private over plain computing, as measured on an H200 (benchmarks/RESULTS.md); the share of plain messages (or,
where these take longer, of computing) that is not hidden behind the other."""

NETWORKS: Mapping[str, float] = MappingProxyType({"fast": 360e9, "slow": 12e9})
"""Bytes a second and card: eight cards a node with 400 Gb/s each, or with 100 Gb/s together."""


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card: the `rate` of operations a second that training reaches (two fifths of its peak in bfloat16),
    and its `memory` in bytes."""

    rate: float
    memory: float


CARDS: Mapping[str, Card] = MappingProxyType(
    {"A100": Card(125e12, 80e9), "H100": Card(400e12, 80e9), "H200": Card(400e12, 141e9)}
)


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Seconds of a plain and a private step, and of a private one whose sums went `by_collectives`; bytes of sums that
    a card sends in each, and bytes that a card holds."""

    plain_seconds: float
    private_seconds: float
    by_collectives: float
    plain_sent: float
    private_sent: float
    memory: float

    @property
    def ratio(self) -> float:
        """Private over plain."""
        return self.private_seconds / self.plain_seconds


def card_named(name: str) -> Card:
    """The card; `InputError` for one that is not known."""
    if name not in CARDS:
        raise InputError(f"unknown card {name!r}; known: {', '.join(CARDS)}")
    return CARDS[name]


def collective(volume: float, processes: int, bandwidth: float) -> float:
    """Seconds to reduce-scatter or all-gather `volume` bytes in all."""
    return volume * (processes - 1) / processes / bandwidth + LATENCY * math.log2(processes)


def in_turn(volume: float, processes: int, bandwidth: float) -> float:
    """Seconds in which each process sends every other one its part of `volume` bytes, one after the other, by gloo."""
    return volume * (processes - 1) / processes / min(CONNECTION, bandwidth) + MESSAGE * (processes - 1)


def replicated_step(operations: float, weights: float, processes: int, card: Card, bandwidth: float) -> StepEstimate:
    """A step of replicated training: `operations` of a plain forward and backward pass over the whole batch, shared by
    so many cards; sums of eight bytes a weight are reduce-scattered, means of four gathered."""
    compute = operations / processes / card.rate
    plain_sum = 2 * collective(4 * weights, processes, bandwidth)
    private_sum = collective(8 * weights, processes, bandwidth) + collective(4 * weights, processes, bandwidth)
    noise, copies = weights / processes * NOISE / CORES, weights / processes * 12 / TO_HOST
    plain = max(compute, plain_sum) + NOT_HIDDEN * min(compute, plain_sum)
    facts = LATENCY * math.log2(processes)  # that all are at the same step and have added every unit once
    rest = CLIPPING * compute + max(0.0, noise - CLIPPING * compute)
    by_collectives = rest + private_sum + facts + copies
    sent = in_turn(8 * weights, processes, bandwidth) + in_turn(4 * weights, processes, bandwidth)
    told = 2 * in_turn(0, processes, bandwidth)  # the same facts, and whether one was asked to stop
    private = rest + sent + told + weights * 12 / TO_HOST  # sums go to the host whole, and means come back
    part = (processes - 1) / processes
    held = weights * (4 + 4 + 8 + 4)  # weights, one state of the optimizer, whole-number sums, clipped sums of a chunk
    return StepEstimate(plain, private, by_collectives, 8 * weights * part, 12 * weights * part, held)
