"""Sums are sent between processes in one of two ways, by messages or by collectives. Whole numbers are added, so both
give the same bits.

*Messages* go by gloo, from the memory of the host. *Collectives* are the reduce-scatter and the all-gather of what
torch.distributed has for a kind of device (`BACKENDS`: NCCL for graphics cards), between the memories of the devices.
Facts, charges and errors go by gloo either way.

**A process that fails before a collective** would leave the others in it, where no error reaches them. So all meet at a
barrier of gloo once each has begun the collective, before any waits for its end. If a process has ended or left the
others, its connections are closed, and the barrier fails in all of them. The first collective makes the connections of
the backend, which may wait for the others without end, so there they meet before it as well. What remains is a failure
within the collective itself, which ends by the timeout of the run.

**Nothing is used that was not written.** A sum begins as a number that no sum is. A share goes with a tag, the rank and
the number of the collective, which is looked for in what was gathered. So a collective that wrote nothing, or something
old, ends the run.

Collectives were never run on several cards, and hardly on one (docs/distributed.md). They are taken where
`DISCREET_COLLECTIVES` is 1 in all processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from discreet.clipping.host_memory import on_host

_MOMENT = timedelta(seconds=1)
"""For what has ended already."""

_NO_SUM = -(2**63)
"""Whole numbers that are added stay below 2^62."""

_TAG = 16
"""Bytes of a tag."""


class Carrier(Protocol):
    """A way in which sums travel. `device`: where shares come to lie."""

    @property
    def device(self) -> torch.device: ...

    def added_share(self, whole: Tensor, each: int) -> Tensor:
        """The sum over processes of whole numbers, int64 of shape (size x each,): numbers rank x each to (rank + 1) x
        each of it."""

    def gathered(self, share: Tensor, each: int) -> Tensor:
        """The shares of all processes, of `each` numbers, one after the other; shape (size x each,)."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of gloo between hosts. Each process sends every other one what that one keeps.

    gloo's reduce-scatter (torch 2.13) is an all-reduce of a copy, which sends twice as much and takes five times the
    memory.
    """

    group: Any
    rank: int
    size: int
    device = torch.device("cpu")

    def added_share(self, whole: Tensor, each: int) -> Tensor:
        """See `Carrier`."""
        rows = on_host(whole).view(self.size, each)
        share, other = rows[self.rank].clone(), torch.empty(each, dtype=torch.int64)
        for distance in range(1, self.size):
            to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            swap(self.group, rows[to], to, other, source)
            share += other
        return share

    def gathered(self, share: Tensor, each: int) -> Tensor:
        """See `Carrier`."""
        whole = torch.empty(each * self.size, dtype=share.dtype)
        dist.all_gather_into_tensor(whole, on_host(share).contiguous(), group=self.group)
        return whole


@dataclass(frozen=True, slots=True)
class Backend:
    """The backend of torch.distributed for one kind of device, such as NCCL for graphics cards.

    `place`: names a device among those of all machines; None if the backend cannot be used on it. `ended`: whether a
    collective that was waited for has ended, as the wait of some backends only tells the device to wait.
    """

    name: str
    place: Callable[[torch.device], str | None]
    ended: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collectives of `group`, whose backend adds up on `device`. `beside`: a group of gloo, for barriers."""

    group: Any
    beside: Any
    backend: Backend
    device: torch.device
    rank: int
    size: int
    timeout: timedelta
    numbers: Iterator[int] = field(default_factory=count)

    def added_share(self, whole: Tensor, each: int) -> Tensor:
        """See `Carrier`."""
        given = whole.to(self.device)
        share = torch.full((each,), _NO_SUM, dtype=torch.int64, device=self.device)
        self._run(next(self.numbers), lambda: dist.reduce_scatter_tensor(share, given, group=self.group, async_op=True))
        if bool((share == _NO_SUM).any()):
            raise RuntimeError("a collective did not write its sum")
        return share

    def gathered(self, share: Tensor, each: int) -> Tensor:
        """See `Carrier`."""
        number = next(self.numbers)
        content = share.to(self.device).contiguous().view(torch.uint8)
        rest = content.new_zeros(
            -len(content) % _TAG
        )  # so that tags, and the numbers behind them, begin in their places
        given = torch.cat([content, rest, self._tags(number, self.rank, 1)[0]])
        found = content.new_zeros(self.size, len(given))
        self._run(number, lambda: dist.all_gather_into_tensor(found.view(-1), given, group=self.group, async_op=True))
        if not torch.equal(found[:, -_TAG:], self._tags(number, 0, self.size)):
            raise RuntimeError("a collective did not write what it gathered")
        return found[:, : len(content)].contiguous().view(share.dtype).view(-1)

    def _tags(self, number: int, first: int, ranks: int) -> Tensor:
        """The tags behind the shares of ranks `first` to `first + ranks - 1`: bytes, shape (ranks, _TAG); no tag is all
        zeros."""
        tags = [[number + 1, rank + 1] for rank in range(first, first + ranks)]
        return torch.tensor(tags, dtype=torch.int64, device=self.device).view(torch.uint8)

    def _run(self, number: int, begin: Callable[[], Any]) -> None:
        """Take part in a collective, and wait for its end. `RuntimeError` if it fails."""
        if number == 0:
            dist.barrier(group=self.beside)
        work = begin()
        dist.barrier(group=self.beside)
        work.wait(self.timeout)
        latest = time.monotonic() + self.timeout.total_seconds()
        while not self.backend.ended(work):
            if time.monotonic() > latest:
                raise RuntimeError(f"a collective did not end within {self.timeout.total_seconds():.0f} s")
            time.sleep(0)
        work.wait(_MOMENT)  # raises what went wrong


def _card(device: torch.device) -> str | None:
    """The name of a card, if torch was built with NCCL. Two processes cannot share one."""
    return str(torch.cuda.get_device_properties(device).uuid) if dist.is_nccl_available() else None


BACKENDS: dict[str, Backend] = {"cuda": Backend("nccl", _card, lambda work: bool(work.is_completed()))}
"""The kinds of devices between which sums go by collectives; those of all others go by messages."""


def own_place(device: torch.device) -> list[str] | None:
    """The name of the backend and of the device, which this process tells the others; None if it cannot use
    collectives, or `DISCREET_COLLECTIVES` is not 1."""
    backend = BACKENDS.get(device.type) if os.environ.get("DISCREET_COLLECTIVES", "") == "1" else None
    place = None if backend is None else backend.place(device)
    return None if backend is None or place is None else [backend.name, place]


def by_collectives(told: Sequence[Sequence[str] | None]) -> bool:
    """Whether sums are sent by collectives: all processes must have the same backend, and each a device of its own.

    `told`: what `own_place` returned in each.
    """
    known = [one for one in told if one is not None]
    return len(known) == len(told) == len({place for _, place in known}) and len({name for name, _ in known}) == 1


def adds_exactly(carrier: Carrier, rank: int, size: int) -> bool:
    """Try the carrier on a known sum of numbers of up to 61 bits: whether this process gets its own share of it, and
    all shares, right."""
    places = torch.arange(2 * size)
    signs = 1 - 2 * (places % 2)
    sums = signs * (size * (2**61 // size - places) - size * (size - 1) // 2)
    share = carrier.added_share(signs * (2**61 // size - places - rank), 2)
    whole = carrier.gathered(share, 2)
    return torch.equal(share.cpu(), sums[2 * rank : 2 * rank + 2]) and torch.equal(whole.cpu(), sums)


def swap(group: Any, sent: Tensor, to: int, found: Tensor, source: int) -> None:
    """Send a tensor to one process while another one's comes."""
    sending = dist.isend(sent, to, group=group)
    dist.recv(found, source, group=group)
    assert sending is not None  # this process is in the group
    sending.wait()
