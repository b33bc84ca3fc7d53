"""Checks of made-up texts among the training rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.certificate.declared_canaries import canaries_fault
from discreet.certificate.files import read
from discreet.certificate.model_spec import ModelSpec


def check(facts: Mapping[str, Any], folder: Path) -> tuple[bool, str]:
    """Check that the declared texts are those that model.json shows. Exposures are the publisher's word."""
    declared, plan = facts.get("canaries"), facts["plan"]
    shown = ModelSpec.from_json(read(folder / "model.json")).language
    fault = canaries_fault(declared, plan["population"], plan.get("holdout") is not None, shown)
    if fault is not None:
        return False, fault
    if declared is None:
        return True, "none among the training rows"
    return True, f"{declared['count']} made-up texts, public, were among the training rows; their exposure is evidence"
