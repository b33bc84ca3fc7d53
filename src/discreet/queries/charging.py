"""Accounts: queries are charged to a ledger before anything is drawn."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from discreet.accounting.account import Method, guarantee, parse
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved, kind_of
from discreet.core.events import Event
from discreet.core.events.event_json import to_json
from discreet.core.guarantee import Guarantee
from discreet.core.release import Receipt
from discreet.ledger import QUERIES, Ledger, checked_name
from discreet.randomness import NOISE_SAMPLERS, RoundedSampler, Stream, SystemStream, new_run_key


def system_stream(attempt: int) -> Stream:
    """A stream under a new key that is stored nowhere."""
    return SystemStream.start(new_run_key(), attempt)


def check_account(account: object) -> None:
    """`InputError` for what is no account."""
    if not isinstance(account, Account):
        raise InputError(f"queries are paid for by an account, Account(ledger, delta), not by {kind_of(account)}")


@dataclass(frozen=True, slots=True)
class Payment:
    """A charge with its receipt, its guarantee, and the random stream for its one draw."""

    receipt: Receipt
    stream: Stream
    guarantee: Guarantee


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """Pays for queries: each call is a run of the ledger, charged whole and durably before any noise is drawn.

    `ledger`: a `Ledger`, or the place of its database. `dataset`: the name under which the ledger keeps a budget for
    all runs on the data (without a budget, it counts but does not limit). `delta`: for one call. `noise`: `"fast"` or
    `"exact"`, as for training. Copying an account returns the account itself; a copy would have no budget of its own.
    """

    ledger: Ledger | str | Path
    delta: float
    dataset: str = ""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: str = "exact"
    method: Method = Method.PLD
    start: Callable[[int], Stream] = system_stream

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger | str | os.PathLike) or str(self.ledger).strip() in ("", "."):
            raise InputError(f"ledger must be a Ledger or the path of one, got {self.ledger!r}")
        checked_name(self.dataset)
        object.__setattr__(self, "delta", checks.open_unit("delta", self.delta))
        object.__setattr__(self, "adjacency", parse(Adjacency, "adjacency", self.adjacency))
        object.__setattr__(self, "method", parse(Method, "method", self.method))
        if not isinstance(self.noise, str) or self.noise not in NOISE_SAMPLERS:
            raise InputError(f"unknown noise {self.noise!r}; known: {', '.join(NOISE_SAMPLERS)}")
        if not callable(self.start):
            raise InputError(
                f"start makes the stream of an attempt from its number, and cannot be {kind_of(self.start)}"
            )
        if not isinstance(self.ledger, Ledger):
            object.__setattr__(self, "ledger", Ledger(self.ledger))

    def __repr__(self) -> str:
        assert isinstance(self.ledger, Ledger)
        of = f" of data set {self.dataset!r}" if self.dataset else ""
        return f"<Account{of}: ledger {self.ledger.shown}, delta {self.delta:g} a call, {self.adjacency.value}>"

    @property
    def sampler(self) -> RoundedSampler:
        """The sampler of Gaussian noise."""
        return NOISE_SAMPLERS[self.noise]

    def cost(self, event: Event) -> Guarantee:
        """The price of `event`; nothing is charged."""
        return guarantee(event, self.delta, self.adjacency, self.method)

    def calibrate(self, event: Callable[[float], Event], epsilon: float) -> float:
        """The least noise multiplier at which `event(multiplier)` costs at most `epsilon`."""
        return calibrate_noise(event, epsilon, self.delta, self.adjacency, self.method)[0]

    def pay(self, event: Event) -> Payment:
        """Charge `event` durably, as a run of one step. Nothing is charged on `BudgetExhausted` or `NotProved`."""
        price = self.cost(event)
        if not price.is_finite:
            raise NotProved(f"no finite epsilon is proved for {event}; use more noise or a larger delta")
        body = {"event": to_json(event), "delta": self.delta, "adjacency": self.adjacency, "method": self.method}
        fingerprint = "sha256:" + hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        stream = self.start(0)
        run = self._ledger.open_run(fingerprint, price, self.dataset, event=event)
        attempt = self._ledger.start_attempt(
            run, fingerprint, {"engine": QUERIES, "noise": self.noise, "randomness": stream.kind}
        )
        (receipt,) = self._ledger.reserve(run, attempt, lambda _charged: [event])
        return Payment(receipt, stream, price)

    def done(self, payment: Payment) -> None:
        """Record in the ledger that the answers to `payment` were released."""
        self._ledger.commit(payment.receipt)

    @property
    def _ledger(self) -> Ledger:
        assert isinstance(self.ledger, Ledger)
        return self.ledger

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, _memo: object) -> Account:
        return self
