"""Checks of one private step of anyone, as a function: from a batch to what is released.

`make(inputs, targets)` is given a whole data set, and returns `step(inputs, targets)`, which is given a batch of it and
returns what leaves the step: a tensor, or several in a list or a mapping. Each `make` begins at the same weights, and a
step leaves them as they are (or the step makes them anew), so that releases differ by batch and noise alone.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from discreet.audit.builds.game import Played
from discreet.audit.builds.laws import noise_tests
from discreet.audit.builds.laws.draw_laws import DrawLaw, Slot, binomial_law, impossible, tests
from discreet.audit.outcomes import Outcome, together
from discreet.clipping.seeding import seed_torch
from discreet.core.array_types import Array, BoolArray
from discreet.testing.made_neighbours import Neighbours, Rows, neighbours
from discreet.training.guard import generators_put_back

Step = Callable[[Tensor, Tensor], object]
Make = Callable[[Tensor, Tensor], Step]
Draws = Callable[[int], Sequence[Sequence[int]]]

TOLERANCE = 2e-3
"""Room for rounding, relative to the sensitivity."""

RUNS, DRAWS, UNITS = 400, 200, 60
_NUMBERS, _PAIRS = 20_000, (40, 400)
"""Numbers of noise that are looked at, and the least and the most pairs of releases that they come from."""

_FEW, _STEPS_OF_RUNS = 3, 10


@dataclass(frozen=True, slots=True)
class StepClaim:
    """The claims about a step.

    - `sensitivity`: how far one row may move what is released, in L2 norm, without noise. Of a mean of gradients that
    are clipped to C that is C / divisor.
    - `noise`: the standard deviation of the noise on each number of what is released.
    """

    sensitivity: float
    noise: float


def step_outcomes(make: Make, rows: Rows, claim: StepClaim, effort: float = 1.0) -> list[Outcome]:
    """Replays of neighbours with the same seeds, of one step and of several; the noise of a batch, of none, and of two
    runs; the game with a loud row. `rows`: made up or public."""
    with generators_put_back():
        found = _with_notice(list(_replays(make, rows, claim)))
        found += _noise(make, rows, claim, effort)
        return [*found, _game(make, rows, claim, max(100, round(RUNS * effort)))]


def draw_outcomes(draws: Draws, rate: float, steps: int = DRAWS) -> list[Outcome]:
    """Batches against Poisson sampling: each of `UNITS` rows in each batch with probability `rate`.

    `draws(rows)`: the numbers of the rows in each of some batches, of a data set of so many rows: from 0, and each at
    most once in a batch. It is called until there are `steps` batches of two runs, and again for a data set of a fifth
    more rows, at the same rate.
    """
    found = []
    for name, size in (("draws", UNITS), ("draws, more units", UNITS + UNITS // 5)):
        one, other = (_drawn(draws, size, steps) for _ in range(2))
        unlike = [run for run in (one, other) if isinstance(run, str)]
        if isinstance(one, str) or isinstance(other, str):
            found.append(Outcome(name, unlike[0], wrong=True))
            continue
        law = DrawLaw((Slot(binomial_law(size, rate)),))
        wrong = impossible(law, one) or impossible(law, other)
        said = f"{int(one.sum())} draws in {steps} batches of {size} rows, at a rate of {rate:g}"
        found.append(
            Outcome(name, wrong, wrong=True) if wrong is not None else together(name, tests(law, one, other), said)
        )
    return found


def _drawn(draws: Draws, size: int, steps: int) -> BoolArray | str:
    """Who is in each batch, shape (steps, 1, size); or, in a sentence, why the numbers are not those of drawn rows."""
    batches: list[Sequence[int]] = []
    while len(batches) < steps:
        more = list(draws(size))
        if not more:
            raise ValueError("draws(rows) gave no batch; return the numbers of the rows of each batch")
        batches += more
    found = np.zeros((steps, 1, size), np.bool_)
    for step, batch in enumerate(batches[:steps]):
        numbers = np.asarray(batch, np.int64)
        outside = numbers[(numbers < 0) | (numbers >= size)]
        if len(outside):
            return f"batch {step + 1} of {size} rows has row {outside[0]}; rows have the numbers 0 to {size - 1}"
        times = np.bincount(numbers, minlength=size)
        if times.max() > 1:
            worst = int(times.argmax())
            return f"batch {step + 1} has row {worst} {times[worst]} times; a row that is drawn is in a batch once"
        found[step, 0, numbers] = True
    return found


def _replays(make: Make, rows: Rows, claim: StepClaim) -> Iterator[Outcome]:
    """Checks that one row moves a release no further than is claimed, with the same seeds; not at all if not drawn."""
    batch = rows[0][::2], rows[1][::2]
    one, again = (_released(_begun(make, rows), batch, seed=1) for _ in range(2))
    same = np.linalg.norm(one - again) / claim.sensitivity
    if not same <= TOLERANCE:
        said = (
            "the same seeds of torch, NumPy and Python give another release, so that no replay tells what a row moves"
        )
        yield Outcome("replay", "not looked at", notice=said)
        return
    alone = _several_without(make, rows)
    for pair in neighbours(*rows):
        yield from _replayed(make, pair, batch, claim)
        yield _remembered(make, pair, alone, claim)


def _replayed(make: Make, pair: Neighbours, batch: Rows, claim: StepClaim) -> Iterator[Outcome]:
    with_it = torch.cat([batch[0], pair.canary[0]]), torch.cat([batch[1], pair.canary[1]])
    empty = batch[0][:0], batch[1][:0]
    cases = {"drawn": (batch, with_it, 1.0), "not drawn": (batch, batch, 0.0), "drawn alone": (empty, pair.canary, 1.0)}
    for case, (without, having, allowed) in cases.items():
        name = f"replay/{pair.name}, {case}"
        try:
            one = _released(_begun(make, pair.without), without, seed=2)
            other = _released(_begun(make, pair.having), having, seed=2)
        except Exception as error:  # whatever a step raises is a finding
            yield Outcome(name, f"the step fails: {type(error).__name__}: {error}", wrong=True)
            continue
        with np.errstate(all="ignore"):
            moved = float(np.linalg.norm(other - one)) / claim.sensitivity
        rounded = 2.0**-22 * float(np.linalg.norm(one)) / claim.sensitivity
        said = f"one row moves what is released by {moved:.4g} of the sensitivity; allowed {allowed:g}"
        yield Outcome(name, said, wrong=not moved <= allowed + TOLERANCE + rounded, figures={"moved": moved})


def _remembered(make: Make, pair: Neighbours, alone: Array | Exception, claim: StepClaim) -> Outcome:
    """Several steps of one run, the second of them with the canary: how far it moves each of them. `alone`: what they
    release without it, or how they fail."""
    name = f"replay/{pair.name}, in one of several steps"
    even, odd = _halves(pair.without)
    with_it = torch.cat([even[0], pair.canary[0]]), torch.cat([even[1], pair.canary[1]])
    try:
        if isinstance(alone, Exception):
            raise alone
        one, other = alone, _several(_begun(make, pair.having), [even, with_it, odd, even, odd])
    except Exception as error:  # whatever a step raises is a finding
        return Outcome(name, f"a step fails: {type(error).__name__}: {error}", wrong=True)
    with np.errstate(all="ignore"):
        moved = np.linalg.norm(other - one, axis=1) / claim.sensitivity
    rounded = 2.0**-22 * float(np.linalg.norm(one, axis=1).max()) / claim.sensitivity
    apart = np.delete(moved, 1)
    if not (apart <= TOLERANCE + rounded).all():
        said = (
            f"one row that is in step 2 alone moves another step by {apart.max():.4g} of the sensitivity; allowed 0, "
            "as a step leaves weights and everything else as they were"
        )
        return Outcome(name, said, wrong=True, figures={"moved": float(apart.max())})
    said = f"one row moves the step that it is in by {moved[1]:.4g} of the sensitivity, and no other; allowed 1"
    wrong = not moved[1] <= 1 + TOLERANCE + rounded
    return Outcome(name, said, wrong=wrong, figures={"moved": float(moved[1])})


def _several_without(make: Make, rows: Rows) -> Array | Exception:
    even, odd = _halves(rows)
    try:
        return _several(_begun(make, rows), [even, even, odd, even, odd])
    except Exception as error:  # whatever a step raises is a finding, of each row
        return error


def _halves(rows: Rows) -> tuple[Rows, Rows]:
    return (rows[0][::2], rows[1][::2]), (rows[0][1::2], rows[1][1::2])


def _several(step: Step, batches: Sequence[Rows]) -> Array:
    """The releases of the steps of one run, one after the other: (steps, numbers)."""
    return np.stack([_released(step, batch, seed=number) for number, batch in enumerate(batches, start=10)])


def _with_notice(found: list[Outcome]) -> list[Outcome]:
    """The outcomes of replays, with a notice if no row moved anything by half of what it may."""
    if found[0].notice or any(one.figures.get("moved", 0.0) > 0.5 for one in found):
        return found
    what = "no row moves what is released by half of the sensitivity, so that nothing is shown; give other rows"
    return [replace(found[0], notice=what), *found[1:]]


def _noise(make: Make, rows: Rows, claim: StepClaim, effort: float) -> list[Outcome]:
    """The noise of a batch, as differences of two releases of it; of no batch, as it is."""
    found: list[Outcome] = []
    batch, empty = (rows[0][:_FEW], rows[1][:_FEW]), (rows[0][:0], rows[1][:0])
    step = make(*rows)
    spans = _spans(step(*batch))
    numbers = max(span.stop for span in spans.values())
    pairs = max(10, round(effort * min(_PAIRS[1], max(_PAIRS[0], _NUMBERS // numbers))))
    try:
        alone = np.stack([_released(step, empty) for _ in range(pairs)]) / claim.noise
    except Exception as error:
        said = f"the step fails on a batch of no rows, which Poisson sampling draws: {type(error).__name__}: {error}"
        found.append(Outcome("noise/empty batches", said, wrong=True))
    else:
        found.append(noise_tests.scale("noise/scale, nobody drawn", alone, spans))
        found.append(noise_tests.law("noise/law, nobody drawn", alone, spans))  # a difference of two hides it
    releases = np.stack([_released(step, batch) for _ in range(2 * pairs)])
    if not np.isfinite(releases).all():
        return [*found, Outcome("noise/scale, batch drawn", "what is released is not finite", wrong=True)]
    noise = (releases[1::2] - releases[::2]) / (np.sqrt(2) * claim.noise)
    return [
        *found,
        noise_tests.scale("noise/scale, batch drawn", noise, spans),
        noise_tests.scale_of_each_number("noise/scale of each number", noise, spans),
        noise_tests.law("noise/law, batch drawn", noise, spans),
        noise_tests.steps_apart("noise/steps", noise),
        noise_tests.tensors_apart("noise/tensors", noise, spans),
        noise_tests.places_apart("noise/places", noise, spans),
        noise_tests.steps_apart_by_tensor("noise/steps, tensor by tensor", noise, spans),
        _runs_apart(make, rows, claim, spans),
    ]


def _runs_apart(make: Make, rows: Rows, claim: StepClaim, spans: Mapping[str, slice]) -> Outcome:
    """Whether two runs have each their own noise, tensor by tensor: a generator that is made with the run, with a
    constant seed, gives both the same."""
    batch = rows[0][:_FEW], rows[1][:_FEW]

    def noise() -> Array:
        step = _begun(make, rows, secrets.randbits(62))
        releases = np.stack([_released(step, batch) for _ in range(2 * _STEPS_OF_RUNS)])
        found: Array = (releases[1::2] - releases[::2]) / (np.sqrt(2) * claim.noise)
        return found

    return noise_tests.runs_apart("noise/two runs", noise(), noise(), spans)


def _game(make: Make, rows: Rows, claim: StepClaim, runs: int) -> Outcome:
    """Is the loud row in the batch? A lower bound on what one release gives away, against what is claimed."""
    pairs = {one.name: one for one in neighbours(*rows)}
    pair = pairs.get("loud") or next(iter(pairs.values()))
    batch = rows[0][:_FEW], rows[1][:_FEW]
    with_it = torch.cat([batch[0], pair.canary[0]]), torch.cat([batch[1], pair.canary[1]])
    steps = make(*pair.without), make(*pair.having)
    apart = _released(steps[1], with_it, seed=3) - _released(steps[0], batch, seed=3)
    if not np.isfinite(apart).all():
        return Outcome(f"game/{pair.name}", "the row makes what is released not finite", wrong=True)
    along = apart / max(float(np.linalg.norm(apart)), 1e-300)
    scores = [
        np.array([float(_released(step, given) @ along) for _ in range(runs)])
        for step, given in zip(steps, (batch, with_it), strict=True)
    ]
    played, claimed = Played.of(*scores), claim.sensitivity / claim.noise
    low = played.mu(0.05)
    said = f"one step gives away mu of at least {low:.3g} (95% confidence), and at most {claimed:.3g} is claimed"
    return Outcome(f"game/{pair.name}", said, p=played.p(claimed), figures={"mu": low, "claimed": claimed})


def _begun(make: Make, rows: Rows, seed: int = 0) -> Step:
    """A new run of these rows, made after generators were seeded."""
    _seed(seed)
    return make(*rows)


def _released(step: Step, batch: Rows, seed: int | None = None) -> Array:
    """The release of a step, as one vector, float64; with fresh seeds unless one is given."""
    _seed(secrets.randbits(62) if seed is None else seed)
    inputs, targets = (part.clone() for part in batch)
    return np.concatenate([one.detach().double().cpu().numpy().ravel() for one in _tensors(step(inputs, targets))])


def _tensors(released: object) -> list[Tensor]:
    if isinstance(released, Tensor):
        return [released]
    if isinstance(released, Mapping):
        return list(released.values())
    if isinstance(released, Sequence):
        return list(released)
    raise TypeError(f"a step must return what it releases, a tensor or several; it returned {type(released).__name__}")


def _spans(released: object) -> dict[str, slice]:
    tensors = _tensors(released)
    names = list(released) if isinstance(released, Mapping) else [f"tensor {i}" for i in range(len(tensors))]
    found, start = {}, 0
    for name, one in zip(names, tensors, strict=True):
        found[str(name)] = slice(start, start + one.numel())
        start += one.numel()
    return found


def _seed(seed: int) -> None:
    seed_torch(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
