"""The JSON Schema of certificates, made from the types that write them; `certificate.schema.json` is its text.

`python -m discreet.publication.certificate_schema` writes the text anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.accounting.adaptive import filters, odometers
from discreet.certificate.files import FORMATS, RELEASED, SCHEMA
from discreet.core import events, trials
from discreet.core.adjacency import Adjacency, Query, Unit
from discreet.core.assumptions import ENGINES, LEAST_BITS, MOST_BITS, NOISE
from discreet.core.events.event_json import fields_of
from discreet.plan import AdaptivePlan, Plan

PATH = Path(__file__).parents[1] / "certificate" / SCHEMA

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_POSITIVE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
_ENTRY: dict[str, Any] = {"type": "integer", "minimum": 1}
_RATE: dict[str, Any] = _POSITIVE | {"maximum": 1}
_HASH: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PREFIXED: dict[str, Any] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_EVENT = {"$ref": "#/$defs/Event"}
_WHOM: dict[str, Any] = {
    "adjacency": {"enum": [kind.value for kind in Adjacency]},
    "unit": {"enum": [kind.value for kind in Unit]},
}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


_BY_TYPE: Mapping[str, dict[str, Any]] = {
    "float": _POSITIVE,
    "int": _ENTRY,
    "Amounts": _list(_POSITIVE),
    "Conversion": {"enum": [kind.value for kind in filters.Conversion]},
    "Adjacency": _WHOM["adjacency"],
    "Unit": _WHOM["unit"],
    "Query": {"enum": [query.value for query in Query]},
    "Event": _EVENT,
    "tuple[Event, ...]": _list(_EVENT),
    "Trials": {"$ref": "#/$defs/Trials"},
}
_BY_NAME: Mapping[str, dict[str, Any]] = {
    "slope": _NUMBER,
    "shape": _NUMBER,
    "rate": _RATE,
    "threshold": {"type": "number", "exclusiveMinimum": 1},
    "delta": _POSITIVE | {"exclusiveMaximum": 1},
}
"""Fields with special bounds."""


def certificate_schema() -> dict[str, Any]:
    """Every field of a certificate with its type; fields that are not named are refused."""
    found = _object(_SECTIONS, optional=("released", "public_batches", "canaries", "base", "warm_start"))
    defs: dict[str, Any] = {
        "Event": _declared("event", events.KINDS),
        "Filter": _declared("filter", filters.KINDS),
        "Odometer": _declared("odometer", odometers.KINDS),
        "Trials": _declared("law", trials.LAWS),
    }
    for model in (Plan, AdaptivePlan):
        made = model.model_json_schema(mode="serialization", ref_template="#/$defs/{model}")
        inner = made.pop("$defs")
        for name, schema in {**inner, model.__name__: made}.items():
            defs[name] = _whole(schema)
    _point(defs, "Event", ("Plan", "before"), ("AdaptivePlan", "before"))
    _point(defs, "Filter", ("AdaptivePlan", "filter"))
    _point(defs, "Odometer", ("Reading", "odometer"))
    _point(defs, "Trials", ("Search", "trials"))
    for owner, field, digests in (
        *((owner, "initial_state", _or_null(_PREFIXED)) for owner in ("Plan", "AdaptivePlan")),
        *((owner, "initial_states", _list(_PREFIXED)) for owner in ("Search", "PartsSearch")),
    ):
        defs[owner]["properties"][field] = digests
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Privacy certificate of a published model",
        **found,
        "$defs": dict(sorted(defs.items())),
    }


def text() -> str:
    """The schema as text, as it is shipped."""
    return json.dumps(certificate_schema(), indent=1) + "\n"


def _object(properties: Mapping[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}


def _declared(what: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """One variant for each kind of a frozen record: events, filters, odometers, laws of trials."""
    return {
        "oneOf": [
            _object(
                {what: {"const": name}}
                | {one.published: _BY_NAME.get(one.name, _BY_TYPE[one.type]) for one in fields_of(kind)}
            )
            for name, kind in kinds.items()
        ]
    }


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """A class's schema as it is written to certificates: every field is required; no defaults, no titles."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "default", "discriminator")}
    for key, value in kept.items():
        if key == "properties":
            kept[key] = {name: _whole(inner) for name, inner in value.items()}
        elif isinstance(value, dict):
            kept[key] = _whole(value)
        elif isinstance(value, list):
            kept[key] = [_whole(one) if isinstance(one, dict) else one for one in value]
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
    return kept


def _point(defs: dict[str, Any], name: str, *places: tuple[str, str]) -> None:
    """Add the schema of a field that its class decodes by itself."""
    for owner, field in places:
        listed = defs[owner]["properties"][field].get("type") == "array"
        reference = {"$ref": f"#/$defs/{name}"}
        defs[owner]["properties"][field] = _list(reference) if listed else reference


_CLAIM: dict[str, Any] = {
    "kind": {"const": "guarantee"},
    "epsilon": {"type": "number", "minimum": 0},
    "lower": _or_null({"type": "number", "minimum": 0}),
    "delta": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    **_WHOM,
    "method": _TEXT,
}

_EARLIER = {
    "run": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "epsilon": _or_null(_CLAIM["epsilon"]),
    "delta": _CLAIM["delta"],
    "adjacency": {"$ref": "#/$defs/Adjacency"},
    "unit": {"$ref": "#/$defs/Unit"},
}

_STARTED: dict[str, Any] = {
    "engine": {"enum": list(ENGINES)},
    "float_bits": _or_null({"type": "integer", "minimum": LEAST_BITS, "maximum": MOST_BITS}),
    "noise": {"enum": list(NOISE)},
    "randomness": _TEXT,
    "lanes": _ENTRY,
    "sites": _ENTRY,
}

_ATTEMPT = _STARTED | {"engine": {"enum": [*ENGINES, "queries"]}}

_RUN = {
    "plan": _PREFIXED,
    "epsilon": _CLAIM["epsilon"],
    "delta": _CLAIM["delta"],
    **_WHOM,
    "filter": {"$ref": "#/$defs/Filter"},
}


def _ledger_entry(kind: str, body: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    counts = dict.fromkeys(("attempt", "position", "steps"), _COUNT)
    return _object({"kind": {"const": kind}, "run": _TEXT, **counts, "body": body, **more})


_LEDGER = {
    "entries": _list(
        {
            "oneOf": [
                _ledger_entry("run", _object(_RUN, optional=("filter",))),
                _ledger_entry("attempt", _object(_ATTEMPT, optional=("float_bits", "lanes", "sites"))),
                _ledger_entry("reservation", _EVENT),
                _ledger_entry("release", _object({})),
                _ledger_entry("blocks", _EVENT, steps=_ENTRY, times={"type": "integer", "minimum": 2}),
            ]
        }
    ),
    "digest": _HASH,
    "head": _object({"number": _COUNT, "seal": _HASH}),
}

_EX_POST = {
    "kind": {"const": "ex_post"},
    "reading": _or_null({"type": "number", "minimum": 0}),
    "delta": _CLAIM["delta"],
    **_WHOM,
    "method": _TEXT,
    "charged_steps": _ENTRY,
    "sentence": _TEXT,
}

_GROUP = _object({"norm": _POSITIVE, "parameters": _list(_TEXT)})
_CLIPPING = {
    "rule": _TEXT,
    "sensitivity": {"anyOf": [_POSITIVE, _list(_list(_POSITIVE))]},
    "groups": {"type": "object", "additionalProperties": _GROUP},
    "coordinates": _ENTRY,
    "aliases": {"type": "object", "additionalProperties": _TEXT},
}

_BOUGHT = {"step": _ENTRY, "metric": _TEXT, "value": _NUMBER, "standard_deviation": _NUMBER}


def _said(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, **schema}


_SECTIONS: dict[str, Any] = {
    "format": _said({"enum": list(FORMATS)}, "The version of this schema."),
    "claim": _said(_object(_CLAIM), "What is promised: (epsilon, delta) for one unit, and the theorem."),
    "plan": _said({"oneOf": [{"$ref": "#/$defs/Plan"}, {"$ref": "#/$defs/AdaptivePlan"}]}, "Public facts of the run."),
    "plan_fingerprint": _said(_PREFIXED, "SHA-256 of the canonical form of the plan."),
    "events": _said(_EVENT, "What was released, as far as privacy depends on it; epsilon is recomputed from it."),
    "clipping": _said(
        _object(_CLIPPING, optional=("groups", "coordinates", "aliases")), "How far one unit can move a step."
    ),
    "charged_steps": _said(_ENTRY, "Steps, and metrics bought between them, that the ledger holds."),
    "ex_post": _said(_or_null(_object(_EX_POST)), "What an odometer read at the end; no guarantee."),
    "search": _said(
        _or_null(_object({"winner": {"type": "object"}, "epsilon_of_one_run": {"type": "number", "minimum": 0}})),
        "Of a search for settings: those of the winner, and what one run would have cost.",
    ),
    "ledger": _said(_object(_LEDGER), "All entries of the run, their digest, and where the chain stood."),
    "mechanism": _said(
        _object({"sampler": _TEXT, **_STARTED, "grid_bits": _COUNT}, optional=("lanes", "sites")),
        "What carried the plan out. With lanes, several processes may have shared out every batch; with sites, each "
        "lane is drawn from the rows of one site.",
    ),
    "assumptions": _said(_list(_TEXT), "What the claim rests on beside its theorem."),
    "model": _said(
        _object(
            {
                "file": {"const": "model.safetensors"},
                "sha256": _HASH,
                "private": _list(_TEXT),
                "initial": {"type": "object", "additionalProperties": _HASH},
            }
        ),
        "The model: its hash, the tensors that were trained, and digests of all tensors before training.",
    ),
    "public_evaluations": _said(
        _list(
            {
                "type": "object",
                "properties": {"step": _COUNT},
                "required": ["step"],
                "additionalProperties": _NUMBER,
            }
        ),
        "Metrics on data declared public.",
    ),
    "bought_metrics": _said(_list(_object(_BOUGHT)), "Metrics on private rows, each of them paid for."),
    "software": _said({"type": "object", "additionalProperties": _TEXT}, "Names and versions."),
    "released": _said(
        _object({"file": {"const": RELEASED}, "sha256": _HASH, "tensors": _list(_TEXT)}),
        "What queries before the first step released and predictions need.",
    ),
    "public_batches": _said(
        _object(
            {
                "weight": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                "rows": _ENTRY,
                "batch": _ENTRY,
                "sha256": _HASH,
            }
        ),
        "Public rows whose exact mean gradient joins every step, and its weight.",
    ),
    "canaries": _said(
        _object({"count": _ENTRY, "others": _ENTRY, "sha256": _HASH}),
        "Made-up texts among the training rows, public, each a unit; how many might have been chosen instead.",
    ),
    "base": _said(
        _object(
            {
                "name": {"type": "string", "pattern": "^[!-~]{1,200}$"},
                "revision": {"anyOf": [{"type": "string", "pattern": "^[!-~]{1,200}$"}, {"type": "null"}]},
                "sha256": _HASH,
            }
        ),
        "The model below adapters: its public name, its revision, and the hash of its weights.",
    ),
    "warm_start": _said(
        _list(_object(_EARLIER)) | {"minItems": 1},
        "Other private runs that released weights which training started from; the claim does not cover them.",
    ),
    "files": _said({"type": "object", "additionalProperties": _HASH}, "Hashes of the other files of the folder."),
}


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
