"""The decisions of AGD: how much noise the next gradient has, and which step sizes are tried.

Lee and Kifer, "Concentrated differentially private gradient descent with adaptive per-iteration privacy budget" (2018).
All of it follows from the step sizes chosen before, which are released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import BoundedRange
from discreet.plan.adaptive.history import Controls, History, Phase
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count, Positive


class LineSearch(Frozen):
    """A private choice of the step size after every noisy gradient; where it is 0, the gradient gets less noise.

    | field      | meaning                                                                                        |
    |------------|------------------------------------------------------------------------------------------------|
    | bound      | where the loss of a row is clipped, from above; from below at 0                                |
    | epsilon    | range of the privacy loss of one choice, epsilon^2 / 8 of zCDP (replace-one: 4 times that)     |
    | growth     | a choice of 0 multiplies the budget of gradients, 1 / (variance of their noise), by 1 + growth |
    | candidates | step sizes beside 0, equally far apart up to the largest                                       |
    | largest    | the largest step size at any time; a step size is a distance in the space of parameters        |
    | widen      | the largest candidate becomes 1 + widen times the largest step size chosen so far              |
    | every      | after how many moves that happens                                                              |

    The exponential mechanism chooses by the sum over all rows of their clipped losses at each candidate. A row adds
    between 0 and `bound` to every sum, so all scores move in the same direction.
    """

    kind: Literal["line_search"] = "line_search"
    bound: Positive
    epsilon: Positive
    growth: Positive = 0.1
    candidates: Count = 20
    largest: Positive = 2.0
    widen: Annotated[float, Field(ge=0)] = 0.1
    every: Count = 10

    @property
    def metric(self) -> str | None:
        """None: the policy looks at nothing but its own choices."""
        return None

    @property
    def event(self) -> BoundedRange:
        """The event of one choice."""
        return BoundedRange(self.epsilon, Query.LOSS)

    def __call__(self, phase: int, history: History) -> Controls | None:
        """Noise of the next gradient. While the model stays where it is, gradients are averaged.

        After k choices of 0 the gradient's budget is rho (1 + growth)^k. After a move, a new gradient uses all of it.
        After a choice of 0, a further gradient uses only the part that was added: the mean of both, weighted by
        precision, is as noisy as a single gradient with the whole budget.
        """
        stays = sum(one.step_size == 0 for one in history.phases)
        if history.phases and history.phases[-1].step_size == 0:
            share = (1 + self.growth) ** (stays - 1) * self.growth
        else:
            share = (1 + self.growth) ** stays
        noise = history.start.noise_multiplier / math.sqrt(share)
        if not noise > 0:
            raise InputError("the budget of a gradient grew beyond all numbers; give less budget, or less growth")
        return replace(history.start, noise_multiplier=noise)

    def step_sizes(self, phases: Sequence[Phase]) -> tuple[float, ...]:
        """The candidates after these phases: 0 and `candidates` more, up to the largest."""
        moves = [one.step_size for one in phases if one.step_size]
        most = self.largest
        done = len(moves) - len(moves) % self.every
        if done:
            most = min(self.largest, (1 + self.widen) * max(moves[done - self.every : done]))
        return tuple(most * k / self.candidates for k in range(self.candidates + 1))
