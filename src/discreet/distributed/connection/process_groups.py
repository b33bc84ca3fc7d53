"""The groups of torch.distributed that the processes of a run talk in: that of the program, and their own."""

from __future__ import annotations

import atexit
import os
import warnings
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from discreet.core import checks
from discreet.core.errors import InputError, first_line
from discreet.core.processes import launched
from discreet.distributed.connection.carriers import Backend, Carrier, Messages
from discreet.distributed.connection.meeting import meet

_TIMEOUT = timedelta(minutes=30)

warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")  # 2.13 renames two collectives


@dataclass(slots=True)
class Groups:
    """The groups of this process.

    `program`: that of the program, for which the others were made. `sums` and `facts`: of gloo. `devices`: for
    collectives between devices, by the name of its backend, if sums go so. `carrier`: how sums travel. `left`: the
    connections are closed, as this process has failed. `call`: a name of the call of torchrun that has started the
    process, perhaps again; "" if something else has made the group.

    Nothing else keeps groups: one that outlives the interpreter aborts its process at the end of a good run (torch
    2.13).
    """

    program: Any = None
    sums: Any = None
    facts: Any = None
    devices: dict[str, Any] = field(default_factory=dict)
    carrier: Carrier | None = None
    left: bool = False
    call: str = ""

    def join(self) -> bool:
        """Join the processes that torchrun has started, or that a group connects already; whether there are several."""
        if not dist.is_initialized():
            if not launched():
                return False
            self.call = _connect()
        if dist.get_world_size() == 1:
            return False
        if self.program is not dist.group.WORLD:
            self._forget()
            self.program = dist.group.WORLD
            try:
                self.sums, self.facts = (dist.new_group(backend="gloo", timeout=timeout()) for _ in range(2))
            except RuntimeError as error:  # torch 2.13 cannot, after the program's group was destroyed and made again
                raise _not_connected(error) from None
            self.carrier = Messages(self.sums, dist.get_rank(), dist.get_world_size())
            atexit.register(self._close)
        return True

    def of_devices(self, backend: Backend) -> Any:
        """The group for collectives of a backend: a conversation of all processes. Its own timeout ends the process, so
        it comes later than the two of the run that a collective may take."""
        if backend.name not in self.devices:
            self.devices[backend.name] = dist.new_group(backend=backend.name, timeout=3 * timeout())
        return self.devices[backend.name]

    def leave(self) -> None:
        """Close the connections to all others, for good."""
        if self.left:
            return
        self.left, self.carrier = True, None
        for group in (self.sums, self.facts):
            dist.destroy_process_group(group)
        for group in self.devices.values():  # of which a collective may wait for processes that do not come any more
            dist.distributed_c10d._abort_process_group(group)
        self.sums = self.facts = None
        self.devices.clear()

    def _close(self) -> None:
        """Close the groups of the run, when the process ends."""
        groups = [one for one in (self.sums, self.facts, *self.devices.values()) if one is not None]
        self._forget()
        if dist.is_initialized():
            for group in groups:
                dist.destroy_process_group(group)

    def _forget(self) -> None:
        self.program = self.sums = self.facts = self.carrier = None
        self.devices.clear()
        self.left = False


GROUPS = Groups()


def timeout() -> timedelta:
    """The time that a process waits for another one: `DISCREET_TIMEOUT` seconds, 30 minutes by default."""
    given = os.environ.get("DISCREET_TIMEOUT", "")
    try:
        return timedelta(seconds=checks.positive("DISCREET_TIMEOUT", float(given))) if given else _TIMEOUT
    except (ValueError, OverflowError):
        raise InputError(f"DISCREET_TIMEOUT must be a number of seconds, got {given!r}") from None


def _connect() -> str:
    """Join the process group of torchrun, which is left when the process ends; returns a name of this call of torchrun,
    which stays when it starts all processes again."""
    wait = timeout()
    try:
        store, rank, size = next(rendezvous("env://", timeout=wait))
        store = PrefixStore("discreet", store)
        start = meet(store, rank, size, wait)  # what an earlier start has left in the store has another name
        dist.init_process_group("gloo", store=PrefixStore(start, store), rank=rank, world_size=size, timeout=wait)
        call = store.compare_set("call", "", start)
    except InputError:
        raise
    except (RuntimeError, ValueError) as error:
        raise _not_connected(error) from None
    atexit.register(_disconnect)
    return bytes(call).decode()


def _disconnect() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _not_connected(error: Exception) -> InputError:
    reason = first_line(error)
    return InputError(
        f"the processes cannot be connected: {reason:.200}; start all of them by torchrun, on machines that reach each "
        "other (GLOO_SOCKET_IFNAME names the network)"
    )
