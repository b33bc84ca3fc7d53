"""The game that differential privacy is about, played for real: is the canary in the data? From releases alone.

In each of two worlds the same release is made many times, at weights that stand still, with the operating system's
randomness. The score of a release is its component along the direction in which the canary moves it, which a replay has
shown. How often it is guessed right bounds the privacy of a step from below; the plan's curve bounds it from above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.accounting.theories import gdp
from discreet.audit import tails
from discreet.audit.bounds.any_mechanism import least_level
from discreet.audit.bounds.binomial_limits import share_at_least, share_at_most
from discreet.audit.builds.canaries import Canary, canaries
from discreet.audit.builds.following import Trace, follow
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.small_plans import small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome
from discreet.core.array_types import Array
from discreet.core.rounding import delta_up, rounded_down, rounded_up
from discreet.plan import NoSampling, Plan
from discreet.randomness import TestStream

ROWS, RUNS = 3, 600
CONFIDENCE = 0.95
"""Of the printed bound; whether the plan is refuted is decided at the level of the whole audit."""

_PILOT = 0.1
"""The share of the releases that thresholds are chosen with; they are not guessed."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """The number of times that "it is in" was guessed: `hits` of `runs` releases with the canary, `alarms` of as
    many without it."""

    hits: int
    alarms: int
    runs: int

    @property
    def right(self) -> int:
        """Right guesses, of twice `runs`."""
        return self.hits + self.runs - self.alarms

    def rates(self, failure: float) -> tuple[float, float]:
        """(least true positive, largest false positive rate), which both hold but for `failure`."""
        least = share_at_least(self.hits, self.runs, failure / 2)
        return least, share_at_most(self.alarms, self.runs, failure / 2)

    def mu(self, failure: float) -> float:
        """The largest mu whose curve these rates refute."""
        least, most = self.rates(failure)
        return 0.0 if least <= 0 or most >= 1 else max(0.0, float(ndtri(least) - ndtri(most)))

    def mu_of_accuracy(self, failure: float) -> float:
        """The same by the number of right guesses alone, which are right with probability Phi(mu / 2) at most on
        average over both worlds. The binomial law then bounds its tail (Hoeffding 1956, theorem 4), beyond the mean by
        1."""
        least = share_at_least(self.right, 2 * self.runs, failure)
        least = min(least, (self.right - 1) / (2 * self.runs))
        return 2 * float(ndtri(least)) if least > 0.5 else 0.0

    def p(self, mu: float) -> float:
        """The smallest failure probability at which these rates refute mu; 1 if they do at none."""
        return least_level(lambda failure: self.mu(failure) > mu)


@dataclass(frozen=True, slots=True)
class Played:
    """Guesses at a threshold in the middle and at two in the tails. Half of a failure probability goes to the number of
    right guesses in the middle, half to the rates in the tails, where a large mu shows (Bonferroni)."""

    middle: Guesses
    tails: tuple[Guesses, ...]

    @classmethod
    def of(cls, without: Array, having: Array) -> Played:
        """From the scores of both worlds. The first of them choose the thresholds, and are not guessed."""
        pilot = max(10, int(_PILOT * len(without)))
        chosen = without[:pilot], having[:pilot]
        middle = float(np.median(chosen[0]) + np.median(chosen[1])) / 2
        spread = float(np.mean([np.std(part) for part in chosen]))
        cuts = (middle, middle - 1.5 * spread, middle + 1.5 * spread)
        rest = without[pilot:], having[pilot:]
        found = [Guesses(int((rest[1] > cut).sum()), int((rest[0] > cut).sum()), len(rest[0])) for cut in cuts]
        return cls(found[0], tuple(found[1:]))

    def mu(self, failure: float) -> float:
        """A lower bound on mu, which holds but for `failure` if the release is mu-Gaussian private."""
        each = failure / (2 * len(self.tails))
        return max(self.middle.mu_of_accuracy(failure / 2), *(one.mu(each) for one in self.tails))

    def p(self, mu: float) -> float:
        """The smallest failure probability at which mu is refuted; 1 if it is not."""
        accuracy = float(ndtr(mu / 2))
        right, trials = self.middle.right, 2 * self.middle.runs
        found = 1.0 if right < trials * accuracy + 1 else tails.at_least(right, trials, accuracy)
        return min(1.0, 2 * found, *(2 * len(self.tails) * one.p(mu) for one in self.tails))


def game_outcomes(subject: Subject, *, runs: int) -> Iterator[Outcome]:
    """`runs` releases in each world, with the loud canary (the first one, where rows are whole numbers)."""
    base = subject.maker.units(ROWS, seed=5)
    made = canaries(subject.maker, base, subject.classes)
    canary = next((one for one in made if one.name == "loud"), made[0])
    found = _play(subject, base, canary, runs)
    name, sigma = f"game/{canary.name}", subject.plan.multipliers[0][0]
    if isinstance(found, str):
        yield Outcome(name, found, wrong=True)
        return
    low, claimed = found.mu(1 - CONFIDENCE), 1 / sigma
    epsilon, delta = (gdp.epsilon_bounds(low, subject.plan.delta)[0] if low > 0 else 0.0), subject.plan.delta
    most = gdp.epsilon_bounds(claimed, delta)[1]
    said = (
        f"one step gives away mu of at least {low:.3g} ({CONFIDENCE:.0%} confidence), and the plan says at most "
        f"{rounded_up(claimed, 3)}: epsilon from {rounded_down(epsilon, 3)} to {rounded_up(most, 3)} at delta "
        f"{delta_up(delta)}"
    )
    figures = {"mu": low, "claimed": claimed, "epsilon": epsilon, "runs": float(runs)}
    yield Outcome(name, said, p=found.p(claimed), figures=figures)


def _play(subject: Subject, base: MadeUp, canary: Canary, runs: int) -> Played | str:
    plan = small(subject.plan, NoSampling(), ROWS + 1, runs).model_copy(update={"block": 500})
    having = base.with_unit(canary.inputs, canary.targets)
    one, other = (_seeded(subject, plan, rows) for rows in (base, having))
    failed = one.failed or other.failed
    if failed or not one.steps or not other.steps:
        return f"the run fails: {failed}"
    apart = (other.sums() - one.sums())[0, : subject.numbers]
    length = float(np.linalg.norm(apart))
    if not math.isfinite(length):
        return "the canary makes what is released not finite"
    sensitivity = float(one.sensitivities()[0])
    along = apart / max(length, 1e-300) / sensitivity
    scales = one.scales[0]
    scores: list[Array] = []
    for rows in (base, having):
        with subject.training(plan, rows) as training:
            trace = follow(training, still=True, along=along if scales is None else along / scales)
        if trace.failed or trace.steps != plan.steps:
            return trace.failed or f"{trace.steps} of {plan.steps} steps released something"
        scores.append(np.nan_to_num(np.array(trace.scores), nan=0.0, posinf=1e300, neginf=-1e300))
    return Played.of(*scores)


def _seeded(subject: Subject, plan: Plan, rows: MadeUp) -> Trace:
    with subject.training(plan, rows, stream=TestStream(77), chunk=1 if subject.draws else None) as training:
        return follow(training, steps=1)
