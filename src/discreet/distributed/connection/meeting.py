"""The meeting of processes before gloo connects them: whether all have come, and whether each can be reached.

gloo (torch 2.13) gives others the address that the name of its machine has. Where that is a loopback address, as in the
files of many Linux systems, one process fails to reach the other, which waits without end.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from datetime import timedelta

from torch._C._distributed_c10d import Store

from discreet.core.errors import InputError


def meet(store: Store, rank: int, size: int, wait: timedelta) -> None:
    """Wait until all processes have come. `InputError` if one has not within `wait`; and in all of them if they are on
    several machines, of which one is known to others by a loopback address."""
    places = [f"came/{one}" for one in range(size)]
    store.set(places[rank], json.dumps([socket.gethostname(), _unreachable()]))
    try:
        store.wait(places, wait)
    except RuntimeError:
        late = next((one for one, place in enumerate(places) if not store.check([place])), rank)
        raise InputError(
            f"process {late} of {size} has not come within {wait.total_seconds():g} s (DISCREET_TIMEOUT); see what it "
            "said where it was started, then start all of them again. Nothing was charged"
        ) from None
    told = [json.loads(one) for one in store.multi_get(places)]
    if len({name for name, _ in told}) == 1:
        return
    for one, (name, address) in enumerate(told):
        if address:
            raise InputError(
                f"process {one} of {size} cannot be reached from other machines: its own gives its name, {name}, the "
                f"address {address}; name its network there: GLOO_SOCKET_IFNAME=eth0"
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
