"""A plain plan of Poisson batches, with some fields set otherwise."""

from typing import Any

from discreet import Plan

GOOD: dict[str, Any] = {
    "population": 1000,
    "batch": 100,
    "steps": 20,
    "clip_norm": 1.0,
    "delta": 1e-5,
    "noise_multiplier": 1.1,
}


def make(**changes: Any) -> Plan:
    return Plan.poisson(**(GOOD | changes))
