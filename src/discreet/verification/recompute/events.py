"""Reads from the JSON of a certificate's events the few numbers that the privacy loss depends on.

A Gaussian query with noise multiplier sigma tells neighbours apart like N(0, 1) from N(mu, 1), mu = r / sigma, where r
is the query's replace-one ratio (1 under add/remove and zero-out). Queries on one draw are one Gaussian query with mu^2
= sum of mu_k^2 (rotate the noise of all of them onto the difference of their means).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import betainc

from discreet.core.errors import InputError

MAX_DEPTH = 64
MAX_COUNT = 10**12
_RATIO = {
    "clipped_sum": 2.0,
    "centred_bit": 2.0,
    "covariance": math.sqrt(2.0),
    "count": 1.0,
    "histogram": math.sqrt(2.0),
    "loss": 2.0,
}
_FIELDS = {
    "gaussian": {"event", "noise_multiplier", "query"},
    "sparse_histogram": {"event", "noise_multiplier", "threshold"},
    "poisson": {"event", "rate", "of"},
    "truncated_poisson": {"event", "rate", "capacity", "population", "of"},
    "fixed_size": {"event", "population", "batch", "of"},
    "epoch": {"event", "of"},
    "allocation": {"event", "steps", "chosen", "of"},
    "cyclic_poisson": {"event", "parts", "rate", "of"},
    "individual": {"event", "steps", "full", "of"},
    "repeat": {"event", "count", "of"},
    "compose": {"event", "of"},
}


@dataclass(frozen=True, slots=True)
class Part:
    """`count` steps, in each of which a unit takes part with probability `rate` and then moves the output by `mu`.

    If `steps` is above 1: `count` periods of so many steps, in one of which, chosen at random, a unit takes part.
    `mu` carries a relative rounding error below 2^-49; whoever states a bound moves it outward by that. With a chance
    of `filled` others fill a batch of bounded size: then the unit, if it takes part, replaces another (`truncated`).
    """

    rate: float
    mu: float
    count: int
    steps: int = 1
    filled: float = 0.0
    replaced: float = 0.0


@dataclass(frozen=True, slots=True)
class Steps:
    """The parts to compose for the upper bound, and for the lower bound: parts that the events surely contain.

    `symmetric`: sampled parts are on batches of fixed size, and their upper bound is the symmetrised pair's.
    `overflow` bounds the probability that any truncated batch left someone out, `escapes` that a value which one row
    alone has was released. `truncated`: parts of the upper bound that need no `overflow`. `zero_out`: the adjacency.
    """

    upper: list[Part]
    lower: list[Part]
    symmetric: bool
    overflow: float
    escapes: float = 0.0
    truncated: tuple[Part, ...] = ()
    zero_out: bool = False

    @property
    def needs_delta(self) -> bool:
        """Whether a part of delta is needed for truncation or single rows, which no sum over steps covers."""
        return self.overflow > 0 or self.escapes > 0


@dataclass(frozen=True, slots=True)
class Draw:
    """`count` draws with probability `rate` and shift `mu`; `exact`: the bound is attained; and the part of delta that
    each needs. `steps`, `filled`, `replaced`: as in `Part`."""

    rate: float
    mu: float
    count: int
    exact: bool = True
    overflow: float = 0.0
    escape: float = 0.0
    steps: int = 1
    filled: float = 0.0
    replaced: float = 0.0


def parts(events: object, adjacency: object) -> Steps:
    """Merge equal steps, and all unsampled ones into one step (N(0,1) against N(mu,1) composes by mu^2). Sorted."""
    if adjacency not in ("add_remove", "zero_out", "replace_one"):
        raise InputError(f"unknown adjacency {adjacency!r}; known: add_remove, zero_out, replace_one")
    draws = list(_draws(events, str(adjacency), 0))
    if sum(draw.count for draw in draws) > MAX_COUNT:
        raise InputError(f"events: more than {MAX_COUNT} steps cannot be recomputed")
    overflow = math.fsum(draw.count * draw.overflow for draw in draws) * (1 + 2.0**-50)
    escapes = math.fsum(draw.count * draw.escape for draw in draws) * (1 + 2.0**-50)
    exact = [replace(draw, filled=0.0, replaced=0.0) for draw in draws if draw.exact]
    plain = [replace(draw, filled=0.0, replaced=0.0) for draw in draws]
    truncated = tuple(_merged(draws)) if overflow > 0 else ()
    pays = (overflow, escapes, truncated, adjacency == "zero_out")
    return Steps(_merged(plain), _merged(exact), adjacency == "replace_one", *pays)


def _merged(draws: list[Draw]) -> list[Part]:
    counts: dict[tuple[float, float, int, float, float], int] = {}
    for draw in draws:
        # Everybody is drawn: whether there is room for all is certain, and so is whether a unit replaces another.
        mu = draw.replaced if draw.rate == 1 and draw.filled > 0 else draw.mu
        room = (draw.filled, draw.replaced) if draw.rate < 1 else (0.0, 0.0)
        key = (draw.rate, mu, draw.steps, *room)
        counts[key] = counts.get(key, 0) + draw.count
    sampled = [
        Part(rate, mu, count, steps, filled, replaced)
        for (rate, mu, steps, filled, replaced), count in sorted(counts.items())
        if rate < 1
    ]
    whole = sorted(math.sqrt(count) * key[1] for key, count in counts.items() if key[0] == 1)
    return sampled + ([Part(1.0, math.hypot(*whole), 1)] if whole else [])


def _draws(event: object, adjacency: str, depth: int) -> Iterator[Draw]:
    """Every draw of the events, by the theorem for its sampler and adjacency; InputError if there is none."""
    replace_one = adjacency == "replace_one"
    match _checked(event, depth):
        case {"event": "gaussian"} as fields:
            yield Draw(1.0, _mu(fields, replace_one), 1)
        case {"event": "sparse_histogram", "noise_multiplier": noise, "threshold": threshold}:
            mu = _mu({"noise_multiplier": noise, "query": "histogram"}, replace_one)
            yield Draw(1.0, mu, 1, escape=_escape(positive("noise_multiplier", noise), threshold))
        case {"event": "poisson" | "truncated_poisson" as name, "rate": rate, "of": inner} as fields:
            if replace_one:
                raise InputError(f"event {name!r} under replace_one: no theorem of this verifier proves it")
            share, mu = _rate(rate), _joint(name, inner, False, depth)
            if mu > 0 and name == "poisson":
                yield Draw(share, mu, 1)
            elif mu > 0:
                room = (_filled(share, fields), _joint(name, inner, True, depth))
                yield Draw(share, mu, 1, True, _overflow(share, fields), 0.0, 1, *room)
        case {"event": "cyclic_poisson", "parts": parts, "rate": rate, "of": inner}:
            if replace_one:
                raise InputError("event 'cyclic_poisson' under replace_one: no theorem of this verifier proves it")
            # A unit has one turn in a round, and what it adds to all releases of the round is `inner` (2306.08153).
            share, _ = _rate(rate), _count(parts)
            if (mu := _joint("cyclic_poisson", inner, False, depth)) > 0:
                yield Draw(share, mu, 1)
        case {"event": "fixed_size", "batch": batch, "population": population, "of": inner}:
            size, total = _count(batch), _count(population)
            if size > total or not (replace_one or (size == total and adjacency == "zero_out")):
                raise InputError(f"event 'fixed_size' of {size} in {total} under {adjacency}: no theorem proves it")
            if (mu := _joint("fixed_size", inner, replace_one, depth)) > 0:
                yield Draw(1.0 if size == total else min(1.0, size / total * (1 + 2.0**-50)), mu, 1)
        case {"event": "epoch", "of": inner}:
            if adjacency == "add_remove":
                raise InputError("event 'epoch' under add_remove: disjoint batches shift, no theorem proves it")
            batches = list(_batches(inner, depth + 1))
            mus = [_joint("epoch", batch, replace_one, depth) for batch, _ in batches]
            # A unit is in one batch, whatever the others show: the dearest bounds it, even if it is known which.
            if any(mus):
                yield Draw(1.0, max(mus), 1, sum(count for _, count in batches) == 1)
        case {"event": "allocation", "steps": steps, "chosen": chosen, "of": inner}:
            of, taken = _count(steps), _count(chosen)
            if taken > of:
                raise InputError("event 'allocation': chosen must not exceed steps")
            mu = _joint("allocation", inner, replace_one, depth)
            block = 1 if replace_one else of // taken
            if mu > 0:
                yield Draw(1 / block, mu, taken, taken == of, steps=block)
        case {"event": "individual", "steps": steps, "full": full, "of": inner}:
            # To all steps together a unit adds at most what `full` steps at full length hold (replaced: twice that).
            if _count(full) > _count(steps) or _checked(inner, depth + 1).get("query") != "clipped_sum":
                raise InputError("event 'individual' is of clipped sums, and full must not exceed steps")
            if (mu := _joint("individual", inner, replace_one, depth)) > 0:
                yield Draw(1.0, mu, _count(full))
        case {"event": "repeat", "count": count, "of": inner}:
            times = _count(count)
            for draw in _draws(inner, adjacency, depth + 1):
                yield replace(draw, count=_count(times * draw.count))
        case {"of": inner}:
            for part in inner:
                yield from _draws(part, adjacency, depth + 1)


def _joint(name: str, inner: object, replace_one: bool, depth: int) -> float:
    """The joint shift of the queries on one draw: the root of the sum of squares; 0 for no query."""
    return math.hypot(*sorted(math.sqrt(n) * mu for mu, n in _queries(name, inner, replace_one, depth + 1)))


def _batches(event: object, depth: int) -> Iterator[tuple[object, int]]:
    """The batches of an epoch, as (event, how many): the members of a composition, those of a repetition."""
    fields = _checked(event, depth)
    for part in fields["of"] if fields["event"] == "compose" else [fields]:
        member = _checked(part, depth + 1)
        yield (member["of"], _count(member["count"])) if member["event"] == "repeat" else (member, 1)


def _overflow(rate: float, fields: Mapping[str, Any]) -> float:
    """An upper bound on P(Bin(population, rate) > capacity), n and m = capacity + 1 for short.

    P(Bin = m) <= exp(1 / 12n - n KL(m / n, rate)) sqrt(n / (2 pi m (n - m))) by Stirling's bounds, and from m on the
    probabilities fall at least by the ratio r = (n - m) rate / ((m + 1)(1 - rate)).
    """
    n, m = _count(fields["population"]), _count(fields["capacity"]) + 1
    if m > n:
        return 0.0
    if m <= n * rate or rate == 1:
        return 1.0
    rest = (n - m) * (math.log1p(-m / n) - math.log1p(-rate)) if m < n else 0.0
    exponent = m * (math.log(m / n) - math.log(rate)) + rest
    rounding = 2.0**-46 * (m * abs(math.log(rate)) + n * abs(math.log1p(-rate)) + m + (n - m) * 40) + 1e-9
    falls = (n - m) * rate / ((m + 1) * (1 - rate)) * (1 + 1e-12)
    if not (falls < 1 and exponent > rounding):
        return 1.0
    peak = 1 / (12 * n) - 0.5 * math.log(2 * math.pi * m * (n - m) / n) if m < n else 0.0
    return min(1.0, math.exp(peak - exponent + rounding) / (1 - falls) + 1e-300)


def _filled(rate: float, fields: Mapping[str, Any]) -> float:
    """An upper bound on P(Bin(population - 1, rate) >= capacity), by the regularised incomplete beta function.

    Assumed of scipy.special.betainc: an error of at most 1e-9 of its value, and 1e-15 (a test checks).
    """
    others, room = _count(fields["population"]) - 1, _count(fields["capacity"])
    if room > others:
        return 0.0
    return min(1.0, float(betainc(room, others - room + 1, rate)) * (1 + 1e-8) + 1e-14)


def _escape(noise: float, threshold: object) -> float:
    """An upper bound on P(1 + noise N(0, 1) > threshold). The neighbours' releases are a Gaussian pair, each mixed with
    at most this much of something else: delta is larger by it, in whatever composition."""
    above = positive("threshold", threshold)
    if not above > 1:
        raise InputError(f"threshold must be above 1, the count of one row, got {threshold!r}")
    return 0.5 * math.erfc((above - 1) / noise * math.sqrt(0.5) * (1 - 2.0**-49)) * (1 + 2.0**-44) + 1e-300


def _queries(name: str, event: object, replace_one: bool, depth: int) -> Iterator[tuple[float, int]]:
    """(mu, count) of the Gaussian queries on one draw; a draw inside a draw is refused."""
    fields = _checked(event, depth)
    if fields["event"] == "gaussian":
        yield _mu(fields, replace_one), 1
        return
    if fields["event"] not in ("repeat", "compose"):
        raise InputError(f"event {fields['event']!r} inside {name!r} cannot be recomputed")
    times = _count(fields["count"]) if fields["event"] == "repeat" else 1
    for part in fields["of"] if fields["event"] == "compose" else [fields["of"]]:
        for mu, n in _queries(name, part, replace_one, depth + 1):
            yield mu, _count(times * n)


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


def check_claim(claim: object) -> None:
    """`InputError` for a claimed epsilon that is not finite and at least 0."""
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not 0 <= claim < math.inf:
        raise InputError(f"claim must be finite and at least 0, got {claim!r}")


def _rate(value: object) -> float:
    result = positive("rate", value)
    if not result <= 1:
        raise InputError(f"rate must be at most 1, got {value!r}")
    return result


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise InputError(f"count must be a whole number from 1 to {MAX_COUNT} in all")
    return value
