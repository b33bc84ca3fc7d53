"""From the JSON of a certificate's events to the few numbers that the privacy loss depends on.

A Gaussian query with noise multiplier sigma tells neighbours apart like N(0, 1) from N(mu, 1), mu = r / sigma, where r
is the query's replace-one ratio (1 under add/remove and zero-out). Queries on one draw are one Gaussian query with mu^2
= sum of mu_k^2 (rotate the noise of all of them onto the difference of their means).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import InputError

MAX_DEPTH = 64
MAX_COUNT = 10**12
_RATIO = {
    "clipped_sum": 2.0,
    "centred_bit": 2.0,
    "covariance": math.sqrt(2.0),
    "count": 1.0,
    "histogram": math.sqrt(2.0),
}
_FIELDS = {
    "gaussian": {"event", "noise_multiplier", "query"},
    "poisson": {"event", "rate", "of"},
    "repeat": {"event", "count", "of"},
    "compose": {"event", "of"},
}


@dataclass(frozen=True, slots=True)
class Part:
    """`count` steps, in each of which a unit takes part with probability `rate` and then moves the output by `mu`.

    `mu` carries a relative rounding error below 2^-49; whoever states a bound moves it outward by that.
    """

    rate: float
    mu: float
    count: int


def parts(events: object, adjacency: object) -> list[Part]:
    """Merge equal steps, and all unsampled ones into one step (N(0,1) against N(mu,1) composes by mu^2). Sorted."""
    if adjacency not in ("add_remove", "zero_out", "replace_one"):
        raise InputError(f"unknown adjacency {adjacency!r}; known: add_remove, zero_out, replace_one")
    counts: dict[tuple[float, float], int] = {}
    for rate, mu, count in _steps(events, adjacency == "replace_one", 0):
        counts[rate, mu] = counts.get((rate, mu), 0) + count
    if sum(counts.values()) > MAX_COUNT:
        raise InputError(f"events: more than {MAX_COUNT} steps cannot be recomputed")
    sampled = [Part(rate, mu, count) for (rate, mu), count in sorted(counts.items()) if rate < 1]
    whole = sorted(math.sqrt(count) * mu for (rate, mu), count in counts.items() if rate == 1)
    return sampled + ([Part(1.0, math.hypot(*whole), 1)] if whole else [])


def _steps(event: object, replace_one: bool, depth: int) -> Iterator[tuple[float, float, int]]:
    """Yield (rate, mu, count) of every draw."""
    match _checked(event, depth):
        case {"event": "gaussian"} as fields:
            yield 1.0, _mu(fields, replace_one), 1
        case {"event": "poisson", "rate": rate, "of": inner}:
            if replace_one:
                raise InputError("event 'poisson' under replace_one: no theorem of this verifier proves it")
            draws = [math.sqrt(n) * mu for _, mu, n in _unsampled(inner, depth + 1)]
            if draws:
                yield _rate(rate), math.hypot(*sorted(draws)), 1
        case {"event": "repeat", "count": count, "of": inner}:
            times = _count(count)
            for rate, mu, n in _steps(inner, replace_one, depth + 1):
                yield rate, mu, _count(times * n)
        case {"of": inner}:
            for part in inner:
                yield from _steps(part, replace_one, depth + 1)


def _unsampled(event: object, depth: int) -> Iterator[tuple[float, float, int]]:
    """The Gaussian queries on one Poisson draw; a draw inside a draw is refused."""
    fields = _checked(event, depth)
    if fields["event"] == "poisson":
        raise InputError("event 'poisson' inside 'poisson' cannot be recomputed")
    if fields["event"] == "gaussian":
        yield 1.0, _mu(fields, False), 1
        return
    times = _count(fields["count"]) if fields["event"] == "repeat" else 1
    for part in fields["of"] if fields["event"] == "compose" else [fields["of"]]:
        for rate, mu, n in _unsampled(part, depth + 1):
            yield rate, mu, _count(times * n)


def _checked(event: object, depth: int) -> Mapping[str, Any]:
    """An object with a known name and exactly its fields; a bare list is a composition."""
    if depth > MAX_DEPTH:
        raise InputError(f"events are nested more than {MAX_DEPTH} deep")
    if isinstance(event, list):
        event = {"event": "compose", "of": event}
    name = event.get("event") if isinstance(event, Mapping) else None
    if not isinstance(event, Mapping) or not isinstance(name, str) or name not in _FIELDS:
        raise InputError(f"event {str(name or event)[:80]!r} cannot be recomputed; known: {', '.join(sorted(_FIELDS))}")
    if set(event) != _FIELDS[name]:
        raise InputError(
            f"event {name!r} needs exactly the fields {sorted(_FIELDS[name])}, got {sorted(map(str, event))}"
        )
    if name == "compose" and not isinstance(event["of"], list):
        raise InputError("event 'compose' needs a list in 'of'")
    return event


def _mu(fields: Mapping[str, Any], replace_one: bool) -> float:
    query = fields["query"]
    if not isinstance(query, str) or query not in _RATIO:
        raise InputError(f"unknown query {query!r}; known: {', '.join(sorted(_RATIO))}")
    return (_RATIO[query] if replace_one else 1.0) / positive("noise_multiplier", fields["noise_multiplier"])


def positive(name: str, value: object) -> float:
    """A finite float above zero. NaN and booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise InputError(f"{name} must be finite and greater than 0, got {value!r}")
    return float(value)


def _rate(value: object) -> float:
    result = positive("rate", value)
    if not result <= 1:
        raise InputError(f"rate must be at most 1, got {value!r}")
    return result


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise InputError(f"count must be a whole number from 1 to {MAX_COUNT} in all")
    return value
