"""Events: immutable descriptions of what was released, and nothing else.

An event says which mechanism ran, never what came out. It is what the ledger stores, what a plan
predicts, what accountants interpret and what a certificate lists. **A published event never changes
meaning**: a mechanism that differs gets an event of another name.

`event_json` encodes and decodes them by their fields. An accountant may refuse one; `NotProved` then names the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.trials import Trials


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise was added to one query.

    `noise_multiplier` = noise standard deviation / one unit's largest contribution to the query.
    `query` tells how far the query moves when a unit is replaced (see `sensitivity_ratio`).
    """

    noise_multiplier: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        _check(self, checks.positive, "noise_multiplier")
        _check(self, _query, "query")


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of one scale was added to every number of a query.

    `scale_multiplier` = scale b of the noise (density exp(-|x| / b) / 2b) / one unit's largest contribution to the
    query in L1 norm. `query` tells how far the query moves when a unit is replaced (see `sensitivity_ratio`).
    """

    scale_multiplier: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        _check(self, checks.positive, "scale_multiplier")
        _check(self, _query, "query")


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """The exponential mechanism chose one candidate: the one with the largest score plus Gumbel noise.

    `epsilon` = the range of the privacy loss under add/remove and zero-out: between neighbours the log-probabilities
    of all candidates move by amounts that differ by at most `epsilon` (Durfee and Rogers 2019). With Gumbel noise of
    scale b on scores that one unit moves by at most D, that is 2 D / b, or D / b if one unit moves all scores in the
    same direction. `query` tells how much further a replacement moves scores (see `sensitivity_ratio`).
    """

    epsilon: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        _check(self, checks.positive, "epsilon")
        _check(self, _query, "query")


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """The candidate with the largest score plus Laplace or exponential noise was chosen; noisy scores stay secret.

    `epsilon` = its pure guarantee under add/remove and zero-out: with noise of scale b on scores that one unit moves
    by at most D, that is 2 D / b, or D / b if one unit moves all scores in the same direction (Dwork and Roth 2014,
    section 3.3; McKenna and Sheldon 2020). `query` as in `BoundedRange`.
    """

    epsilon: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        _check(self, checks.positive, "epsilon")
        _check(self, _query, "query")


@dataclass(frozen=True, slots=True)
class SparseHistogram:
    """Rows were counted by value, with no declared list of values; frequent values were released with their counts.

    A row counts once, for one value at most. Gaussian noise was added to the count of every value that occurs;
    `noise_multiplier` = its standard deviation in rows. A value with a noisy count above `threshold` rows was released
    with that count (the Gaussian sparse histogram mechanism; `accounting.theories.sparse`).
    """

    noise_multiplier: float
    threshold: float

    def __post_init__(self) -> None:
        _check(self, checks.positive, "noise_multiplier", "threshold")
        if not self.threshold > 1:
            raise InputError(f"threshold must be above 1, the count of a single row, got {self.threshold!r}")


@dataclass(frozen=True, slots=True)
class Selection:
    """`event` ran K times, for a secret K with law `trials`; only the best result by a public order was released.

    Random stopping: Liu and Talwar 2019, Papernot and Steinke 2022. `event` is all that one trial reads of the data.
    """

    event: Event
    trials: Trials

    def __post_init__(self) -> None:
        _require_event("Selection.event", self.event)
        if not isinstance(self.trials, Trials):
            raise InputError(f"Selection.trials must be the law of K, got {self.trials!r}")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Every unit took part in `event` independently with probability `rate`.

    All queries on one draw are one event: `Poisson(rate, Compose((query, query)))`.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.rate, "rate")
        _require_event("Poisson.event", self.event)


@dataclass(frozen=True, slots=True)
class TruncatedPoisson:
    """At most `capacity` units of a `Poisson` draw took part in `event`; which units were left out is random.

    `population` is a public upper bound on the number of units in either of two neighbours; it bounds the probability
    of an overflow. Runs on more units are refused.
    """

    rate: float
    capacity: int
    population: int
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.rate, "rate")
        _check(self, checks.count, "capacity", "population")
        _require_event("TruncatedPoisson.event", self.event)


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Exactly `batch` of `population` units, drawn uniformly without replacement, took part in `event`.

    All queries on one draw are one event, as for `Poisson`. The size of the data set, `population`, is public.
    """

    population: int
    batch: int
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.count, "population", "batch")
        if self.batch > self.population:
            raise InputError(f"batch ({self.batch}) must not exceed the population ({self.population})")
        _require_event("FixedSize.event", self.event)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The units were shuffled uniformly and cut into disjoint batches, one for each part of `event` (see `batches`).

    Every unit took part in exactly one batch. `Repeat(e, 100)` stands for a hundred batches with e on each;
    `Compose((e, f))` for a batch with e and a batch with f; several queries on one batch are a `Compose` inside. An
    interrupted epoch is stated whole.
    """

    event: Event

    def __post_init__(self) -> None:
        _require_event("Epoch.event", self.event)


@dataclass(frozen=True, slots=True)
class Allocation:
    """`event` ran `steps` times; every unit took part in `chosen` of them.

    Each unit's steps are uniformly random and independent of those of other units (balls and bins for `chosen` = 1).
    All queries on one step are one event. An interrupted period is stated whole.
    """

    steps: int
    chosen: int
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.count, "steps", "chosen")
        if self.chosen > self.steps:
            raise InputError(f"chosen ({self.chosen}) must not exceed steps ({self.steps})")
        _require_event("Allocation.event", self.event)


@dataclass(frozen=True, slots=True)
class CyclicPoisson:
    """The units were dealt to `parts` parts; in `parts` successive steps each part had its turn once, and in its turn
    every unit of it took part in `event` independently with probability `rate`.

    Which part a unit is in counts as known. A unit's contribution may be spread over its step and the `parts` - 1 steps
    that follow: `event` says what it adds to all of these together. An interrupted round is stated whole.
    """

    parts: int
    rate: float
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.count, "parts")
        _check(self, checks.rate, "rate")
        _require_event("CyclicPoisson.event", self.event)


@dataclass(frozen=True, slots=True)
class Individual:
    """`event` ran `steps` times on all units, but each took part only as long as its own budget lasted: the squares of
    the lengths of what it added, relative to the sensitivity of each step, stayed at most `full` in all.

    So a unit adds no more than if it took part in `full` steps at full length. Whether it takes part in a step follows
    from its own data and earlier releases alone; how many did is secret. An interrupted period is stated whole.
    """

    steps: int
    full: int
    event: Event

    def __post_init__(self) -> None:
        _check(self, checks.count, "steps", "full")
        if self.full > self.steps:
            raise InputError(f"full ({self.full}) must not exceed steps ({self.steps})")
        if type(self.event) is not Gaussian or self.event.query is not Query.CLIPPED_SUM:
            raise InputError(f"Individual.event must be a Gaussian of a clipped sum, got {self.event!r}")


@dataclass(frozen=True, slots=True)
class Repeat:
    """`event` ran `count` times, each with its own randomness."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _check(self, checks.count, "count")
        _require_event("Repeat.event", self.event)


@dataclass(frozen=True, slots=True)
class Compose:
    """All of `events` ran, each with its own randomness. The empty composition released nothing."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, Iterable):
            raise InputError(f"Compose.events must be a sequence of events, got {self.events!r}")
        object.__setattr__(self, "events", tuple(self.events))
        for position, event in enumerate(self.events):
            _require_event(f"Compose.events[{position}]", event)


Sampled = Poisson | TruncatedPoisson | FixedSize | Epoch | Allocation | CyclicPoisson
Released = Gaussian | Individual | Laplace | BoundedRange | NoisyMax | SparseHistogram
Event = Released | Selection | Sampled | Repeat | Compose
"""What one draw of rows released, or several one after the other; frozen, and comparable by value."""

KINDS: dict[str, type] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "bounded_range": BoundedRange,
    "noisy_max": NoisyMax,
    "sparse_histogram": SparseHistogram,
    "selection": Selection,
    "poisson": Poisson,
    "truncated_poisson": TruncatedPoisson,
    "fixed_size": FixedSize,
    "epoch": Epoch,
    "allocation": Allocation,
    "cyclic_poisson": CyclicPoisson,
    "individual": Individual,
    "repeat": Repeat,
    "compose": Compose,
}
"""Every event by its published name. An entry never changes; new ones are added."""


def _check(event: object, check: Callable[[str, object], object], *names: str) -> None:
    """Replace fields of a new event by the values that `check` returns."""
    for name in names:
        object.__setattr__(event, name, check(name, getattr(event, name)))


def _query(name: str, value: object) -> Query:
    try:
        return Query(str(value))
    except ValueError:
        known = ", ".join(query.value for query in Query)
        raise InputError(f"unknown {name} {value!r}; known: {known}") from None


def _require_event(where: str, value: object) -> None:
    if type(value) not in KINDS.values():
        raise InputError(f"{where} must be an event, got {value!r}")
