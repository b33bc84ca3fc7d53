"""Neighbours replayed with the same randomness: what one unit moves, exactly, as the optimizer sees it.

Two runs on data that differ in one made-up unit have the same test stream, so the same draws and the same noise, and
the second is led along the first. The difference of what they release is then the difference of their clipped sums: no
statistics are needed. (Re:cord-play, arXiv 2602.17454, freezes outputs in this way.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from discreet.audit.builds.canaries import Canary, canaries, label_canaries
from discreet.audit.builds.following import Trace, follow
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.small_plans import adding_one, rescaled_rule, sampling_like, small
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import Outcome, timed
from discreet.core.array_types import Array, IntArray
from discreet.core.errors import DiscreetError, first_line
from discreet.plan import IndividualSampling, Plan
from discreet.randomness import TestStream

TOLERANCE = 2e-3
"""Room for the float slack of engines, relative to the sensitivity; noise covers it in a run."""

_ROUNDED = 2.0**-22
"""The rounding of what an optimizer is given, in single precision, relative to its length."""

ROWS, STEPS, SHARE = 39, 12, 0.5
"""Units of a replay: an odd number, so that with one more half of them passes a whole number, and whatever rounds it
changes. Chunks of 7 then end with a part of one."""

_IN_PARTS = 7
CHUNKS = (None, 1, _IN_PARTS)
_NORMS = {"replay/short gradients": 1e3}
_ALONE = "replay/nearly empty batches"


@dataclass
class Replay:
    """Replays of one subject. A run without a canary is taken once for each size of chunks."""

    subject: Subject
    rows: int = ROWS
    steps: int = STEPS
    base: MadeUp = field(init=False)
    plan: Plan = field(init=False)
    _known: dict[int | None, Trace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.base = self.subject.maker.units(self.rows)
        sampling = adding_one(self.subject.plan, self.rows, SHARE)
        self.plan = small(self.subject.plan, sampling, self.rows, self.steps)

    def outcomes(self) -> list[Outcome]:
        """All of `each`, with a notice if nothing that was added moved anything."""
        found = list(timed(self.each()))
        if not any(one.figures.get("moved", 0.0) > 0.5 for one in found):
            what = "no made-up unit moves a sum by half of what it may, so that nothing is shown; give rows of your own"
            found[0] = replace(found[0], notice=what)
        return found

    def each(self) -> Iterator[Outcome]:
        """The distance by which each canary moves the releases, at every step, with chunks of several sizes; one canary
        after the other."""
        chunks = (1,) if self.subject.draws else CHUNKS
        made = canaries(self.subject.maker, self.base, self.subject.classes)
        whole = next((one for one in made if one.name in ("loud", "one token")), made[0])
        yield self._repeated(chunks[0])
        by_label = label_canaries(self.subject.maker, self.base, self.subject.classes)
        for number, canary in enumerate([*made, *by_label]):
            yield self._added(canary, chunks[number % len(chunks)])
        yield self.exchanged()
        for name, times in _NORMS.items():
            yield _unless_refused(name, partial(self._other_norms, name, times, made[0], chunks[0]))
        yield _unless_refused(_ALONE, partial(self._alone, whole, chunks[0]))

    def exchanged(self) -> Outcome:
        """One unit exchanged for another, under the plan's own sampler if it can be."""
        chunk = 1 if self.subject.draws else _IN_PARTS
        made = canaries(self.subject.maker, self.base, self.subject.classes)
        return _unless_refused("replay/exchanged", partial(self._exchanged, made, chunk))

    def without(self, chunk: int | None) -> Trace:
        """The run without a canary."""
        if chunk not in self._known:
            self._known[chunk] = self._run(self.plan, self.base, chunk)
        return self._known[chunk]

    def _run(self, plan: Plan, rows: MadeUp, chunk: int | None, lead: Trace | None = None) -> Trace:
        with self.subject.training(plan, rows, stream=TestStream(1000 + (chunk or 0)), chunk=chunk) as training:
            return follow(training, lead, in_chunks=chunk == _IN_PARTS)

    def _repeated(self, chunk: int | None) -> Outcome:
        """The same rows and stream twice: what differs was drawn elsewhere, and no replay tells it from the rows."""
        one, name = self.without(chunk), "replay/same rows"
        if one.failed:
            return Outcome(name, f"the run fails: {one.failed}", wrong=True)
        again = self._run(self.plan, self.base, chunk, one)
        if again.failed or one.steps != again.steps:
            return Outcome(name, f"it takes {one.steps} steps, then {again.steps} ({again.failed})", wrong=True)
        apart = _moved(one, again).max(initial=0.0)
        if not apart <= TOLERANCE:
            said = f"releases differ by {apart:.3g} of the sensitivity: randomness does not all come from the stream"
            return Outcome(name, said, wrong=True, figures={"apart": float(apart)})
        return Outcome(name, f"the same stream gives the same {one.steps} steps", figures={"apart": float(apart)})

    def _added(self, canary: Canary, chunk: int | None) -> Outcome:
        """With the canary as one more unit."""
        rows = self.base.with_unit(canary.inputs, canary.targets)
        without = self.without(chunk)
        name = f"replay/{canary.name}" + ("" if chunk is None else f", chunks of {chunk}")
        try:
            having = self._run(self.plan, rows, chunk, without)
        except DiscreetError as error:
            return Outcome(name, f"such a unit is refused before anything is charged: {first_line(error)}")
        return judged(name, without, having, self.plan, rows.owners(), allowed=1.0)

    def _exchanged(self, made: list[Canary], chunk: int | None) -> Outcome:
        """With the first unit exchanged for a loud or mislabelled one, under the plan's own sampler if it can be. One
        goes and one comes, so twice the sensitivity is allowed."""
        first = next((one for one in made if one.name in ("loud", "one token")), made[0])
        other = next((one for one in made if one.name == "mislabelled"), made[1])
        sampling = sampling_like(self.subject.plan.sampling, self.rows, SHARE)
        plan = small(self.subject.plan, sampling, self.rows, self.steps)
        one, two = (self.base.exchanged(canary.inputs, canary.targets) for canary in (first, other))
        without = self._run(plan, one, chunk)
        having = self._run(plan, two, chunk, without)
        return judged(f"replay/exchanged, {sampling.kind}", without, having, plan, two.owners(), allowed=2.0, last=0)

    def _other_norms(self, name: str, times: float, canary: Canary, chunk: int | None) -> Outcome:
        """With clip norms so many times as large: gradients stay shorter, and must not be made longer than they may."""
        rule = rescaled_rule(self.plan.clipping, times)
        if rule is None:
            return Outcome(name, "the clip rule has no norm")
        plan = small(self.plan, self.plan.sampling, self.rows, max(4, self.steps // 2), clipping=rule)
        rows = self.base.with_unit(canary.inputs, canary.targets)
        without = self._run(plan, self.base, chunk)
        having = self._run(plan, rows, chunk, without)
        return judged(name, without, having, plan, rows.owners(), allowed=1.0)

    def _alone(self, canary: Canary, chunk: int | None) -> Outcome:
        """Beside one other unit, so that some batches hold nobody and some the canary alone."""
        sampling = adding_one(self.subject.plan, 2, SHARE)
        plan = small(self.subject.plan, sampling, 2, max(STEPS, self.steps))
        base = self.subject.maker.units(1)
        rows = base.with_unit(canary.inputs, canary.targets)
        without = self._run(plan, base, chunk)
        having = self._run(plan, rows, chunk, without)
        return judged(_ALONE, without, having, plan, rows.owners(), allowed=1.0)


def _moved(one: Trace, other: Trace) -> Array:
    """The distance between the releases of two runs at each step, relative to the sensitivity."""
    with np.errstate(all="ignore"):
        apart = np.linalg.norm(other.sums() - one.sums(), axis=1) / one.sensitivities()
    return np.where(np.isnan(apart), np.inf, apart)


def judged(
    name: str, without: Trace, having: Trace, plan: Plan, owners: IntArray, *, allowed: float, last: int | None = None
) -> Outcome:
    """Whether two runs, of which one has another unit, are as far apart as the plan allows. `last`: the unit that
    differs, by default the last one. `owners`: the unit of each row."""
    if (without.failed is None) != (having.failed is None) or without.taken != having.taken:
        return Outcome(name, f"one unit makes the run fail: {having.failed or without.failed}", wrong=True)
    if without.failed is not None:
        return Outcome(name, f"the run fails: {without.failed}", wrong=True)
    if without.steps != having.steps:
        said = f"{without.steps} releases without the unit, {having.steps} with it"
        return Outcome(name, said, wrong=True)
    if having.steps != having.taken:
        said = f"{having.steps} of {having.taken} steps released something; a step without rows releases noise too"
        return Outcome(name, said, wrong=True)
    moved, unit = _moved(without, having), int(owners.max()) if last is None else last
    worst, step = float(moved.max(initial=0.0)), int(moved.argmax())
    slack = TOLERANCE + _ROUNDED * float(np.max(np.linalg.norm(without.sums(), axis=1) / without.sensitivities()))
    figures = {"moved": worst / allowed, "allowed": allowed * (1 + slack)}
    wrong = _wrong(without, having, plan, moved, (owners, unit), allowed, slack)
    if wrong is not None:
        return Outcome(name, wrong, wrong=True, figures=figures)
    said = f"one unit moves what is released by at most {worst:.4f} of the sensitivity (step {step + 1}; allowed"
    return Outcome(name, f"{said} {allowed:g})", figures=figures)


def _wrong(
    without: Trace,
    having: Trace,
    plan: Plan,
    moved: Array,
    units: tuple[IntArray, int],
    allowed: float,
    slack: float,
) -> str | None:
    """The fault of two neighbouring runs, in a sentence."""
    worst, step = float(moved.max(initial=0.0)), int(moved.argmax())
    owners, unit = units
    both = _both_read(without, having) if having.rows == len(owners) else []  # else a pipeline made other rows of them
    read = [(set(owners[one].tolist()), set(owners[other].tolist())) for one, other in both]
    others = sum(bool((one ^ other) - {unit}) for one, other in read)
    if others:
        return f"one unit changes which others are drawn, in {others} of {len(read)} steps"
    if not worst <= allowed * (1 + slack):
        return (
            f"one unit moves what is released at step {step + 1} by {worst:.4g} of the sensitivity; allowed {allowed:g}"
        )
    if isinstance(plan.sampling, IndividualSampling):
        spent = np.square(moved).reshape(-1, plan.sampling.period).sum(1).max() / allowed**2
        if not spent <= plan.sampling.full * (1 + slack) ** 2:
            return f"one unit spends {spent:.4g} steps at full length in a period; allowed {plan.sampling.full}"
    idle = [moved[i] for i, (one, other) in enumerate(read) if unit not in one | other]
    if max(idle, default=0.0) > slack:
        return f"a unit that is not drawn moves what is released, by {max(idle):.3g} of the sensitivity; allowed 0"
    if having.events != without.events:
        return "one unit changes what is charged"
    changed = [name for name, one in without.state.items() if not _same(one, having.state[name])]
    if changed:
        return f"all releases were alike, but {changed[0]!r} of the model is not: something else changed it"
    return None


def _both_read(without: Trace, having: Trace) -> list[tuple[IntArray, IntArray]]:
    if any(len(one) == 0 for one in (without.read, having.read)):
        return []
    return list(zip(without.read, having.read, strict=True))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


def _unless_refused(name: str, check: Callable[[], Outcome]) -> Outcome:
    """The outcome of a check, or that its rows cannot be trained on, which nothing of a run would tell."""
    try:
        return check()
    except DiscreetError as error:
        return Outcome(name, "not looked at", notice=f"its rows are refused ({first_line(error)})")
