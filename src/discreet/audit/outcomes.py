"""What an audit found: outcomes of single checks, and one false-alarm rate for all of them together."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from discreet.certificate.described import Check, Measured
from discreet.core.errors import PrivacyViolation

FALSE_ALARM = 1e-3
"""How often a sound build may fail an audit, over all of its checks together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that was looked at.

    - `name`: of the check, and of its part after a slash.
    - `said`: one line: what was seen, where, and how large against what is allowed.
    - `wrong`: a finding that chance cannot explain. `p`: the probability that a sound build looks like this, or worse;
      None where nothing is left to chance.
    - `notice`: worth knowing, and no breach of privacy: more noise than is paid for, rows that move nothing.
    - `figures`: numbers by name. `seconds`: of processor time.
    """

    name: str
    said: str
    wrong: bool = False
    p: float | None = None
    notice: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Audit:
    """All outcomes of an audit, which fails a sound build with probability at most `false_alarm`: each of n outcomes
    with a p fails at p < false_alarm / n. (Which outcomes there are depends on what is audited, never on what is
    seen.)"""

    outcomes: tuple[Outcome, ...]
    false_alarm: float = FALSE_ALARM

    @property
    def limit(self) -> float:
        """The p below which an outcome fails."""
        return self.false_alarm / max(1, sum(one.p is not None for one in self.outcomes))

    @property
    def findings(self) -> tuple[Outcome, ...]:
        """The outcomes that fail."""
        return tuple(one for one in self.outcomes if one.wrong or (one.p is not None and one.p < self.limit))

    @property
    def passed(self) -> bool:
        """Whether nothing was found. This is evidence, and no guarantee."""
        return not self.findings

    @property
    def seconds(self) -> float:
        """Processor time of all checks."""
        return sum(one.seconds for one in self.outcomes)

    def lines(self) -> list[str]:
        """One line for each outcome, then what is worth knowing, then the verdict."""
        found = {id(one) for one in self.findings}
        lines = [f"{'FAILED' if id(one) in found else 'ok    '}  {one.name}: {_said(one)}" for one in self.outcomes]
        lines += [f"note    {one.name}: {one.notice}" for one in self.outcomes if one.notice]
        return [*lines, self.verdict]

    @property
    def verdict(self) -> str:
        """One sentence on all of it."""
        if self.passed:
            return (
                f"nothing was found in {len(self.outcomes)} checks; this is evidence beside the proved bound, never a "
                "guarantee"
            )
        several = "checks fail" if len(self.findings) > 1 else "check fails"
        return (
            f"{len(self.findings)} of {len(self.outcomes)} {several}: this build does not do what its plan says "
            f"(a sound build fails with probability at most {self.false_alarm:g})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = {id(one) for one in self.findings}
        return {
            "passed": self.passed,
            "false_alarm": self.false_alarm,
            "seconds": self.seconds,
            "verdict": self.verdict,
            "outcomes": [
                {
                    "name": one.name,
                    "passed": id(one) not in found,
                    "said": one.said,
                    "p": one.p,
                    "notice": one.notice,
                    "figures": dict(one.figures),
                    "seconds": one.seconds,
                }
                for one in self.outcomes
            ],
        }

    def measured(self) -> Measured:
        """The audit as a part of `ModelSpec`, so that a published folder says what was measured; dated today.
        `PrivacyViolation` if there are findings."""
        if not self.passed:
            raise PrivacyViolation("\n".join([self.verdict, *(f"{one.name}: {_said(one)}" for one in self.findings)]))
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        checks = tuple(Check(name=one.name, said=one.said, p=one.p) for one in self.outcomes)
        return Measured(date=today, false_alarm=self.false_alarm, checks=checks)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _said(one: Outcome) -> str:
    return one.said if one.p is None else f"{one.said} (p = {one.p:.2g})"


def timed(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The same outcomes, each with the processor time that it took: they are made as they are asked for."""
    start = time.process_time()
    for one in outcomes:
        yield replace(one, seconds=time.process_time() - start)
        start = time.process_time()


def together(name: str, parts: Iterable[tuple[str, float]], said: str, **figures: float) -> Outcome:
    """One outcome of several tests at once, each (what, p): the least p times their number (Bonferroni). What was least
    likely is named."""
    tests = list(parts)
    what, least = min(tests, key=lambda one: one[1])
    return Outcome(name, f"{said}; least likely: {what}", p=min(1.0, least * len(tests)), figures=figures)
