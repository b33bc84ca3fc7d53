"""The events of a plan in a certificate, derived without the code that trains.

Events are counted in runs: (event as JSON data, how many times in a row), with equal neighbours together.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from discreet.core.errors import InputError

Runs = list[tuple[dict[str, Any], int]]

MOST_STEPS = 10**7
"""Plans and ledgers with more steps are refused, so that a stranger's certificate cannot keep its reader busy."""

_COARSEST = 2**16
"""Coefficients up to this leave room for whole numbers in float64."""

_UNCHANGING = ("flat", "automatic", "per_layer", "groups")
"""Clip rules whose sensitivity is the same in every step."""

_ROOM = 1.25
"""The data may have this many times the rows that a plan declares."""


def planned(plan: dict[str, Any]) -> Runs:
    """The events of the steps of a plan, in order. `InputError` for a sampler that is not known here."""
    sampling, noise = plan["sampling"], [(phase["multiplier"], phase["steps"]) for phase in plan["noise"]]
    kind, population = sampling["kind"], plan["population"]
    _check_length(steps for _, steps in noise)
    rates = plan.get("rates", [])
    if rates:
        return merged(_drawn_at(plan, noise, [(phase["rate"], phase["steps"]) for phase in rates]))
    if kind == "poisson":
        draw = {"event": "poisson", "rate": sampling["rate"]}
    elif kind == "none":
        return merged((_gaussian(multiplier), steps) for multiplier, steps in noise)
    elif kind == "truncated_poisson":
        bound = math.floor(_ROOM * population)
        draw = {"event": kind, "rate": sampling["rate"], "capacity": sampling["capacity"], "population": bound}
    elif kind == "fixed_size":
        draw = {"event": kind, "population": _whole(population), "batch": sampling["batch"]}
    elif kind == "shuffle":
        epochs = _periods(noise, math.ceil(_whole(population) / sampling["batch"]))
        return merged(({"event": "epoch", "of": _composition(epoch)}, 1) for epoch in epochs)
    elif kind == "allocation":
        draw = {"event": kind, "steps": sampling["period"], "chosen": sampling["chosen"]}
        periods = _periods(noise, sampling["period"])
        return merged((draw | {"of": _gaussian(_only(period))}, 1) for period in periods)
    elif kind == "individual":
        draw = {"event": kind, "steps": sampling["period"], "full": sampling["full"]}
        return merged((draw | {"of": _gaussian(_only(one))}, 1) for one in _periods(noise, sampling["period"]))
    elif kind == "cyclic_poisson":
        _check_correlated(plan)
        parts = len(sampling["coefficients"])
        draw = {"event": kind, "parts": parts, "rate": sampling["rate"], "of": _gaussian(_only(noise))}
        return merged((draw, 1) for _ in _periods(noise, parts))
    else:
        raise InputError(f"the sampler {kind!r} is not known to this verifier")
    return merged((draw | {"of": _gaussian(multiplier)}, steps) for multiplier, steps in noise)


def _drawn_at(
    plan: dict[str, Any], noise: list[tuple[float, int]], rates: list[tuple[float, int]]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Events of Poisson batches whose rate changes, with the noise and the rate of each step."""
    first = plan["sampling"]
    if first["kind"] != "poisson" or first["rate"] != rates[0][0]:
        raise InputError("only poisson batches can change over the steps, and they begin at the rate of the sampling")
    ends = [list(itertools.accumulate(steps for _, steps in phases)) for phases in (noise, rates)]
    if ends[0][-1] != ends[1][-1] or any(steps < 1 for _, steps in [*noise, *rates]):
        raise InputError("the phases of noise and of batches cover different numbers of steps")
    before = 0
    for end in sorted({*ends[0], *ends[1]}):
        multiplier, rate = (
            phases[bisect.bisect_left(marks, end)][0] for phases, marks in zip((noise, rates), ends, strict=True)
        )
        yield {"event": "poisson", "rate": rate, "of": _gaussian(multiplier)}, end - before
        before = end


def stated(event: dict[str, Any]) -> Runs:
    """The runs of a composition of repeated events, as certificates and ledgers write it."""
    if event["event"] != "compose" or any(part["event"] != "repeat" for part in event["of"]):
        raise InputError("the events must be one composition of repeated events")
    found = merged((part["of"], part["count"]) for part in event["of"])
    _check_length(count for _, count in found)
    return found


def composed(runs: Runs) -> dict[str, Any]:
    """Runs as one composition of repeated events, as `stated` reads it."""
    return {"event": "compose", "of": [{"event": "repeat", "count": count, "of": event} for event, count in runs]}


def _check_length(counts: Iterable[int]) -> None:
    if sum(counts) > MOST_STEPS:
        raise InputError(f"more than {MOST_STEPS:,} steps are not followed")


def begins_with(whole: Runs, part: Runs) -> bool:
    """Whether `whole` begins with `part`."""
    if not part:
        return True
    *full, (event, count) = part
    if whole[: len(full)] != full or len(whole) < len(part):
        return False
    following, room = whole[len(full)]
    return following == event and count <= room


def after(runs: Runs, events: int) -> Runs:
    """The rest of `runs` after the first `events` events, which may end inside a run of equal ones."""
    left: Runs = []
    for event, count in runs:
        dropped = min(events, count)
        events -= dropped
        if count > dropped:
            left.append((event, count - dropped))
    return left


def merged(runs: Iterable[tuple[dict[str, Any], int]]) -> Runs:
    """The runs with equal neighbours merged."""
    return [
        (event, sum(count for _, count in group)) for event, group in itertools.groupby(runs, key=lambda run: run[0])
    ]


def steps_in(runs: Runs) -> int:
    """The number of steps that the runs cover."""
    return sum(count * places(event) for event, count in runs)


def places(event: dict[str, Any]) -> int:
    """The number of steps that one event covers."""
    if event["event"] == "epoch":
        inner = event["of"]
        return sum(part["count"] for part in inner["of"]) if inner["event"] == "compose" else 1  # an epoch of one batch
    return int(event.get("steps") or event.get("parts") or 1)  # of a period, of cyclic Poisson batches


def _gaussian(multiplier: float) -> dict[str, Any]:
    return {"event": "gaussian", "noise_multiplier": multiplier, "query": "clipped_sum"}


def _composition(period: list[tuple[float, int]]) -> dict[str, Any]:
    if [count for _, count in period] == [1]:
        return _gaussian(period[0][0])
    parts = [{"event": "repeat", "count": count, "of": _gaussian(multiplier)} for multiplier, count in period]
    return {"event": "compose", "of": parts}


def _periods(noise: list[tuple[float, int]], length: int) -> Iterator[list[tuple[float, int]]]:
    """The noise in periods of `length` steps; an incomplete period at the end is an error."""
    period: list[tuple[float, int]] = []
    room = length
    for multiplier, steps in noise:
        while steps > 0:
            taken = min(steps, room)
            period.append((multiplier, taken))
            steps, room = steps - taken, room - taken
            if room == 0:
                yield period
                period, room = [], length
    if period:
        raise InputError(f"the steps of the plan are no multiple of the {length} steps of an epoch or period")


def _check_correlated(plan: dict[str, Any]) -> None:
    """Refuse what no theorem covers where a step's contribution reaches into later steps, and into the next round."""
    coefficients = plan["sampling"]["coefficients"]
    if len(coefficients) < 2 or sorted(coefficients, reverse=True) != coefficients or coefficients[0] > _COARSEST:
        raise InputError(f"coefficients are two or more whole numbers that do not rise, up to {_COARSEST}")
    if plan["clipping"]["kind"] not in _UNCHANGING:
        raise InputError("clipping changes between steps whose noise is correlated")
    if plan.get("odometer") is not None:
        raise InputError("an odometer reads steps whose noise is correlated")
    if any(metric["rows"] != "holdout" for metric in plan.get("metrics", [])):
        raise InputError("no metric of rows to train on can be bought where noise is correlated")


def _only(period: list[tuple[float, int]]) -> float:
    multipliers = {multiplier for multiplier, _ in period}
    if len(multipliers) > 1:
        raise InputError("the noise changes inside a period, or where it is correlated")
    return multipliers.pop()


def _whole(population: float) -> int:
    if population != math.floor(population):
        raise InputError(f"the population must be a whole number for this sampler, not {population!r}")
    return int(population)
