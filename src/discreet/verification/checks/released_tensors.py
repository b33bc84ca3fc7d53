"""Checks of published tensors that queries before the first step released and predictions need: components, or a
center.

They are a release of the run, charged by an event of its plan.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from discreet.certificate.files import RELEASED, read
from discreet.certificate.tensorfile import tensor_digests, tensor_shapes
from discreet.core.errors import PrivacyViolation
from discreet.verification.checks.pre_queries import queries_of

_QUERIES = {"components": "covariance", "center": "clipped sum"}
"""The query that each tensor comes from."""

_AXES = {"components": 2, "center": 1}


def section(content: bytes, plan: dict[str, Any]) -> dict[str, Any]:
    """The certificate's section on the file; refused if the plan has no query that could have released it."""
    found = _fault(content, plan)
    if found is not None:
        raise PrivacyViolation(found)
    return {"file": RELEASED, "sha256": hashlib.sha256(content).hexdigest(), "tensors": sorted(tensor_digests(content))}


def check_released(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Check the certificate's section on the file, if it has one."""
    stated = facts.get("released")
    if stated is None:
        known = not os.path.lexists(folder / RELEASED)
        return known, "nothing but the model" if known else f"{RELEASED} is there, and the certificate does not know it"
    content = read(folder / RELEASED)
    if hashlib.sha256(content).hexdigest() != stated["sha256"] or stated["file"] != RELEASED:
        return False, f"{RELEASED} has not the certified SHA-256"
    if sorted(tensor_digests(content)) != stated["tensors"]:
        return False, f"{RELEASED} has other tensors than the certificate says"
    found = _fault(content, facts["plan"])
    if found is not None:
        return False, found
    said = " and ".join(f"the {_QUERIES[name]} behind its {name}" for name in stated["tensors"])
    return True, f"{RELEASED} has the certified SHA-256, and {said} is charged"


def _fault(content: bytes, plan: dict[str, Any]) -> str | None:
    """Why the file cannot come from a query before the first step: components (no more than columns) from a covariance,
    a center from a clipped sum. None if it can."""
    shapes = tensor_shapes(content)
    (name, shape), *others = [*shapes.items()] or [("", ())]
    if others or name not in _QUERIES or len(shape) != _AXES[name]:
        return f"{RELEASED} must hold the matrix 'components' or the vector 'center', and nothing else"
    query = _QUERIES[name].replace(" ", "_")
    if not any((event["event"], event.get("query")) == ("gaussian", query) for event in queries_of(plan)):
        return f"{RELEASED} holds {name}, but the plan has no {_QUERIES[name]} before its first step"
    if name == "components" and shape[0] > shape[1]:
        return f"{RELEASED} has {shape[0]} components of {shape[1]} columns"
    return None
