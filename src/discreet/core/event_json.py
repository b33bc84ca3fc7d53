"""Events as JSON, by an explicit table of published names. An entry never changes; new ones are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discreet.core.errors import InputError
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
)
from discreet.core.trials import trials_from_json, trials_to_json


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
        case SparseHistogram(noise_multiplier, threshold):
            return {"event": "sparse_histogram", "noise_multiplier": noise_multiplier, "threshold": threshold}
        case Selection(inner, trials):
            return {"event": "selection", "of": to_json(inner), "trials": trials_to_json(trials)}
        case Poisson(rate, inner):
            return {"event": "poisson", "rate": rate, "of": to_json(inner)}
        case TruncatedPoisson(rate, capacity, population, inner):
            return {
                "event": "truncated_poisson",
                "rate": rate,
                "capacity": capacity,
                "population": population,
                "of": to_json(inner),
            }
        case FixedSize(population, batch, inner):
            return {"event": "fixed_size", "population": population, "batch": batch, "of": to_json(inner)}
        case Epoch(inner):
            return {"event": "epoch", "of": to_json(inner)}
        case Allocation(steps, chosen, inner):
            return {"event": "allocation", "steps": steps, "chosen": chosen, "of": to_json(inner)}
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
    "sparse_histogram": (
        {"noise_multiplier", "threshold"},
        lambda d: SparseHistogram(d["noise_multiplier"], d["threshold"]),
    ),
    "selection": ({"of", "trials"}, lambda d: Selection(from_json(d["of"]), trials_from_json(d["trials"]))),
    "poisson": ({"rate", "of"}, lambda d: Poisson(d["rate"], from_json(d["of"]))),
    "truncated_poisson": (
        {"rate", "capacity", "population", "of"},
        lambda d: TruncatedPoisson(d["rate"], d["capacity"], d["population"], from_json(d["of"])),
    ),
    "fixed_size": (
        {"population", "batch", "of"},
        lambda d: FixedSize(d["population"], d["batch"], from_json(d["of"])),
    ),
    "epoch": ({"of"}, lambda d: Epoch(from_json(d["of"]))),
    "allocation": ({"steps", "chosen", "of"}, lambda d: Allocation(d["steps"], d["chosen"], from_json(d["of"]))),
    "repeat": ({"count", "of"}, lambda d: Repeat(from_json(d["of"]), d["count"])),
    "compose": ({"of"}, _compose_from_json),
}
