"""Engines held against the plain definition on a random case: what they sum up, and how far one unit moves it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from clips import apart, length
from fuzz_cases import Case, gradients, wanted
from fuzz_losses import WIDTH
from torch import Tensor

from discreet.clipping import ENGINES
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.engines.long_rows import LongAlone
from discreet.core.assumptions import MOST_BITS
from discreet.core.errors import UnsupportedModel
from discreet.data import as_private
from discreet.training.preflight.engine_check import try_engines
from discreet.training.preflight.float_slack import SIZES

TOGETHER, ALONE = ("bookkeeping", "ghost", "vmap"), ("reference", "exact")

AGREEMENT = 1e-3
"""How far a sum may be from the plain one, per unit and relative to the clip norm, where rounding is no matter."""

ROUNDING = 4
"""Where it is, a sum may be so many times further from the plain one than that is from double precision."""

BEYOND = 1e29
"""Longer gradients may count as not finite in single precision, and contribute nothing."""

LARGEST = 64
"""Units in the largest batch that there may be; the declared slack is for as many."""

EXACTLY = 1e-9
"""What rounding in double precision may add to what a unit moves."""


@dataclass
class Verdict:
    """By engine. `moved`: the most that a unit that left moved the sum, over the sensitivity. `allowed`: 1 and the
    declared slack. `apart`: from the plain sum, over units and the clip norm. `refused`: why an engine does not admit
    the model. `rehearsed`: engines that were run as a preflight on random rows has them. `rounded`: engines whose sum
    is the plain one in double precision only: weights that gradients are cut with leave room for the rounding of terms
    that cancel. `wrong`: what is."""

    moved: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    apart: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    rehearsed: list[str] = field(default_factory=list)
    rounded: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judged(case: Case, engines: Collection[str] = (*TOGETHER, *ALONE)) -> Verdict:
    """What these engines do with a case."""
    found, plain = Verdict(), _Plain(case)
    with _quiet(case.number):
        for name in engines:
            if name in TOGETHER:
                _together(case, name, plain, found)
            else:
                _note(case, name, ENGINES[name].clipped_sum, 0.0, plain, found)
    for name, moved in found.moved.items():
        if not moved <= found.allowed[name]:
            found.wrong.append(f"{name}: a unit moved the sum by {moved:.4f}, {found.allowed[name]:.4f} allowed")
    for name, far in found.apart.items():
        if far <= plain.tolerance:
            continue
        if name in TOGETHER and apart_in_double(case, name) <= AGREEMENT:
            found.rounded.append(name)
        else:
            found.wrong.append(f"{name}: {far:.1e} from the plain sum, {plain.tolerance:.1e} allowed")
    return found


def apart_in_double(case: Case, name: str) -> float:
    """How far an engine's sum is from the plain one in double precision; infinite if the engine refuses the model."""
    case = case.in_double()
    with _quiet(case.number):
        try:
            found = case.total(ENGINES[name].clipped_sum, list(range(len(case.sizes))))
        except UnsupportedModel:
            return math.inf
        return distance(case, found, wanted(case, gradients(case)))


class _Plain:
    """The sum by definition, how much rounding there is in it, and who leaves: the longest unit and another."""

    def __init__(self, case: Case) -> None:
        units = gradients(case)
        self.sum = wanted(case, units)
        double = wanted(case, gradients(case.in_double()))
        self.tolerance = AGREEMENT + ROUNDING * distance(case, self.sum, double)
        lengths = [length(unit) for unit in units]
        self.tolerance += sum(not one < BEYOND for one in lengths) / len(units)
        longest = max(range(len(units)), key=lambda i: lengths[i] if math.isfinite(lengths[i]) else math.inf)
        self.leaving = list(dict.fromkeys((longest, case.number % len(units))))


def distance(case: Case, one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """How far two sums are from each other, per unit and relative to what a unit may add."""
    return apart(one, other) / (len(case.sizes) * case.clip.spread)


def _together(case: Case, name: str, plain: _Plain, found: Verdict) -> None:
    """An engine that takes rows together: first with the least slack that there is; if that does not do, as a preflight
    on random rows says, as in every run."""
    engine = LongAlone(ENGINES[name].clipped_sum, ENGINES["reference"].clipped_sum, SIZES[-1])
    _note(case, name, engine, 2.0**-MOST_BITS, plain, found)
    if name in found.refused or (found.moved[name] <= found.allowed[name] and found.apart[name] <= plain.tolerance):
        return
    found.rehearsed.append(name)
    classes = None if case.targets.is_floating_point() else WIDTH
    try:
        rows = as_private((case.inputs, case.targets))
        admitted = try_engines(name, case.model, case.criterion, rows, classes, case.most, (case.clip,)).engine
    except UnsupportedModel as error:
        found.refused[name] = str(error)
        for values in (found.moved, found.allowed, found.apart):
            del values[name]
        return
    assert admitted.error is not None
    _note(case, name, admitted.clipped_sum, admitted.error, plain, found)


def _note(case: Case, name: str, engine: ClippedSums, error: float, plain: _Plain, found: Verdict) -> None:
    count = len(case.sizes)
    everyone = list(range(count))
    try:
        sums = [case.total(engine, everyone)]
        if name == TOGETHER[0]:  # of the others, whole chunks are enough
            cut = 1 + case.number % (count - 1)
            one, other = (case.total(engine, some) for some in (everyone[:cut], everyone[cut:]))
            sums.append({key: one[key] + other[key] for key in one})
        leaving = plain.leaving if name == TOGETHER[0] else plain.leaving[:1]
        rests = [case.total(engine, [i for i in everyone if i != unit]) for unit in leaving]
    except UnsupportedModel as refusal:
        found.refused[name] = str(refusal)
        return
    found.moved[name] = max(apart(one, rest) for one in sums for rest in rests) / case.clip.sensitivity
    found.allowed[name] = 1 + EXACTLY + 2 * error * LARGEST * case.clip.spread / case.clip.sensitivity
    found.apart[name] = max(distance(case, one, plain.sum) for one in sums)


@contextmanager
def _quiet(number: int) -> Iterator[None]:
    """Torch's generator, seeded, and put back; no remarks of torch's on what modules do."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(number)
        yield
