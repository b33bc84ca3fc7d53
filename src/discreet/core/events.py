"""Events: immutable descriptions of what was released, and nothing else.

An event says which mechanism ran, never what came out. It is what the ledger stores, what a plan
predicts, what accountants interpret and what a certificate lists. **A published event never changes
meaning**: a mechanism that differs gets an event of another name.

An accountant may decline an event; it then raises `NotProved` and names the part that it declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from discreet.core import checks
from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials, trials_from_json, trials_to_json


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise was added to one query.

    `noise_multiplier` = noise standard deviation / one unit's largest contribution to the query.
    `query` tells how far the query moves when a unit is replaced (see `sensitivity_ratio`).
    """

    noise_multiplier: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", checks.positive("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "query", _query(self.query))


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of one scale was added to every number of a query.

    `scale_multiplier` = scale b of the noise (density exp(-|x| / b) / 2b) / one unit's largest contribution to the
    query in L1 norm. `query` tells how far the query moves when a unit is replaced (see `sensitivity_ratio`).
    """

    scale_multiplier: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale_multiplier", checks.positive("scale_multiplier", self.scale_multiplier))
        object.__setattr__(self, "query", _query(self.query))


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """One candidate was chosen by the exponential mechanism, that is the one of largest score plus Gumbel noise.

    `epsilon` = the range of the privacy loss under add/remove and zero-out: between neighbours the log-probabilities
    of all candidates move by amounts that differ by at most `epsilon` (Durfee and Rogers 2019). With Gumbel noise of
    scale b on scores that one unit moves by at most D, that is 2 D / b, or D / b if one unit moves all scores in the
    same direction. `query` tells how much more a replacement moves (see `sensitivity_ratio`).
    """

    epsilon: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        object.__setattr__(self, "query", _query(self.query))


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """The candidate of largest score plus Laplace or exponential noise was chosen, the noisy scores kept secret.

    `epsilon` = its pure guarantee under add/remove and zero-out: with noise of scale b on scores that one unit moves
    by at most D, that is 2 D / b, or D / b if one unit moves all scores in the same direction (Dwork and Roth 2014,
    section 3.3; McKenna and Sheldon 2020). `query` as in `BoundedRange`.
    """

    epsilon: float
    query: Query = Query.CLIPPED_SUM

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        object.__setattr__(self, "query", _query(self.query))


@dataclass(frozen=True, slots=True)
class Selection:
    """`event` ran K times, K secret with the law `trials`, and only the best result by a public order was released.

    Random stopping: Liu and Talwar 2019, Papernot and Steinke 2022. `event` is all that one trial reads.
    """

    event: Event
    trials: Trials

    def __post_init__(self) -> None:
        _require_event("Selection.event", self.event)
        if not isinstance(self.trials, NegativeBinomialTrials | PoissonTrials):
            raise InputError(f"Selection.trials must be the law of K, got {self.trials!r}")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Every unit took part in `event` independently with probability `rate`.

    All queries on one draw are one event: `Poisson(rate, Compose((query, query)))`.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checks.rate("rate", self.rate))
        _require_event("Poisson.event", self.event)


@dataclass(frozen=True, slots=True)
class Repeat:
    """`event` ran `count` times, each with its own randomness."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checks.count("count", self.count))
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


Event = Gaussian | Laplace | BoundedRange | NoisyMax | Selection | Poisson | Repeat | Compose


def flatten(event: Event, times: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield `(event, count)` pairs of events that are neither `Repeat` nor `Compose`.

    This is the one place where counts are multiplied; no accountant handles a count by itself.
    """
    if isinstance(event, Repeat):
        yield from flatten(event.event, times * event.count)
    elif isinstance(event, Compose):
        for part in event.events:
            yield from flatten(part, times)
    else:
        yield event, times


def tally(event: Event) -> dict[Event, int]:
    """Count equal elementary events. The order of first appearance is kept; accounting does not depend on it."""
    totals: dict[Event, int] = {}
    for part, times in flatten(event):
        totals[part] = totals.get(part, 0) + times
    return totals


def to_json(event: Event) -> dict[str, Any]:
    """Encode an event as JSON-ready data under its published name; `from_json` is the inverse."""
    match event:
        case Gaussian(noise_multiplier, query):
            return {"event": "gaussian", "noise_multiplier": noise_multiplier, "query": query.value}
        case Laplace(scale_multiplier, query):
            return {"event": "laplace", "scale_multiplier": scale_multiplier, "query": query.value}
        case BoundedRange(epsilon, query):
            return {"event": "bounded_range", "epsilon": epsilon, "query": query.value}
        case NoisyMax(epsilon, query):
            return {"event": "noisy_max", "epsilon": epsilon, "query": query.value}
        case Selection(inner, trials):
            return {"event": "selection", "of": to_json(inner), "trials": trials_to_json(trials)}
        case Poisson(rate, inner):
            return {"event": "poisson", "rate": rate, "of": to_json(inner)}
        case Repeat(inner, count):
            return {"event": "repeat", "count": count, "of": to_json(inner)}
        case Compose(parts):
            return {"event": "compose", "of": [to_json(part) for part in parts]}


def from_json(data: object) -> Event:
    """Decode what `to_json` made. Unknown names, missing or extra fields are an `InputError`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("event"), str):
        raise InputError(f"an event must be an object with a field 'event', got {data!r}")
    name = data["event"]
    if name not in _DECODERS:
        raise InputError(f"unknown event {name!r}; known: {', '.join(sorted(_DECODERS))}")
    fields, decode = _DECODERS[name]
    given = set(data) - {"event"}
    if given != fields:
        raise InputError(f"event {name!r} needs exactly the fields {sorted(fields)}, got {sorted(given)}")
    return decode(data)


def _compose_from_json(data: Mapping[str, Any]) -> Event:
    if not isinstance(data["of"], list):
        raise InputError("event 'compose' needs a list in 'of'")
    return Compose(tuple(from_json(part) for part in data["of"]))


_DECODERS: dict[str, tuple[set[str], Callable[[Mapping[str, Any]], Event]]] = {
    "gaussian": ({"noise_multiplier", "query"}, lambda d: Gaussian(d["noise_multiplier"], d["query"])),
    "laplace": ({"scale_multiplier", "query"}, lambda d: Laplace(d["scale_multiplier"], d["query"])),
    "bounded_range": ({"epsilon", "query"}, lambda d: BoundedRange(d["epsilon"], d["query"])),
    "noisy_max": ({"epsilon", "query"}, lambda d: NoisyMax(d["epsilon"], d["query"])),
    "selection": ({"of", "trials"}, lambda d: Selection(from_json(d["of"]), trials_from_json(d["trials"]))),
    "poisson": ({"rate", "of"}, lambda d: Poisson(d["rate"], from_json(d["of"]))),
    "repeat": ({"count", "of"}, lambda d: Repeat(from_json(d["of"]), d["count"])),
    "compose": ({"of"}, _compose_from_json),
}


def _query(value: object) -> Query:
    try:
        return Query(str(value))
    except ValueError:
        known = ", ".join(query.value for query in Query)
        raise InputError(f"unknown query {value!r}; known: {known}") from None


def _require_event(where: str, value: object) -> None:
    if not isinstance(value, get_args(Event)):
        raise InputError(f"{where} must be an event, got {value!r}")
