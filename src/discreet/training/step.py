"""The step on one page, top to bottom: draw, clip, add, release, divide, update. It is charged before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn

from discreet.clipping import Engine
from discreet.core.release import Receipt
from discreet.data import PrivateData
from discreet.distributed.team import Team
from discreet.mechanism import Chain, drawing_ahead, gathered, gaussian_release, noise_multiplier
from discreet.methods import tell_noise
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import RoundedSampler, Stream
from discreet.training.apply import apply
from discreet.training.batch import Batch, Context
from discreet.training.clip_state import Clipping
from discreet.training.drawing import Draws
from discreet.training.guard import Guard, model_randomness
from discreet.training.individual_filter import IndividualFilter
from discreet.training.public.extra_rows import PublicSource
from discreet.training.unit_failures import FailureProbe


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The parts that the steps of a run work with. `public`: rows declared public that join every step. `ahead`: if
    a thread draws the noise of a step while another device computes it. `chain`: how noise is correlated over steps.
    `filter`: decides who takes part, where units have budgets of their own. `team`: the processes that take the steps
    together."""

    plan: Plan | AdaptivePlan
    model: nn.Module
    parameters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    data: PrivateData
    draws: Draws
    engine: Engine
    clipping: Clipping
    noise: RoundedSampler
    stream: Stream
    guard: Guard
    probe: FailureProbe
    public: PublicSource | None = None
    ahead: bool = False
    chain: Chain = field(default_factory=Chain)
    filter: IndividualFilter | None = None
    team: Team = field(default_factory=Team)

    @property
    def single_precision(self) -> bool:
        """Whether every weight is in single precision."""
        return all(parameter.dtype == torch.float32 for parameter in self.parameters.values())

    @property
    def context(self) -> Context:
        """The parts that a batch needs."""
        checks = self.probe, self.guard.check_values, self.filter
        return Context(self.model, self.parameters, self.data, self.engine, *checks)


@contextmanager
def private_step(run: Run, receipt: Receipt) -> Iterator[Batch]:
    """Take the step that `receipt` paid for: inside, gradients add up to one clipped sum, which is released at the end.

    An exception inside ends the step without a release.
    """
    law = run.draws.law(receipt.event)  # the one that the charged event names
    units, drawn = run.draws.next(receipt)
    clip = run.clipping.at(run.plan.step_at(receipt.position), receipt.release)  # from earlier releases
    sums = run.team.sums(run.parameters, run.engine, clip, law.largest_batch, run.draws.units)
    batch = Batch(run.context, units, clip, sums)
    if run.filter is not None:
        run.filter.begin(first=receipt.index == 0)
    source = receipt, run.stream, run.noise
    known = run.chain.bound(*batch.bound(law.largest_batch)) if run.ahead else None
    drawing = nullcontext() if known is None else drawing_ahead(*source, *known, sums.parts)
    with model_randomness(run.stream, receipt.position), drawing as ahead:
        yield batch
    batch.close()
    run.guard.check()
    if run.filter is not None:
        run.filter.settle()
    run.team.check_step(receipt, clip, run.parameters, sums, drawn, batch.added, batch.mode)

    total = run.chain.mixed(batch.total(law.largest_batch))  # the clipped sum, and how far one unit may move it
    std = noise_multiplier(receipt.release) * total.sensitivity * run.chain.growth
    release = run.chain.unmixed(gaussian_release(total, *source, ahead))
    del total  # whose memory what follows can use
    tell_noise(run.optimizer, std / law.divisor, run.clipping.noise_scales(clip))
    beside = () if run.public is None else (run.public.at(receipt.position),)
    release, divisor = gathered(release, law.divisor, narrow=clip.plain and run.single_precision)
    apply(run.clipping.unscaled(release, clip), run.parameters, run.optimizer, divisor, *beside)
    run.clipping.learn(release, clip, std, law.divisor)
    run.guard.note()
