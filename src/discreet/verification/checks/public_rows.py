"""Rows declared public whose exact gradient joins every step, as a certificate states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def described(facts: Mapping[str, Any]) -> str | None:
    """What is said of them, in one line; None where there are none."""
    rows = facts.get("public_batches")
    if rows is None:
        return None
    return f"{rows['rows']} rows declared public have weight {rows['weight']:g} in every step; not covered"


def check(facts: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether what is said can be. What joins every step beside the releases of private rows is always named."""
    rows, line = facts.get("public_batches"), described(facts)
    if rows is None or line is None:
        return True, "none joined the steps"
    weight, count, batch = rows["weight"], rows["rows"], rows["batch"]
    if type(weight) not in (int, float) or not 0 < weight < 1:
        return False, "their weight is not between 0 and 1"
    if type(count) is not int or type(batch) is not int or not 1 <= batch <= count:
        return False, f"a step cannot have {str(batch)[:40]} of {str(count)[:40]} public rows"
    return True, line
