"""Checks of rows declared public whose exact gradient joins every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def described(facts: Mapping[str, Any]) -> str | None:
    """A line about public rows whose exact gradient joined the steps; None if there were none."""
    rows = facts.get("public_batches")
    if rows is None:
        return None
    return f"{rows['rows']} rows declared public have weight {rows['weight']:g} in every step; not covered"


def check(facts: Mapping[str, Any]) -> tuple[bool, str]:
    """Check the weight and the numbers of such rows, and name them in the result."""
    rows, line = facts.get("public_batches"), described(facts)
    if rows is None or line is None:
        return True, "none joined the steps"
    weight, count, batch = rows["weight"], rows["rows"], rows["batch"]
    if type(weight) not in (int, float) or not 0 < weight < 1:
        return False, "their weight is not between 0 and 1"
    if type(count) is not int or type(batch) is not int or not 1 <= batch <= count:
        return False, f"a step cannot have {str(batch)[:40]} of {str(count)[:40]} public rows"
    return True, line
