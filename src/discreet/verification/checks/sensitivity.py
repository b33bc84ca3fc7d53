"""Checks that the stated sensitivity follows from the plan's clip rule, without the code that clips.

They cover arithmetic and completeness: possible parameters of the rule, groups that contain each trained tensor once,
and the rule's sensitivity. Whether training really clipped like this is for audits and tests.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

RULES: Mapping[str, str] = {
    "flat": "the clip norm",
    "scheduled": "the clip norm of the step",
    "automatic": "the clip norm, which norm x length / (length + gamma) never reaches",
    "per_layer": "root of the sum of the squared norms of disjoint groups, one for each module with parameters",
    "groups": "root of the sum of the squared norms of disjoint groups",
    "adaptive": "gradient and centred bit are one vector: clip norm / sqrt(1 - (noise multiplier / bit multiplier)^2)",
    "ellipsoid": "the clip norm, of gradients divided by public scales",
    "box": "root of the number of coordinates, of gradients divided by public scales and cut to [-1, 1]",
}

_FIELDS: Mapping[str, set[str]] = {
    "flat": {"norm"},
    "scheduled": {"phases"},
    "automatic": {"norm", "gamma"},
    "per_layer": {"norm"},
    "groups": {"norms"},
    "adaptive": {"initial", "bit_multiplier", "quantile", "rate", "floor", "cap"},
    "ellipsoid": {"norm", "scales"},
    "box": {"scales"},
}

_STATED: Mapping[str, set[str]] = {
    "per_layer": {"groups", "aliases"},
    "groups": {"groups", "aliases"},
    "box": {"coordinates", "aliases"},
}
"""Further fields on clipping in a certificate, by rule."""

_MOST_COMPARED, _MOST_LETTERS, _LONGEST = 10**7, 10**10, 1000
"""Of groups by pattern: the most pairs of name and pattern, the most pairs of their letters, the longest pattern."""

_CLOSE = 1e-9
"""The largest difference between a stated figure and the recomputed one."""


def check_clipping(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> tuple[bool, str]:
    """Whether the stated sensitivity is that of the plan's clipping.

    `sizes` and `digests`: how many numbers each tensor of the model has, and its digest.
    """
    spec, stated = facts["plan"]["clipping"], facts["clipping"]
    kind = spec["kind"]
    if kind not in RULES:
        return False, f"clipping of kind {kind!r} is not known to this verifier"
    if set(spec) != _FIELDS[kind] | {"kind"}:
        return False, f"{kind} clipping has other settings than {', '.join(sorted(_FIELDS[kind]))}"
    if set(stated) != {"rule", "sensitivity"} | _STATED.get(kind, set()):
        return False, f"what is stated of {kind} clipping is that of another kind"
    if stated["rule"] != RULES[kind]:
        return False, f"the stated rule for the sensitivity is not that of {kind} clipping"
    fault = _FAULTS.get(kind, _plain_fault)(facts, sizes, digests)
    if fault is not None:
        return False, fault
    return True, f"{kind} clipping; the sensitivity is {RULES[kind]}"


def _plain_fault(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> str | None:
    """Flat, automatic, ellipsoid: the norm itself."""
    spec = facts["plan"]["clipping"]
    if not _positive(spec["norm"]) or not _positive(spec.get("gamma", 1.0)):
        return "the clip norm, or gamma, is not a positive number"
    if not _equal(facts["clipping"]["sensitivity"], spec["norm"]):
        return f"the stated sensitivity is not the clip norm {spec['norm']!r}"
    return None


def _scheduled_fault(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> str | None:
    plan = facts["plan"]
    phases = [[phase["norm"], phase["steps"]] for phase in plan["clipping"]["phases"]]
    if not phases or any(not _positive(norm) or type(steps) is not int or steps < 1 for norm, steps in phases):
        return "a phase of the clip norm is not a positive number for a positive number of steps"
    steps = plan["most_steps"] if "most_steps" in plan else sum(phase["steps"] for phase in plan["noise"])
    if sum(phase[1] for phase in phases) != steps:
        return f"the phases of the clip norm do not cover the plan's {steps} steps"
    return None if facts["clipping"]["sensitivity"] == phases else "the stated sensitivities are not the clip norms"


def _groups_fault(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> str | None:
    """Every trained tensor is in the group that the plan says, and in no other."""
    spec, stated = facts["plan"]["clipping"], facts["clipping"]
    fault = _alias_fault(facts, digests)
    if fault is not None:
        return fault
    names = [name for name in facts["model"]["private"] if name not in stated["aliases"]]
    if spec["kind"] == "groups" and _is_long(names, spec["norms"]):
        return "more groups and trained tensors, or longer names, than are compared"
    wanted: dict[str, set[str]] = {}
    for name in names:
        if spec["kind"] == "per_layer":
            inside = [name.rpartition(".")[0]]
        else:
            inside = [pattern for pattern in spec["norms"] if fnmatchcase(name, pattern)]
        if len(inside) != 1:
            return f"trained tensor {name!r} is in {len(inside)} groups of the plan"
        wanted.setdefault(inside[0], set()).add(name)
    if {key: sorted(group["parameters"]) for key, group in stated["groups"].items()} != {
        key: sorted(group) for key, group in wanted.items()
    }:
        return "the stated groups are not those of the plan"
    norms = {key: spec["norm"] if spec["kind"] == "per_layer" else spec["norms"][key] for key in wanted}
    if any(not _positive(norm) or stated["groups"][key]["norm"] != norm for key, norm in norms.items()):
        return "the norm of a stated group is not that of the plan"
    if spec["kind"] == "groups" and set(spec["norms"]) != set(wanted):
        return "a group of the plan has no trained tensor"
    root = math.sqrt(math.fsum(norm * norm for norm in norms.values()))
    if not _equal(stated["sensitivity"], root):
        return f"the stated sensitivity {stated['sensitivity']!r} is not the root of the squared norms, {root!r}"
    return None


def _is_long(names: Collection[str], patterns: Collection[str]) -> bool:
    """Whether comparing all names with all patterns would keep a stranger's reader busy."""
    compared = sum(map(len, names)) * sum(map(len, patterns))
    return len(names) * len(patterns) > _MOST_COMPARED or compared > _MOST_LETTERS or max(map(len, patterns)) > _LONGEST


def _adaptive_fault(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> str | None:
    spec = facts["plan"]["clipping"]
    if not all(_positive(spec[name]) for name in ("initial", "bit_multiplier", "rate", "quantile", "floor", "cap")):
        return "a setting of adaptive clipping is not a positive number"
    if not (spec["floor"] <= spec["initial"] <= spec["cap"] and spec["quantile"] < 1):
        return "adaptive clipping starts outside its bounds, or its quantile is not below 1"
    used = sorted(_multipliers(facts["events"]))
    if not used or not used[-1] < spec["bit_multiplier"]:
        return "the bit has no more noise than the whole release, of which it is a part"
    stated = facts["clipping"]["sensitivity"]
    ratios = [1 / math.sqrt(1 - (z / spec["bit_multiplier"]) ** 2) for z in used]
    if [pair[:1] for pair in stated] != [[z] for z in used] or not all(
        len(pair) == 2 and _equal(pair[1], ratio) for pair, ratio in zip(stated, ratios, strict=True)
    ):
        return "the stated sensitivity is not that of gradient and bit together"
    return None


def _box_fault(facts: Mapping[str, Any], sizes: Mapping[str, int], digests: Mapping[str, str]) -> str | None:
    stated = facts["clipping"]
    fault = _alias_fault(facts, digests)
    if fault is not None:
        return fault
    count = sum(sizes[name] for name in facts["model"]["private"] if name not in stated["aliases"])
    if stated["coordinates"] != count or not _equal(stated["sensitivity"], math.sqrt(count)):
        return f"the stated sensitivity is not the root of the {count} trained numbers"
    return None


def _alias_fault(facts: Mapping[str, Any], digests: Mapping[str, str]) -> str | None:
    """Names that count once with another must be trained tensors with the same content."""
    aliases, private = facts["clipping"]["aliases"], set(facts["model"]["private"])
    for alias, name in aliases.items():
        if alias not in private or name not in private or name in aliases or digests[alias] != digests[name]:
            return f"{alias!r} is not another name of a trained tensor"
    return None


def _multipliers(event: Any) -> set[float]:
    """The noise multipliers of all clipped sums in an event as JSON."""
    if isinstance(event, list):
        return set().union(*(_multipliers(part) for part in event))
    if not isinstance(event, dict):
        return set()
    if event.get("event") == "gaussian":
        return {event["noise_multiplier"]} if event["query"] == "clipped_sum" else set()
    return _multipliers(event.get("of"))


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _equal(stated: Any, wanted: float) -> bool:
    return _positive(stated) and abs(stated - wanted) <= _CLOSE * wanted


_FAULTS = {
    "scheduled": _scheduled_fault,
    "per_layer": _groups_fault,
    "groups": _groups_fault,
    "adaptive": _adaptive_fault,
    "box": _box_fault,
}
