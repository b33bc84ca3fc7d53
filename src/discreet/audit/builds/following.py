"""Following a run through its optimizer's eyes: what it is given at each step, which is all that leaves a step.

A second run can be led along the first: at every step its optimizer, and what else learns from releases (an adaptive
clip norm, scales), are given what those of the first were given. Both are then at the same weights at every step, so
that a difference of what they release is a difference of sums and noise, and of nothing else (frozen outputs).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from discreet.audit.builds.promised import Promised
from discreet.audit.builds.watched_rows import watchers
from discreet.clipping import BIT, Clip
from discreet.core.array_types import Array, IntArray
from discreet.core.events import Event, flatten
from discreet.core.release import Release
from discreet.plan import Plan
from discreet.training import Session, Training
from discreet.training.run.trained import Bought


@dataclass
class Trace:
    """All that a run releases; and, for the audit alone, the rows that it read and what it charged.

    - `steps`: how many steps reached the optimizer. `given`: what it was given at each for each parameter; None for one
    that got nothing. `scores`: its component along a direction instead, where one is named.
    - `bits`, `scales`, `releases`: what a clip rule was given beside it: the bit, the scales, the release itself.
    `learned`: the bits that an adaptive norm followed, which are those of another run where one leads.
    - `still`: whether weights and clip norm were held. `rows`: how many rows the training has. `read`: those read for
    each step; empty if nobody watched.
    - `charged`: the charges in the ledger when the optimizer was called; `charged_before`: when the first row of a step
    was read, by the step.
    - `state`: the published tensors at the end. `failed`: how the run failed.
    """

    promised: Promised
    weight: float = 0.0
    still: bool = False
    steps: int = 0
    given: list[list[Tensor | None]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)
    learned: list[float] = field(default_factory=list)
    scales: list[Array | None] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    rows: int = 0
    read: list[IntArray] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    charged_before: dict[int, int] = field(default_factory=dict)
    taken: int = 0
    events: tuple[Event, ...] = ()
    bought: tuple[Bought, ...] = ()
    state: dict[str, Tensor] = field(default_factory=dict)
    failed: str | None = None

    @property
    def missing(self) -> int:
        """The number of times that a parameter got nothing."""
        return sum(one is None for step in self.given for one in step)

    def sums(self) -> Array:
        """The noisy sums, with the bit as their last number if there is one: what the optimizer was given times the
        public divisor, in public scales. Shape (steps, numbers). A parameter that got nothing counts as zero."""
        rows = [self._sum(step) for step in range(len(self.given))]
        return np.stack(rows) if rows else np.zeros((0, sum(self.promised.sizes.values())))

    def plain(self, step: int) -> Array:
        """The gradient that the optimizer was given at a step; shape (numbers,)."""
        parts = [
            np.zeros(size) if one is None else one.double().numpy().ravel()
            for size, one in zip(self.promised.sizes.values(), self.given[step], strict=True)
        ]
        return np.concatenate(parts) / (1 - self.weight)

    def _sum(self, step: int) -> Array:
        total = self.plain(step) * self.promised.divisor(step)
        if step < len(self.scales) and self.scales[step] is not None:
            total = total / cast(Array, self.scales[step])
        return np.append(total, self.bits[step]) if self._has_bits else total

    @property
    def _has_bits(self) -> bool:
        return self.promised.plan.clipping.FOLLOWS and len(self.bits) >= self.steps

    def sensitivities(self) -> Array:
        """The most that one unit may move each of the sums, by the plan; shape (steps,)."""
        bits = self.learned if self._has_bits else [0.0] * self.steps
        return self.promised.sensitivities(bits[: self.steps], still=self.still)


class _Learning:
    """Stands in for the clipping of a run, to note what it learns from, and to let it learn from another run, or
    nothing."""

    def __init__(self, clipping: Any, trace: Trace, lead: Trace | None, *, still: bool) -> None:
        self._clipping, self._trace, self._lead, self._still = clipping, trace, lead, still

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clipping, name)

    def learn(self, release: Release, clip: Clip, noise: float, divisor: float) -> None:
        """Note the release, and pass it on, or that of the other run."""
        trace, step = self._trace, len(self._trace.bits)
        trace.bits.append(_bit(release))
        scales = clip.scales
        trace.scales.append(
            None
            if scales is None
            else np.concatenate([scales[name].double().cpu().numpy().ravel() for name in trace.promised.sizes])
        )
        if self._clipping._spec.FOLLOWS or scales is not None:
            trace.releases.append(release)
        if self._lead is not None and step < len(self._lead.releases):
            release = self._lead.releases[step]
        trace.learned.append(_bit(release))
        if not self._still:
            self._clipping.learn(release, clip, noise, divisor)


def _bit(release: Release) -> float:
    return float(release.tensors[BIT][0]) if BIT in release.tensors else 0.0


def follow(
    training: Training,
    lead: Trace | None = None,
    *,
    steps: int | None = None,
    still: bool = False,
    ledger: bool = False,
    in_chunks: bool = False,
    along: Array | None = None,
) -> Trace:
    """Take the steps of a training (`steps` at most), and note what it releases.

    `lead`: the run to be led along. `still`: put the weights back after every step, and let no clip norm or scale
    change. `ledger`: look at the ledger before and after every draw. `in_chunks`: by the loop of users, chunk by chunk,
    and not by that of `run`. `along`: note only what is released along this direction (numbers,).
    """
    plan = training.plan
    assert isinstance(plan, Plan)
    parameters = {name: one for name, one in training.model.named_parameters() if one.requires_grad}
    beside = training.made_of.public.beside
    sizes = {name: one.numel() for name, one in parameters.items()}
    trace = Trace(Promised(plan, sizes), 0.0 if beside is None else beside.weight, still, rows=training.data.rows)
    try:
        seen = _Seen(list(parameters.values()), trace, lead, along)
        with seen.of(training, still=still) as opened:
            _take(training, trace, opened, steps=steps, ledger=ledger, in_chunks=in_chunks)
    except Exception as error:  # whatever a run raises is a finding, and no crash of the audit
        first = (str(error).splitlines() or [""])[0]
        trace.failed = f"{type(error).__name__}: {first}" if first else type(error).__name__
    trace.bought = tuple(training.watch.bought)
    trace.state = {name: one.detach().clone().cpu() for name, one in training.model.state_dict().items()}
    return trace


@dataclass(eq=False)
class _Seen:
    """Notes what an optimizer is given for `parameters`, and gives it what another run was given."""

    parameters: list[torch.nn.Parameter]
    trace: Trace
    lead: Trace | None
    along: Array | None
    opened: list[Session] = field(default_factory=list)

    @contextmanager
    def of(self, training: Training, *, still: bool) -> Iterator[list[Session]]:
        """Inside, the optimizer's steps are noted, and led. The list is for the session, once it is open."""
        kept = [one.detach().clone() for one in self.parameters]

        def put_back(*_: Any) -> None:
            with torch.no_grad():
                for one, before in zip(self.parameters, kept, strict=True):
                    one.copy_(before)

        training.clipping = cast(Any, _Learning(training.clipping, self.trace, self.lead, still=still))
        handles = [training.optimizer.register_step_pre_hook(self.look)]
        handles += [training.optimizer.register_step_post_hook(put_back)] if still else []
        try:
            yield self.opened
        finally:
            for handle in handles:
                handle.remove()

    def look(self, *_: Any) -> None:
        """Before the optimizer takes a step."""
        trace, step = self.trace, self.trace.steps
        trace.steps += 1
        given = [None if one.grad is None else one.grad.detach().clone().cpu() for one in self.parameters]
        trace.given.append(given)
        if self.along is not None:
            trace.scores.append(float(trace.plain(0) @ self.along) * trace.promised.divisor(step))
            trace.given.clear()
        for session in self.opened:
            trace.charged.append(session.ledger.charged_steps(session.run))
        if self.lead is not None and step < len(self.lead.given):
            for one, other in zip(self.parameters, self.lead.given[step], strict=True):
                one.grad = None if other is None else other.to(one)


def _take(
    training: Training, trace: Trace, opened: list[Session], *, steps: int | None, ledger: bool, in_chunks: bool
) -> None:
    rows = watchers(training.data.dataset)
    read: list[IntArray] = []
    with training.session() as session:
        if ledger:
            opened.append(session)

        def note(indices: IntArray) -> None:
            if ledger and not read:
                trace.charged_before[trace.taken - 1] = session.ledger.charged_steps(session.run)
            read.append(indices)

        for one in rows:
            one.on_read = note
        while (steps is None or trace.taken < steps) and session.ready():
            trace.taken += 1
            with session.step() as step:
                if in_chunks:
                    for chunk in step.chunks:
                        step.add(training.criterion, chunk)
                else:
                    step.add_all(training.criterion)
            if rows:
                trace.read.append(np.concatenate(read) if read else np.zeros(0, np.int64))
            read.clear()
        for one in rows:
            one.on_read = None
        trace.events = each_event(session.ledger.spent(session.run))


def each_event(event: Event) -> tuple[Event, ...]:
    """The events that an event is made of, one for each charge."""
    return tuple(one for part, count in flatten(event) for one in [part] * count)
