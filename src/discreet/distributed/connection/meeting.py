"""The meeting of processes before gloo connects them: all have come, each can be reached, and the start has a name.

**Starts.** torchrun may start all processes again, and keeps the store in which they meet (torch 2.13), with what
those that died have left there. Its count of restarts is no name for a start: each machine has its own, and does not
count those that another one asked for. So the first process gives the start a name. It looks until all have come,
tells each the name together with the number that this one came with, and begins when all have answered with it. Who
left something before and died does not answer; when it comes again, with another number, there is another name.

**Reach.** gloo (torch 2.13) gives others the address that the name of its machine has. Where that is a loopback
address, as in the files of many Linux systems, one process fails to reach the other, which waits without end.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from datetime import timedelta

from torch._C._distributed_c10d import Store

from discreet.core.errors import InputError

_PAUSE = 0.02
"""Seconds between two looks."""


def meet(store: Store, rank: int, size: int, wait: timedelta) -> str:
    """The name of this start of all processes, once all have come.

    `InputError` if one has not come within `wait`; and in all of them if they are on several machines, of which one is
    known to others by a loopback address.
    """
    number = secrets.token_hex(8)
    store.set(f"came/{rank}", json.dumps([number, socket.gethostname(), _unreachable()]))
    start = _named(store, size, wait) if rank == 0 else _heard(store, rank, size, number, wait)
    told = [json.loads(one)[1:] for one in _of_all(store, "came", size)]
    if len({name for name, _ in told}) > 1:
        for one, (name, address) in enumerate(told):
            if address:
                raise InputError(
                    f"process {one} of {size} cannot be reached from other machines: its own gives its name, {name}, "
                    f"the address {address}; name its network there: GLOO_SOCKET_IFNAME=eth0"
                )
    return start


def _named(store: Store, size: int, wait: timedelta) -> str:
    """The name that the first process gives to the start, when all have answered with it."""
    known, start, answers = list[str](), "", list[str]()
    for _ in _looks(wait):
        came, answers = _of_all(store, "came", size), _of_all(store, "answer", size)
        if came and came != known:
            known, start = came, secrets.token_hex(8)
            store.set("answer/0", start)
            for rank, one in enumerate(came):
                store.set(f"told/{rank}", json.dumps([json.loads(one)[0], start]))
        elif start and answers == [start] * size:
            store.set("begin", start)
            return start
    raise _late(store, size, wait, next((rank for rank, one in enumerate(answers) if one != start), None))


def _heard(store: Store, rank: int, size: int, number: str, wait: timedelta) -> str:
    """The name of the start in another process, which came with this `number`."""
    start = ""
    for _ in _looks(wait):
        told = json.loads(store.get(f"told/{rank}")) if store.check([f"told/{rank}"]) else ["", ""]
        if told[0] == number and told[1] != start:
            start = told[1]
            store.set(f"answer/{rank}", start)
        if start and store.check(["begin"]) and store.get("begin").decode() == start:
            return start
    raise _late(store, size, wait, None)


def _looks(wait: timedelta) -> Iterator[None]:
    """Looks at the store, until the time is over."""
    latest = time.monotonic() + wait.total_seconds()
    while time.monotonic() < latest:
        yield
        time.sleep(_PAUSE)


def _of_all(store: Store, what: str, size: int) -> list[str]:
    """The values that the processes have stored under `what`, by rank; empty until all have stored one."""
    places = [f"{what}/{rank}" for rank in range(size)]
    return [one.decode() for one in store.multi_get(places)] if store.check(places) else []


def _late(store: Store, size: int, wait: timedelta, silent: int | None) -> InputError:
    """The error for a process that has not come; `silent`: one that has come, and does not answer."""
    late = next((rank for rank in range(size) if not store.check([f"came/{rank}"])), silent)
    who = "another process" if late is None else f"process {late} of {size}"
    return InputError(
        f"{who} has not come within {wait.total_seconds():g} s (DISCREET_TIMEOUT); see what it said where it was "
        "started, then start all of them again. Nothing was charged"
    )


def _unreachable() -> str:
    """The loopback address that the name of this machine has; "" if it has another one, or a network was named."""
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        return ""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return "127.0.0.1"  # which gloo takes then
    first = str(found[0][4][0])
    return first if ipaddress.ip_address(first.partition("%")[0]).is_loopback else ""
