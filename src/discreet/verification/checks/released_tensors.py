"""Checks of published tensors that queries before the first step released and predictions need (components).

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
    return True, f"{RELEASED} has the certified SHA-256, and the covariance that its components are of is charged"


def _fault(content: bytes, plan: dict[str, Any]) -> str | None:
    """Why the file cannot come from a covariance before the first step (components, no more than columns); None if it
    can."""
    events = queries_of(plan)
    if not any((event["event"], event.get("query")) == ("gaussian", "covariance") for event in events):
        return f"{RELEASED} holds components, but the plan has no covariance before its first step"
    shapes = tensor_shapes(content)
    if list(shapes) != ["components"] or len(shapes["components"]) != 2:
        return f"{RELEASED} must hold the matrix 'components' and nothing else"
    count, columns = shapes["components"]
    return None if count <= columns else f"{RELEASED} has {count} components of {columns} columns"
