"""What a step would take on many graphics cards, on paper: an estimate by a model of one line for each part.

Of it, clipping alone was measured on a card, and the work of the host here. A collective of cards takes its volume over
the bandwidth of a card, and a latency for every doubling of their number; a card computes at the rate that large models
reach, and moves numbers within its memory at its bandwidth. Plain training hides most of its messages behind the
backward pass. Private sums exist when all norms are known, and are sent then; weights that are shared out are gathered
when a layer needs them, and not before. So of private messages nothing is hidden.

Sums go by collectives of the cards where each process has one of its own and asks for them (`connection.carriers`).
Otherwise they go by gloo, from the memory of the host: a process sends to each other one in turn, at the rate of one
connection, and waits for a message of each (`by_messages`). Facts go by gloo in any case, a message for every doubling.

Left out: before every block of steps the gradient of a random row and its digest (`same_gradient`); evaluations,
checkpoints and reading rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from discreet.core.errors import InputError

LATENCY, TO_HOST, CORES = 25e-6, 55e9, 12
"""Seconds for each doubling in a collective; bytes a second from a card to its host; cores a card."""

NOISE, HOST = 3.9e-9, 1.9e-9
"""Processor seconds for a number of noise (`mechanism.noise.draw_noise`, sampler "fast"), and for what else the host
does with a number of its share: folded, noise added, divided. Measured on one core, 2026-11-26."""

ROUNDED, CHECKED = 77, 40
"""Bytes that a card moves in its memory for a weight: to round a chunk's sum and add it to whole numbers, once a pass
(`whole_sums`); to compare and copy weights and to digest them, once a step (`training.guard`, `team.digest_of`)."""

MESSAGE, CONNECTION = 1e-4, 1.5e9
"""Of gloo: seconds for a message, and bytes a second that a connection carries while another one's come, as measured
here between two processes of a machine."""

CLIPPING, CLIPPING_ADAPTERS, NOT_HIDDEN = 1.5, 1.2, 0.3
"""Private over plain computing, for all weights and for adapters, as measured on an H200 with 124 million weights
(benchmarks/RESULTS.md); the share of plain messages (or, where these take longer, of computing) that is not hidden
behind the other."""

NETWORKS: Mapping[str, float] = MappingProxyType({"fast": 360e9, "slow": 12e9})
"""Bytes a second and card: eight cards a node with 400 Gb/s each, or with 100 Gb/s together."""


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card: the `rate` of operations a second that training reaches (two fifths of its peak in bfloat16),
    its `memory` in bytes, and the bytes a second that it reads and writes there."""

    rate: float
    memory: float
    bandwidth: float


CARDS: Mapping[str, Card] = MappingProxyType(
    {
        "A100": Card(125e12, 80e9, 2.0e12),
        "H100": Card(400e12, 80e9, 3.35e12),
        "H200": Card(400e12, 141e9, 4.8e12),
    }
)


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Seconds of a plain step, of the `parts` of a private one, and of a private one whose sums went `by_messages`
    (None if not estimated); bytes of sums that a card sends in each, and bytes that a card holds."""

    plain_seconds: float
    parts: Mapping[str, float]
    by_messages: float | None
    plain_sent: float
    private_sent: float
    memory: float

    @property
    def private_seconds(self) -> float:
        """Seconds of a private step."""
        return sum(self.parts.values())

    @property
    def ratio(self) -> float:
        """Private over plain."""
        return self.private_seconds / self.plain_seconds


def card_named(name: str) -> Card:
    """The card; `InputError` for one that is not known."""
    if name not in CARDS:
        raise InputError(f"unknown card {name!r}; known: {', '.join(CARDS)}")
    return CARDS[name]


def collective(volume: float, processes: int, bandwidth: float, pieces: int = 1) -> float:
    """Seconds to reduce-scatter or all-gather `volume` bytes in all, in so many pieces, each a ring."""
    return volume * (processes - 1) / processes / bandwidth + pieces * LATENCY * math.log2(processes)


def beside_barrier(volume: float, processes: int, bandwidth: float, pieces: int = 1) -> float:
    """The same with a barrier of gloo beside each piece, which takes a message for every doubling."""
    return max(collective(volume, processes, bandwidth, pieces), pieces * facts(processes))


def facts(processes: int) -> float:
    """Seconds in which all processes learn what each says."""
    return MESSAGE * math.ceil(math.log2(processes))


def in_turn(volume: float, processes: int, bandwidth: float) -> float:
    """Seconds in which each process sends every other one its part of `volume` bytes, one after the other, by gloo."""
    return volume * (processes - 1) / processes / min(CONNECTION, bandwidth) + MESSAGE * (processes - 1)


def replicated_step(
    operations: float, weights: float, processes: int, card: Card, bandwidth: float, passes: int = 1
) -> StepEstimate:
    """A step of replicated training: `operations` of a plain forward and backward pass over the whole batch, shared by
    so many cards in `passes` chunks each; sums of eight bytes a weight are reduce-scattered, means of four gathered."""
    compute = operations / processes / card.rate
    plain_sum = 2 * collective(4 * weights, processes, bandwidth)
    plain = max(compute, plain_sum) + NOT_HIDDEN * min(compute, plain_sum)
    parts = _own_work(compute, CLIPPING, weights, weights, processes, card, passes)
    parts["facts"] = 2 * facts(processes)  # that all have added every unit once, and whether one was asked to stop
    sums = beside_barrier(8 * weights, processes, bandwidth), in_turn(8 * weights, processes, bandwidth)
    means = beside_barrier(4 * weights, processes, bandwidth), in_turn(4 * weights, processes, bandwidth)
    whole = weights * 12 / TO_HOST  # by messages, sums go to the host whole, and means come back
    by_messages = sum(parts.values()) - parts["copies to the host and back"] + whole + sums[1] + means[1]
    parts["sums and means on the way"] = sums[0] + means[0]
    part = (processes - 1) / processes
    held = weights * (4 + 4 + 8 + 4)  # weights, one state of the optimizer, whole-number sums, clipped sums of a chunk
    return StepEstimate(plain, parts, by_messages, 8 * weights * part, 12 * weights * part, held)


def sharded_step(
    operations: float,
    weights: tuple[float, int],
    trained: float,
    processes: int,
    card: Card,
    bandwidth: float,
    passes: int,
    units: int,
) -> StepEstimate:
    """A step with weights shared out, beside one of FSDP: `weights` and the bytes of each are gathered twice in every
    pass, in `units` pieces; sums of the `trained` ones are added up after every pass, in eight bytes against four."""
    number, size = weights
    adapters = trained < number
    compute = operations / processes / card.rate
    gathers = passes * 2 * collective(number * size, processes, bandwidth, units)
    plain_sum = gathers + passes * collective(4 * trained, processes, bandwidth, units)
    plain = max(compute, plain_sum) + NOT_HIDDEN * min(compute, plain_sum)
    clipping = CLIPPING_ADAPTERS if adapters else CLIPPING
    parts = _own_work(compute, clipping, trained, trained / processes, processes, card, passes)
    parts["facts"] = (2 + 2 * passes) * facts(processes)  # also before every pass and every sum
    parts["weights on the way"] = passes * 2 * beside_barrier(number * size, processes, bandwidth, units)
    parts["sums and means on the way"] = passes * beside_barrier(8 * trained, processes, bandwidth, units)
    part = (processes - 1) / processes
    sent = passes * 2 * number * size * part
    held = (number * size + trained * (4 + 8)) / processes + (trained + number * size) / units * 8
    return StepEstimate(
        plain, parts, None, sent + passes * 4 * trained * part, sent + passes * 8 * trained * part, held
    )


def _own_work(
    compute: float, clipping: float, summed: float, checked: float, processes: int, card: Card, passes: int
) -> dict[str, float]:
    """The work of a process by itself, beside messages: the parts of a step that sums `summed` weights."""
    own = summed / processes
    return {
        "passes with clipping": clipping * compute,
        "rounding of chunks": passes * summed * ROUNDED / card.bandwidth,
        "checks of weights": checked * CHECKED / card.bandwidth,
        "noise that the passes do not hide": max(0.0, own * NOISE / CORES - clipping * compute),
        "other work of the host": own * HOST / CORES,
        "copies to the host and back": own * 12 / TO_HOST,
    }
