"""The section of an adaptive run."""

from __future__ import annotations

from discreet.core.events import Event, Gaussian, Repeat
from discreet.plan import Counts, NoSampling, PoissonSampling, ShuffleSampling
from discreet.plan.adaptive.policies import Policy
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive


class Course(Frozen):
    """Expected steps of one noise, to which the filter is fitted. They decide how far the budget goes, not what is
    guaranteed."""

    steps: Count
    noise_multiplier: Positive


class Adaptive(Frozen):
    """The fields are those of `AdaptivePlan`. `course` is by default all `steps` of the recipe, like the first."""

    policy: Policy
    noise_multiplier: Positive
    every: Positive = 1.0
    counts: Counts | None = None
    filter: str | None = None
    course: Course | None = None

    def expected(self, sampling: PoissonSampling | ShuffleSampling | NoSampling, population: float) -> Event | None:
        """The events of the course."""
        if self.course is None:
            return None
        sampler = sampling.sampler(population)
        noise = Gaussian(self.course.noise_multiplier)
        if sampler.period == 1:
            return Repeat(sampler.event(noise), self.course.steps)
        return Repeat(sampler.event(Repeat(noise, sampler.period)), max(1, self.course.steps // sampler.period))
