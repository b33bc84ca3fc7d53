"""The answer of a verifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.html import fact_lines, fact_table


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer. `noted`: the verdict states the answer in any case."""

    name: str
    passed: bool
    detail: str
    noted: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """All checks of one folder; it is accepted if every one passed."""

    checks: tuple[Check, ...]
    summary: str
    claim: Mapping[str, Any] | None = None
    """Of an accepted folder epsilon, delta, adjacency, unit, and in `on_top` the private runs that it started from and
    does not cover; None of a rejected one."""

    @property
    def accepted(self) -> bool:
        """Whether the claim stands."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def __repr__(self) -> str:
        failed = {f"FAILED {check.name}": check.detail for check in self.checks if not check.passed}
        passed = len(self.checks) - len(failed)
        return fact_lines(self.summary, {"checks passed": f"{passed} of {len(self.checks)}"} | failed)

    def _repr_html_(self) -> str:
        """For notebooks: every check of the certificate."""
        answers = {check.name: f"{'passed' if check.passed else 'FAILED'}: {check.detail}" for check in self.checks}
        return fact_table(self.summary, answers)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-ready data."""
        checks = [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in self.checks]
        claim = None if self.claim is None else dict(self.claim)
        return {"accepted": self.accepted, "summary": self.summary, "claim": claim, "checks": checks}
