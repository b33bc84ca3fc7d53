"""What one run says: lower bounds on epsilon beside that of its plan, each with what it assumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from discreet.audit.bounds import any_mechanism, epsilon_delta, independent_places
from discreet.audit.bounds.curve_families import Family, Gaussians, PlanFamily, largest_refuted
from discreet.audit.bounds.curve_lines import Lines
from discreet.audit.bounds.guess_counts import corrected, planned
from discreet.audit.bounds.guessing import right_guesses
from discreet.audit.one_run.one_run_game import Played, Scored
from discreet.core.rounding import rounded_up
from discreet.plan import Plan

REFUTED = 1e-3
"""A run contradicts its plan if all p-values together are below this (Bonferroni)."""

_APART = ("poisson", "cyclic_poisson", "allocation", "none")
"""Samplers that draw each unit apart from all others. Draws depend on each other where a batch has a fixed size, or is
cut because it is too large."""

_START, _PRECISION, _ROUGH = 1.0, 2e-3, 2e-2


class _OnCurves(NamedTuple):
    """A bound that knows whole curves: what it is called and assumes, its p-value and whether it refutes."""

    name: str
    assumes: str
    p_value: Callable[[Lines, int, int, int], float]
    refuted: Callable[[Lines, int, int, int, float], bool]


_ANY = _OnCurves(
    *("f-DP in one run", "nothing: canaries may share noise"), any_mechanism.p_value, any_mechanism.refuted
)
_PLACES = _OnCurves(
    *("independent places", "noise and draws of canaries are independent"),
    *(independent_places.p_value, independent_places.refuted),
)


@dataclass(frozen=True, slots=True)
class OneRunBound:
    """One lower bound, from (right guesses, guesses) for each number of guesses. `p`: at most this is the
    probability that a run which keeps the plan's claim gives as many right guesses. `epsilon`: what is refuted at the
    level of the report. Of several numbers of guesses both are corrected."""

    box: str
    method: str
    assumes: str
    right: tuple[tuple[int, int], ...]
    p: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class OneRunReport:
    """All bounds of a run, beside the epsilon of its steps at `delta`. `failure`: how often each bound may exceed the
    truth."""

    bounds: tuple[OneRunBound, ...]
    claimed: float
    delta: float
    failure: float
    steps: int

    @property
    def p(self) -> float:
        """The p-value of all bounds together. One run decides: games that share it pay for each other."""
        return corrected([one.p for one in self.bounds])

    @property
    def refuted(self) -> bool:
        """Whether the run contradicts its plan."""
        return self.p < REFUTED

    @property
    def verdict(self) -> str:
        """One sentence on all of it."""
        if self.refuted:
            return (
                f"this run contradicts its plan: one that keeps it would look like this with probability at most "
                f"{self.p:.1g}; discreet audit build finds where"
            )
        return (
            f"the run does not contradict its plan (p = {self.p:.2g}); this is evidence beside the proved epsilon "
            f"{rounded_up(self.claimed)}, never a guarantee"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = {name: getattr(self, name) for name in ("claimed", "delta", "failure", "steps", "p", "refuted")}
        return found | {"kind": "evidence", "verdict": self.verdict, "bounds": [asdict(one) for one in self.bounds]}


def report(played: Played, plan: Plan, *, failure: float = 0.05, guesses: tuple[int, ...] = ()) -> OneRunReport:
    """The bounds of a run of `plan`. `guesses`: numbers fixed beforehand, which pay for each other; by default one
    number for each bound, the best for the count to be expected of what the plan claims."""
    claimed = plan.guarantee().epsilon
    known = _Known(PlanFamily(lambda size: plan.scaled(1 / size).trade_off()), claimed, plan.delta, failure, guesses)
    found: list[OneRunBound] = []
    for box, scored in (("white", played.white), ("black", played.black)):
        if scored is None:
            continue
        found += [known.of_curves(box, scored, _ANY), known.of_pairs(box, scored)]
        if box == "white" and plan.sampling.kind in _APART:
            found.append(known.of_curves(box, scored, _PLACES))
    return OneRunReport(tuple(found), claimed, plan.delta, failure, played.steps)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The plan's claim, and what is asked of it."""

    family: PlanFamily
    claimed: float
    delta: float
    failure: float
    guesses: tuple[int, ...]

    def of_pairs(self, box: str, scored: Scored) -> OneRunBound:
        """Steinke et al. 2023."""
        canaries, delta = len(scored.coins), self.delta
        numbers = self.guesses or (
            planned(
                self.family.lines(_START),
                canaries,
                lambda right, of: epsilon_delta.epsilon_bound(right, of, canaries, delta, self.failure),
            ),
        )
        pairs, each = _right(scored, numbers), self.failure / len(numbers)
        p = corrected([epsilon_delta.p_value(*one, canaries, self.claimed, delta) for one in pairs])
        epsilon = max(epsilon_delta.epsilon_bound(*one, canaries, delta, each) for one in pairs)
        return OneRunBound(box, "Steinke et al. 2023", "nothing, and knows epsilon and delta alone", pairs, p, epsilon)

    def of_curves(self, box: str, scored: Scored, method: _OnCurves) -> OneRunBound:
        """Against the plan's own curve, and those of plans with other noise."""
        canaries = len(scored.coins)

        def largest(family: Family, right: int, of: int, level: float, precision: float) -> float:
            def refutes(lines: Lines) -> bool:
                return method.refuted(lines, right, of, canaries, level)

            return largest_refuted(family, refutes, start=_START, precision=precision)

        numbers = self.guesses or (
            planned(
                self.family.lines(_START),
                canaries,
                lambda right, of: largest(Gaussians(), right, of, self.failure, _ROUGH),
            ),
        )
        pairs, each = _right(scored, numbers), self.failure / len(numbers)
        p = corrected([method.p_value(self.family.lines(_START), *one, canaries) for one in pairs])
        size = max(largest(self.family, *one, each, _PRECISION) for one in pairs)
        epsilon = self.family.epsilon(size, self.delta) if size > 0 else 0.0
        return OneRunBound(box, method.name, method.assumes, pairs, p, epsilon)


def _right(scored: Scored, numbers: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(right guesses, guesses) for each number of guesses, at most all canaries."""
    every = [min(one, len(scored.coins)) for one in numbers]
    return tuple((right_guesses(scored.scores, scored.coins, one), one) for one in every)
