"""The engine check before a run: does an engine agree with one backward pass per example on this model?

The data is random and shares only its shape with the private data, so the result says nothing about anybody.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from torch import nn

from discreet.clipping import (
    ENGINES,
    Clip,
    Criterion,
    Engine,
    frozen_norms,
    modes_kept,
    training_mode,
)
from discreet.clipping.precision import arithmetic
from discreet.clipping.separation import Remembered
from discreet.clipping.separation.copies import copied
from discreet.clipping.separation.recording.program import Template
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel, first_line
from discreet.data import PrivateData
from discreet.randomness.host_generators import HostGenerators
from discreet.training.preflight.data_check import warn_of_long_rows
from discreet.training.preflight.engine_comparison import Comparison, apart, as_it_was, gradient_rows
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.preflight.engine_timing import (
    CLEARLY,
    LONG,
    NEGLIGIBLE,
    TIMED,
    Candidate,
    choose,
    described,
    seconds,
)
from discreet.training.preflight.float_slack import SIZES, TooMuchRounding, float_slack, unmeasured_reach
from discreet.training.preflight.losses.loss_check import check_loss
from discreet.training.preflight.losses.loss_trials import livelier
from discreet.training.preflight.random_rows import UNITS, Examples, few_words, random_rows
from discreet.training.preflight.watching import BATCHED, Pristine, watched

_CANDIDATES = ("bookkeeping", "ghost", "vmap")
"""The engines that `auto` chooses from, in order of preference."""

_LARGEST_CHUNK = 1024
"""Rows of a chunk, at most, for engines that run it as a batch."""

_SHORT = 50
"""Gradients of random rows that are more than this many times shorter than the clip norm are warned of."""

CHECKED: Remembered[Preflight] = Remembered("checked engines")
"""Results of the engine check, used again within one audit."""

_log = logging.getLogger("discreet")


@dataclass(frozen=True, slots=True, repr=False)
class Preflight:
    """The engine to train with, its examples per chunk, and one line on how it was checked and chosen.

    `proved`: the model's proved programs, where the engine runs batches as batches. `reach`: the largest number in a
    row that may still be batched with others. `plain`: the engine without its run-time check, for random rows.
    `arithmetic`: a kind of device, and the settings of torch under which rounding was measured on it.
    """

    engine: Engine
    chunk: int
    line: str = field(compare=False)
    reach: float = math.inf
    proved: tuple[Template, ...] = field(default=(), compare=False, repr=False)
    plain: Engine | None = field(default=None, compare=False, repr=False)
    arithmetic: tuple[str, str] = ("cpu", "")

    def __repr__(self) -> str:
        return f"<Preflight: {self.line}>"

    def report(self) -> None:
        """Log the line to the logger "discreet"."""
        _log.debug("%s", self.line)


def try_engines(
    engine: str | EngineOptions,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int = 1,
    clips: tuple[Clip, ...] = (Clip(1.0, 2.0**-30),),
) -> Preflight:
    """Choose an engine, after a comparison with `reference` on random data.

    `classes`: the number of classes, if targets are class indices. `rows_per_unit`: if above one, the random examples
    form units of one, two and more rows. `clips`: clips of the plan's rule; the largest distance over them counts.
    `UnsupportedModel` if the named engine does not work on this model, or for `auto`, if none does.
    """
    options = EngineOptions.of(engine)
    frozen, rows = frozen_norms(model), rows_per_unit * data.views
    pristine = Pristine(*copied(model, criterion), random_rows(model, data, classes, rows))  # as it was before any row
    with _host_generators_left():
        examples = random_rows(model, data, classes, rows)
    if (remark := few_words(model, examples)) is not None:
        _log.warning("%s", remark)
    timed = options.physical_batch if options.name == AUTO else None  # rows of the chunks that `auto` takes
    given = EngineOptions(options.name, options.autocast, physical_batch=timed), model, criterion, examples, clips
    rows_of = examples.inputs, examples.targets, None if examples.units is None else examples.units.sizes
    found = CHECKED.of(partial(_compared, *given), *given[:3], *rows_of, clips, ENGINES)
    chunk, line = options.physical_batch or found.chunk, found.line
    if options.autocast is not None:
        line += f"; under autocast to {options.autocast}"
    if frozen:
        kept = f"{frozen[0]!r}" + (f" and {len(frozen) - 1} more" if len(frozen) > 1 else "")
        line += f"; norm {kept} stays in evaluation mode, with the statistics that it has"
    most = max(chunk, rows)
    taken = watched(found.engine, options, pristine, most, found.proved, found.reach)
    if math.isfinite(found.reach):
        line += f"; rows with a number beyond {found.reach:g} are taken one at a time"
        warn_of_long_rows(data, found.reach)
    plain, device = options.shaped(found.engine, most), next(model.parameters()).device.type
    return Preflight(taken, chunk, line, found.reach, found.proved, plain, (device, arithmetic(device)))


def _compared(
    options: EngineOptions, model: nn.Module, criterion: Criterion, examples: Examples, clips: tuple[Clip, ...]
) -> Preflight:
    """Compares the engine with the reference on random rows; depends on its arguments only, and reads no data."""
    name = options.name
    with _host_generators_left():
        with as_it_was(model):
            examples = livelier(model, criterion, examples)
            check_loss(model, criterion, examples)
        if name == "reference":
            line = "engine reference: one backward pass per example"
            return Preflight(options.engine(name), gradient_rows(model), line)
        with as_it_was(model):
            try:
                stage = Comparison(options, model, criterion, examples, clips)
            except CANNOT_TAKE as error:
                return _unchecked(options, model, error)
            _warn_of_short_gradients(stage.shortfall)
            return _chosen(stage, options.physical_batch) if name == AUTO else _checked(stage, name)


@contextmanager
def _host_generators_left() -> Iterator[None]:
    """Refuse what draws from the global generators of NumPy and Python inside."""
    host = HostGenerators()
    yield
    if host.rewind():
        raise UnsupportedModel(
            "the model or the loss draws from the global generator of NumPy or Python; use torch's generator, which is "
            "seeded with secret bits"
        )


def _checked(stage: Comparison, name: str) -> Preflight:
    """The engine, if it agrees with the reference for every way to cut the examples into chunks."""
    known: tuple[Template, ...] = ()
    if name in BATCHED and stage.mixing is not None:
        raise stage.mixing
    if stage.draws:
        _check_drawing(stage, name)
    chunk, distance = _room(stage, name), stage.distance(name)
    if name in BATCHED:
        stage.check_backward()
        known = stage.proved()
    if not stage.fixed:
        line = f"engine {name}: runs on random data; not compared with reference, as the model draws random numbers"
        return Preflight(stage.options.engine(name), chunk, line, _reach(name, lambda: unmeasured_reach(stage)), known)
    worst = distance.reference
    tolerance = stage.tolerance + (stage.cut_to_grid if name == "exact" else 0.0)
    if not worst <= tolerance:
        raise UnsupportedModel(
            f"the engine {name!r} is {worst:.1e} of the clip norm away from 'reference' on random data, more than "
            f"{tolerance:g}; use engine='reference'"
        )
    engine, what = stage.options.engine(name), "examples" if stage.examples.units is None else "units"
    line = f"engine {name}: within {worst:.1e} of the clip norm from reference"
    if engine.float_bits is None:
        return Preflight(engine, chunk, f"{line}, on {UNITS} random {what}", proved=known)
    slack = float_slack(stage, name, distance.singles + distance.excess)
    if stage.reduced:
        line += f", and {slack.distance:.1e} from one at a time"
    else:
        line += f", on natural rows {slack.distance:.1e}" if slack.natural else ", natural rows could not be tried"
    line += f", on {UNITS} random {what} of each kind; the noise covers 2^-{slack.bits} for each"
    return Preflight(replace(engine, float_bits=slack.bits), chunk, line, _reach(name, lambda: slack.reach), known)


def _reach(name: str, found: Callable[[], float]) -> float:
    """The largest number in a row that may be batched with others; no limit where every row is taken alone."""
    return found() if name in _CANDIDATES else math.inf


def _check_drawing(stage: Comparison, name: str) -> None:
    """Refuse an engine that cannot run a model that draws random numbers; and `ghost`, if its second pass does not draw
    the same numbers again."""
    clip = stage.clips[0]
    with modes_kept(stage.model):
        training_mode(stage.model)
        one = stage.sums(name, stage.examples, clip)
        other = stage.sums("bookkeeping", stage.examples, clip) if name == "ghost" else one
    if not apart(one, other, clip) <= stage.tolerance:
        raise UnsupportedModel(
            "the model draws random numbers that do not come from torch's generator, so the two passes of the engine "
            "'ghost' would see different ones; use engine='bookkeeping'"
        )


def _chosen(stage: Comparison, chunk: int | None) -> Preflight:
    """The fastest of the engines that work.

    An engine is skipped if it is clearly slower on a few rows than an earlier one that has memory for the chunk. Where
    the model is so large that there is memory for a few gradients only, `bookkeeping` has no rival and is not timed.
    """
    found: dict[str, Preflight] = {}
    faults: dict[str, UnsupportedModel] = {}
    few: dict[str, Candidate] = {}
    for name in _CANDIDATES:
        rivals = [few[one].seconds for one in found if few[one].chunk >= (chunk or 1)]
        if rivals and min(rivals) * UNITS < NEGLIGIBLE:
            break
        if rivals and name == "ghost":  # it takes two passes where book-keeping takes one
            continue
        if found and name == "vmap" and gradient_rows(stage.model) < UNITS:
            continue
        try:
            if name == "bookkeeping" and gradient_rows(stage.model) < UNITS and _room(stage, name) >= (chunk or 1):
                return _checked(stage, name)
            few |= _timed(stage, [name], chunk, UNITS)
            if not rivals or few[name].seconds < CLEARLY * min(rivals):
                found[name] = _checked(stage, name)
        except UnsupportedModel as error:
            faults[name] = error
    if not found:
        return _exact(stage, faults)
    names = list(found)
    if len(names) > 1:
        rows = TIMED if max(few[name].seconds for name in names) * TIMED < LONG else UNITS
        few |= _timed(stage, names, chunk, rows)
        if choose([few[name] for name in names], chunk).name != names[0]:  # which may have been held up
            again = _timed(stage, names, chunk, rows)
            few |= {name: min(few[name], again[name], key=lambda one: one.seconds) for name in names}
    best = choose([few[name] for name in names], chunk)
    line = f"{found[best.name].line}; {described([*few.values()], chunk)}"
    fault = faults.get("bookkeeping")
    if fault is not None:
        _log.warning("engine 'bookkeeping' is not used: %s", fault)
        line += f"; not bookkeeping: {fault}"
    return replace(found[best.name], line=line)


def _timed(stage: Comparison, names: list[str], chunk: int | None, most: int) -> dict[str, Candidate]:
    """Time each engine on a chunk of the size it would have, `most` rows at most."""
    room = {name: _room(stage, name) for name in names}
    parts = {name: stage.examples.about(min(room[name], chunk or room[name], most)) for name in names}
    calls = [partial(stage.sums, name, parts[name], stage.clips[0]) for name in names]
    times = zip(names, seconds(calls, stage.examples.inputs.device), strict=True)
    return {name: Candidate(name, taken / len(parts[name].inputs), room[name]) for name, taken in times}


def _exact(stage: Comparison, faults: dict[str, UnsupportedModel]) -> Preflight:
    """The engine `exact`, if the others failed by rounding too much; otherwise raise the others' faults."""
    rounding = next((fault for fault in faults.values() if isinstance(fault, TooMuchRounding)), None)
    if rounding is None:
        raise UnsupportedModel(f"{faults['bookkeeping']}; as it is, {faults['vmap']}")
    _log.warning("engine 'exact' is used, which is slow: %s", rounding)
    found = _checked(stage, "exact")
    return replace(found, line=f"{found.line}; not a faster one: {rounding}")


def _unchecked(options: EngineOptions, model: nn.Module, error: Exception) -> Preflight:
    reason = first_line(error)
    if options.name in BATCHED:
        raise UnsupportedModel(
            f"the engine {options.name!r} cannot be checked, as the model does not take random data ({reason}); "
            "use engine='vmap'"
        ) from error
    name = "exact" if options.name == "exact" else "vmap"
    line = f"engine {name}: not checked on random data ({reason})"
    return Preflight(options.engine(name), gradient_rows(model), line, math.inf if name == "exact" else SIZES[0])


def _warn_of_short_gradients(shortfall: float) -> None:
    if shortfall > _SHORT:
        _log.warning(
            "gradients of random rows are at least %.0f times shorter than the clip norm, which the noise follows; "
            "if yours are like these, lower the clip norm, or mend the loss (of one row alone, by what is it divided?)",
            shortfall,
        )


def _room(stage: Comparison, name: str) -> int:
    """The number of rows that fit into the memory for a chunk."""
    if name not in BATCHED:
        return gradient_rows(stage.model)
    return min(_LARGEST_CHUNK, stage.footprint.fitting(name, stage.examples.inputs.device))
