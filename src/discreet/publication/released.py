"""What queries before the first step released and predictions need, published beside the model: components, say.

It is a release of the run, charged by an event of its plan, so it tells no more than that event does.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from discreet.core.errors import InputError, PrivacyViolation
from discreet.publication.before import queries_of
from discreet.publication.tensorfile import tensor_digests

FILE = "released.safetensors"


def section(content: bytes, plan: dict[str, Any]) -> dict[str, Any]:
    """What the certificate says of the file. Refused where the plan has no query that could have released it."""
    if not queries_of(plan):
        raise PrivacyViolation("the run has released tensors for predictions, but its plan has no query before it")
    digest = hashlib.sha256(content).hexdigest()
    return {"file": FILE, "sha256": digest, "tensors": sorted(tensor_digests(content))}


def check_released(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Whether what the certificate says of the file, if it says anything, is so."""
    stated = facts.get("released")
    if stated is None:
        known = not (folder / FILE).exists()
        return known, "nothing but the model" if known else f"{FILE} is there, and the certificate does not know it"
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {folder / FILE}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != stated["sha256"] or stated["file"] != FILE:
        return False, f"{FILE} has not the certified SHA-256"
    if sorted(tensor_digests(content)) != stated["tensors"] or not queries_of(facts["plan"]):
        return False, "the plan has no query that would have released it, or it has other tensors than it says"
    return True, f"{FILE} has the certified SHA-256, and queries before the first step are charged"
