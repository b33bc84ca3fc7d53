"""The processes of one run: how they talk. A process group of torch.distributed does the work.

Facts travel as JSON and tensors as bytes, so what comes over the wire is never run. Every exchange carries its purpose:
processes that are not at the same place find out, instead of waiting for each other.

Facts and sums have groups of their own, apart from that of the program: none of them can be taken for another, nor for
a message of the program. A process that fails where the others do not hear of it closes both, and talks no more.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from discreet.core import errors
from discreet.core.errors import DiscreetError, InputError, PrivacyViolation, first_line
from discreet.core.processes import one_of_several
from discreet.distributed.connection.carriers import (
    BACKENDS,
    Carrier,
    Collectives,
    Messages,
    adds_exactly,
    by_collectives,
    own_place,
    swap,
)
from discreet.distributed.connection.process_groups import GROUPS, timeout

T = TypeVar("T")

_FRAME = 504
"""Bytes of facts that travel in one message; longer ones need a second."""

_LOG = logging.getLogger("discreet")


class ProcessLost(DiscreetError):
    """Another process of the run has ended, cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those of the run: its `rank` of `size`. Facts travel by gloo, and so do sums, unless
    `carry` finds collectives for them."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls) -> Ranks:
        """The processes that torchrun has started, or that a process group connects already; one if neither has.

        `DISCREET_TIMEOUT`: seconds to wait for another process, 1800 by default.
        """
        if not dist.is_available():
            raise InputError("this build of torch has no torch.distributed; install one that has, or start one process")
        return cls(dist.get_rank(), dist.get_world_size()) if GROUPS.join() else cls()

    @property
    def first(self) -> bool:
        """Whether this is the process that keeps the ledger, writes files and talks."""
        return self.rank == 0

    def all_facts(self, purpose: str, fact: object) -> list[Any]:
        """The facts of all processes, in the order of their ranks, in each of them. Plain values only.

        `PrivacyViolation` in all of them if they are here for different purposes.
        """
        if self.size == 1:
            return [fact]
        content = json.dumps([purpose, fact]).encode()
        first = self._frames(len(content).to_bytes(8, "big") + content[:_FRAME], 8 + _FRAME)
        lengths = [int.from_bytes(one[:8], "big") for one in first]
        said = [one[8 : 8 + length] for one, length in zip(first, lengths, strict=True)]
        if max(lengths) > _FRAME:
            rest = self._frames(content[_FRAME:], max(lengths) - _FRAME)
            said = [(one + more)[:length] for one, more, length in zip(said, rest, lengths, strict=True)]
        told = [json.loads(one) for one in said]
        if any(one[0] != purpose for one in told):
            raise PrivacyViolation(
                f"the processes of the run are at different places ({', '.join(sorted({one[0] for one in told}))}); "
                "start the same program in all of them. Nothing more was released"
            )
        return [one[1] for one in told]

    def from_first(self, purpose: str, make: Callable[[], Any]) -> Any:
        """`make()` of the first process, as JSON, in all of them; what it raises is raised in all of them.

        A charge is made so: the others wait here until it is durable.
        """
        if self.size == 1:
            with one_of_several():
                return make()
        value, error = None, None
        if self.first:
            try:
                with one_of_several():
                    value = make()
            except Exception as caught:
                error = caught
            except BaseException:
                self.leave()
                raise
        told = self.all_facts(purpose, [_said(error), value])[0]
        if error is not None:
            raise error
        if told[0] is not None:
            raise _error_of(told[0])
        return value if self.first else told[1]

    def together(self, purpose: str, do: Callable[[], T], *, words: bool = True) -> T:
        """`do()` in every process. If it fails in one, all raise, so that none is left waiting. `words`: whether the
        others are told the library's words for it."""
        if self.size == 1:
            return do()
        try:
            result = do()
        except Exception as error:
            self.tell_failure(purpose, error, words=words)
            raise
        except BaseException:
            self.leave()
            raise
        refuse_failures([one[0] for one in self.all_facts(purpose, [None])])
        return result

    def tell_failure(self, purpose: str, error: BaseException, *, words: bool = True) -> None:
        """Tell all processes, at a place where they exchange facts, that this one has failed."""
        with contextlib.suppress(DiscreetError):  # the failure itself is what the user has to see
            self.all_facts(purpose, [_said(error, words=words)])

    def leave(self) -> None:
        """Close the connections to all others: this process has failed where they do not hear of it, so what it would
        say next is not what they wait for. They find out at once, and nothing can be released any more."""
        if self.size > 1:
            GROUPS.leave()

    def bytes_from_first(self, content: bytes | None) -> bytes:
        """The bytes that the first process has, in all of them."""
        if self.size == 1:
            return content or b""
        length = self.all_facts("bytes", len(content or b""))[0]
        sent = bytearray(content) if self.first and content else bytearray(length)
        buffer = torch.frombuffer(sent, dtype=torch.uint8) if length else torch.empty(0, dtype=torch.uint8)
        if length:
            self._call(lambda: dist.broadcast(buffer, 0, group=GROUPS.facts))
        return buffer.numpy().tobytes()

    def carry(self, device: torch.device) -> None:
        """Agree on how sums of a model on `device` travel from now on: by collectives between such devices if each
        process has one of its own and was told to (`carriers`), or else by messages. A conversation of all.

        `InputError` in all of them if collectives do not add whole numbers exactly.
        """
        if self.size == 1:
            return
        told = self.all_facts("how sums travel", self.together("devices", lambda: own_place(device)))
        if not by_collectives(told):
            if device.type in BACKENDS and self.first:
                why = "DISCREET_COLLECTIVES is not 1, or not every process has NCCL and a card of its own"
                _LOG.info("sums travel from host to host: %s", why)
            GROUPS.carrier = Messages(GROUPS.sums, self.rank, self.size)
            return
        backend = BACKENDS[device.type]
        group = self._call(lambda: GROUPS.of_devices(backend))
        found = Collectives(group, GROUPS.sums, backend, device, self.rank, self.size, timeout())
        exact = self._call(lambda: adds_exactly(found, self.rank, self.size))
        if not all(self.all_facts("a known sum", exact)):
            raise InputError(f"collectives of {backend.name} do not add whole numbers exactly. Nothing was charged")
        GROUPS.carrier = found

    @property
    def device(self) -> torch.device:
        """The device on which this process gets its shares of sums."""
        return Messages.device if self.size == 1 or GROUPS.carrier is None else GROUPS.carrier.device

    def added_share(self, whole: Tensor, each: int) -> Tensor:
        """The sum over processes of whole numbers, int64 of shape (size x each,): numbers rank x each to (rank + 1) x
        each of it. Whole numbers: the same bits in any order of addition."""
        return whole if self.size == 1 else self._call(lambda: self._carrier.added_share(whole, each))

    def gathered(self, share: Tensor, each: int) -> Tensor:
        """The shares of all processes, of `each` numbers, one after the other; shape (size x each,)."""
        return share if self.size == 1 else self._call(lambda: self._carrier.gathered(share, each))

    @property
    def _carrier(self) -> Carrier:
        assert GROUPS.carrier is not None  # this process has joined the others and not left them
        return GROUPS.carrier

    def _frames(self, content: bytes, length: int) -> list[bytes]:
        """The frames of all processes, in as many exchanges as their number has bits: in each one a process gets as
        many frames as it has, from the one whose frames come next (Bruck et al. 1997)."""
        found = torch.empty(self.size, length, dtype=torch.uint8)  # in row i that of the i-th process after this one
        found[0] = torch.frombuffer(bytearray(content.ljust(length, b"\0")), dtype=torch.uint8)
        held = 1
        while held < self.size:
            more = min(held, self.size - held)
            to, source = (self.rank - held) % self.size, (self.rank + held) % self.size
            self._call(partial(swap, GROUPS.facts, found[:more], to, found[held : held + more], source))
            held += more
        return [found[(rank - self.rank) % self.size].numpy().tobytes() for rank in range(self.size)]

    def _call(self, talk: Callable[[], T]) -> T:
        if GROUPS.left:
            raise ProcessLost(
                "this process failed in the middle of a step and has left the others; what was charged stays charged: "
                "start all processes again and resume the run"
            )
        try:
            return talk()
        except (RuntimeError, ValueError) as error:
            self.leave()
            reason = first_line(error)
            raise ProcessLost(
                f"process {self.rank} of {self.size} waits for another that has ended or does not answer "
                f"({reason:.120}); what was charged stays charged: resume the run, with any number of processes"
            ) from None
        except BaseException:
            self.leave()
            raise


def refuse_failures(told: list[Any]) -> None:
    """Raise the failure that another process told, if one did."""
    for rank, one in enumerate(told):
        if one is not None:
            raise _error_of([one[0], f"process {rank}: {one[1]}"])


def _said(error: BaseException | None, *, words: bool = True) -> list[str] | None:
    """The words that the others are told of an error: its words, if they are the library's; else its kind, as a message
    of other code may show a row. Not `words`: its kind in any case."""
    if error is None:
        return None
    kind = type(error).__name__
    return [kind, str(error) if words and isinstance(error, DiscreetError) else f"it failed with {kind}"]


def _error_of(said: list[str]) -> DiscreetError:
    """An error of another process, of the same kind, so that exit codes are the same."""
    kind, message = said
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, DiscreetError)) or found is errors.Interrupted:
        found = DiscreetError
    error: DiscreetError = found(message)
    error.told = True
    return error
