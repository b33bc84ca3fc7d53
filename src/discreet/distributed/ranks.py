"""The processes of one run: how they talk. A process group of torch.distributed does the work.

Facts travel as JSON and tensors as bytes, so what comes over the wire is never run. Every exchange carries its purpose:
processes that are not at the same place find out, instead of waiting for each other.

Facts and sums have groups of their own, apart from that of the program: none of them can be taken for another, nor for
a message of the program. A process that fails where the others do not hear of it closes both, and talks no more.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from discreet.core import checks, errors
from discreet.core.errors import DiscreetError, InputError, PrivacyViolation
from discreet.core.processes import launched, one_of_several

T = TypeVar("T")

_FRAME = 504
"""Bytes of facts that travel in one message; longer ones need a second."""

_TIMEOUT = timedelta(minutes=30)

_GROUPS: list[Any] = []
"""Once this process has joined: the group of the program, and those for sums and for facts; None after it has left.

Nothing else keeps them: one that outlives the interpreter aborts its process at the end of a good run (torch 2.13)."""

warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")  # 2.13 renames two collectives


class ProcessLost(DiscreetError):
    """Another process of the run has ended, cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those of the run: its `rank` of `size`. Sums and facts travel by gloo, as sums lie in the
    memory of the host, where noise is drawn."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls) -> Ranks:
        """The processes that torchrun has started, or that a process group connects already; one if neither has.

        `DISCREET_TIMEOUT`: seconds to wait for another process, 1800 by default.
        """
        if not dist.is_available():
            raise InputError("this build of torch has no torch.distributed; install one that has, or start one process")
        if not dist.is_initialized():
            if not launched():
                return cls()
            _connect()
        if dist.get_world_size() == 1:
            return cls()
        if _GROUPS[:1] != [dist.group.WORLD]:
            _GROUPS[:] = dist.group.WORLD, *_own_groups()
            atexit.register(_close)
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the process that keeps the ledger, writes files and talks."""
        return self.rank == 0

    def all_facts(self, purpose: str, fact: object) -> list[Any]:
        """What every process says, in all of them, in the order of their ranks. Plain values only.

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
                "start the same program in all of them. Nothing was released"
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
        if self.size > 1 and not self._left:
            for group in _GROUPS[1:]:
                dist.destroy_process_group(group)
            _GROUPS[1:] = [None, None]

    @property
    def _sums(self) -> Any:
        return _GROUPS[1]

    @property
    def _facts(self) -> Any:
        return _GROUPS[2]

    @property
    def _left(self) -> bool:
        return _GROUPS[1:2] == [None]

    def bytes_from_first(self, content: bytes | None) -> bytes:
        """The bytes that the first process has, in all of them."""
        if self.size == 1:
            return content or b""
        length = self.all_facts("bytes", len(content or b""))[0]
        buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8) if self.first and content else _empty(length)
        if length:
            self._call(lambda: dist.broadcast(buffer, 0, group=self._facts))
        return buffer.numpy().tobytes()

    def added_share(self, whole: Tensor, each: int) -> Tensor:
        """The sum over processes of whole numbers, int64 of shape (size x each,): numbers rank x each to (rank + 1) x
        each of it. Whole numbers: the same bits in any order of addition.

        Each process sends every other one what that one keeps. gloo's reduce-scatter (torch 2.13) is an all-reduce of
        a copy, which sends twice as much and takes five times the memory.
        """
        if self.size == 1:
            return whole
        rows = whole.view(self.size, each)
        share, other = rows[self.rank].clone(), torch.empty(each, dtype=torch.int64, device=whole.device)
        for distance in range(1, self.size):
            to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            self._call(lambda to=to, source=source: self._swap(rows[to], to, other, source))  # type: ignore[misc]
            share += other
        return share

    def _swap(self, sent: Tensor, to: int, found: Tensor, source: int) -> None:
        """Send a tensor to one process while another one's comes."""
        sending = dist.isend(sent, to, group=self._sums)
        dist.recv(found, source, group=self._sums)
        assert sending is not None  # this process is in the group
        sending.wait()

    def gathered(self, share: Tensor, each: int) -> Tensor:
        """The shares of all processes, of `each` numbers, one after the other; shape (size x each,)."""
        if self.size == 1:
            return share
        whole = torch.empty(each * self.size, dtype=share.dtype, device=share.device)
        self._call(lambda: dist.all_gather_into_tensor(whole, share.contiguous(), group=self._sums))
        return whole

    def _frames(self, content: bytes, length: int) -> list[bytes]:
        padded = torch.frombuffer(bytearray(content.ljust(length, b"\0")), dtype=torch.uint8)
        found = [_empty(length) for _ in range(self.size)]
        self._call(lambda: dist.all_gather(found, padded, group=self._facts))
        return [one.numpy().tobytes() for one in found]

    def _call(self, collective: Callable[[], object]) -> None:
        if self._left:
            raise ProcessLost(
                "this process failed in the middle of a step and has left the others; what was charged stays charged: "
                "start all processes again and resume the run"
            )
        try:
            collective()
        except (RuntimeError, ValueError) as error:
            self.leave()
            reason = (str(error).splitlines() or [type(error).__name__])[0]
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
    """What the others are told of an error: its words, if they are the library's; else its kind, as a message of other
    code may show a row. Not `words`: its kind in any case."""
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


def _connect() -> None:
    """Join the process group of torchrun. It is left when the process ends."""
    timeout = _timeout()
    # A static rendezvous keeps its store when torchrun starts all processes again, with the addresses of those that
    # died (torch 2.13): each start has names of its own in it.
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        store = PrefixStore(f"discreet/{again}", store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise _not_connected(error) from None
    atexit.register(_leave)


def _own_groups() -> tuple[Any, Any]:
    """A group for sums and one for facts, of all processes."""
    try:
        return dist.new_group(backend="gloo", timeout=_timeout()), dist.new_group(backend="gloo", timeout=_timeout())
    except RuntimeError as error:  # torch 2.13 cannot, after the program's own group was destroyed and made again
        raise _not_connected(error) from None


def _not_connected(error: Exception) -> InputError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return InputError(f"the processes cannot be connected: {reason:.200}; start them by torchrun")


def _timeout() -> timedelta:
    given = os.environ.get("DISCREET_TIMEOUT", "")
    try:
        return timedelta(seconds=checks.positive("DISCREET_TIMEOUT", float(given))) if given else _TIMEOUT
    except (ValueError, OverflowError):
        raise InputError(f"DISCREET_TIMEOUT must be a number of seconds, got {given!r}") from None


def _close() -> None:
    """Close the groups for sums and facts, when the process ends."""
    groups = [one for one in _GROUPS[1:] if one is not None]
    _GROUPS.clear()
    if dist.is_initialized():
        for group in groups:
            dist.destroy_process_group(group)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _empty(length: int) -> Tensor:
    return torch.empty(length, dtype=torch.uint8)
