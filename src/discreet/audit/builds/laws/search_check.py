"""Searches for settings: how many runs they make, of which candidates, what they charge, and which run comes out."""

from __future__ import annotations

import copy
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discreet.audit import tails
from discreet.audit.builds.following import each_event
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.small_plans import adding_one, small
from discreet.audit.builds.subject import Subject, memory
from discreet.audit.outcomes import Outcome, together
from discreet.core.array_types import Array
from discreet.core.errors import DiscreetError
from discreet.core.events import Compose
from discreet.core.events.event_json import from_json
from discreet.core.trials import Trials, fewest, first_mass, most, next_ratio
from discreet.data import PrivateData, as_private
from discreet.ledger import Entry
from discreet.plan import PartsSearch, Search
from discreet.plan.tuning.candidates import grid_of
from discreet.queries.choices import FULL_SCORE
from discreet.randomness import Purpose, SystemStream, new_run_key
from discreet.training import PublicData, RunOptions, Setup, Trained, Tuning
from discreet.training.tuning.tuning import score_of

ROWS, PARTED, RUNS, CANDIDATES = 24, 60, 40, 4
_COUNTED, _DRAWS, _LONGEST = 150, 4000, 2**20
_SCORE, _BOUND = "validation_loss", 3.0  # a loss has a value whatever the model says


class _Watched(Tuning):
    """A search whose trials are noted: the candidate, what was charged before, and the result.

    `known`: a result that stands for that of every trial, so that trials are counted and not carried out.
    """

    known: tuple[Trained, Any] | None = None
    last: tuple[Trained, Any] | None = None

    def again(self) -> Trained | None:
        """One more search, under a key of its own; None if it drew no trial, as some laws allow."""
        key = new_run_key()
        self._start = lambda number: SystemStream.start(key, number)
        self.trials: list[tuple[int, int, Trained]] = []
        self.charged: tuple[Entry, ...] = ()
        try:
            return self.run()
        except DiscreetError:
            if self.trials:
                raise
            return None

    def _charge(self, randomness: str) -> tuple[str, tuple[Entry, ...]]:
        run, self.charged = super()._charge(randomness)
        return run, self.charged

    def _trial(self, index: int, run: str, trial: int, stop: Any) -> Any:
        before = len(self.charged)
        found = super()._trial(index, run, trial, stop) if self.known is None else self.known
        self.last = found
        self.trials.append((index, before, found[0]))
        return found


def search_outcomes(subject: Subject, search: Search | PartsSearch) -> Iterator[Outcome]:
    """Searches of the kind and law of `search`, with up to four candidates, over short runs on made-up rows.

    Runs are scored by public made-up rows, or by the last part of the data. What a run itself releases is the matter of
    the other checks. Runs are carried out in a few searches, and only counted in many more.
    """
    count = min(CANDIDATES, len(search.candidates))
    scored = {"score": "loss", "bound": _BOUND}
    grid = grid_of({"candidate": list(range(max(2, count)))})
    with tempfile.TemporaryDirectory(dir=memory()) as folder, subject.checks_once():
        if isinstance(search, PartsSearch):
            yield from _of_parts(_parts(subject, search.model_copy(update={"grid": grid} | scored), Path(folder)))
        else:
            made = search.model_copy(update={"grid": grid, "score": _SCORE, "initial_states": ()})
            yield from _of_trials(_tuning(subject, made, subject.maker.units(ROWS, seed=9), Path(folder)))


def _tuning(subject: Subject, search: Search | PartsSearch, rows: MadeUp, folder: Path) -> _Watched:
    """A search over short runs of the subject; all candidates are alike."""

    def build(_settings: Mapping[str, Any]) -> Setup:
        model, criterion, optimizer = copy.deepcopy((subject.model, subject.criterion, subject.optimizer))
        return Setup(model, criterion, optimizer)

    parts = isinstance(search, PartsSearch)
    sampling = adding_one(subject.plan, ROWS, 0.25)
    plan = search.over(small(subject.plan, sampling, PARTED if parts else ROWS, sampling.sampler(ROWS).period))
    public = None if parts else PublicData(validation=subject.maker.rows(8, 10))
    units = None if rows.users is None else list(rows.users)
    return _Watched(
        plan,
        build,
        (rows.inputs, rows.targets),
        units=units,
        ids=list(range(PARTED - rows.units, PARTED)) if parts and units is None else None,
        public=public,
        run=RunOptions(folder / "run", ledger=str(folder / "ledger.sqlite")),
        engine=subject.engine,
    )


def _of_trials(tuning: _Watched) -> list[Outcome]:
    search = tuning.plan.search
    assert isinstance(search, Search)
    charges = noise = winners = searches = runs = 0
    while runs < RUNS:
        winner = tuning.again()
        trials = [one for _, _, one in tuning.trials]
        searches, runs = searches + 1, runs + max(1, len(trials))
        charges += not _charged(tuning)
        noise += len({_state(one) for one in trials}) < len(trials)
        winners += not _is_best(winner, trials, search)
    return [
        *_laws(tuning, search),
        _broken("charges", charges, searches, "are not charged whole, once, and before their first run"),
        _broken("noise", noise, searches, "have two runs that end at the same weights, as if their noise were one"),
        _broken("winner", winners, searches, "give away another run than the best by its score"),
    ]


def _broken(name: str, wrong: int, searches: int, what: str) -> Outcome:
    return Outcome(f"search/{name}", f"{wrong} of {searches} searches {what}", wrong=wrong > 0)


def _laws(tuning: _Watched, search: Search) -> list[Outcome]:
    """The number of runs and their candidates, counted over many searches that train nothing."""
    numbers: list[int] = []
    chosen: Counter[int] = Counter()
    tuning.known = tuning.last
    for _ in range(_COUNTED):
        tuning.again()
        numbers.append(len(tuning.trials))
        chosen.update(index for index, _, _ in tuning.trials)
    return [_counted(numbers, search.trials), _uniform(chosen, len(search.candidates))]


def _charged(tuning: _Watched) -> bool:
    """Whether the ledger holds the event of the whole search and nothing else, charged before the first run."""
    events = Compose(tuple(from_json(one.content) for one in tuning.charged if one.kind == "reservation"))
    first = all(before == len(tuning.charged) for _, before, _ in tuning.trials)
    return first and each_event(events) == each_event(tuning.plan.event())


def _state(trained: Trained) -> str:
    digest = hashlib.sha256()
    for name, one in sorted(trained.model.state_dict().items()):
        digest.update(name.encode() + one.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _is_best(winner: Trained | None, trials: Sequence[Trained], search: Search) -> bool:
    if winner is None:
        return not trials
    scores = [score_of(one, search.score, None) for one in trials]
    return any(one.model is winner.model and score == max(scores) for one, score in zip(trials, scores, strict=True))


def _counted(numbers: Sequence[int], trials: Trials) -> Outcome:
    """The numbers of runs against their law: how many searches have each number, and all runs together."""
    law = _law(trials)
    found = Counter(numbers)
    parts = [
        (f"{k} runs, {found[k]} times", tails.binomial(found[k], len(numbers), float(law[k]))) for k in _likely(law)
    ]
    first = numbers[: max(1, _LONGEST // len(law))]  # of a law with a long tail fewer, as its sum has a longer one
    total = tails.of_law(sum(first), tails.repeated_law(law, len(first)))
    missing = len(first) * max(0.0, 1 - float(law.sum()))
    parts.append((f"{sum(first)} runs in {len(first)} searches", min(1.0, total + missing)))
    said = f"{len(numbers)} searches make {np.mean(numbers):.3g} runs on average, and their law says {trials.mean:.3g}"
    return together("search/runs", parts, said)


def _law(trials: Trials) -> Array:
    law, mass = np.zeros(most(trials, 1e-12) + 1), first_mass(trials)
    for k in range(fewest(trials), len(law)):
        law[k] = mass
        mass *= next_ratio(trials, k)
    return law


def _likely(law: Array) -> list[int]:
    """Up to eight numbers of runs, the likeliest first."""
    return sorted(np.argsort(-law, kind="stable")[:8].tolist())


def _uniform(chosen: Counter[int], candidates: int) -> Outcome:
    total = sum(chosen.values())
    parts = [
        (f"candidate {i + 1}, {chosen[i]} of {total} times", tails.binomial(chosen[i], total, 1 / candidates))
        for i in range(candidates)
    ]
    return together("search/candidates", parts, f"{candidates} candidates are drawn alike")


def _parts(subject: Subject, search: PartsSearch, folder: Path) -> tuple[_Watched, _Watched]:
    """The same search on made-up rows, and on those without their first unit."""
    rows = subject.maker.units(PARTED, seed=9)
    kept = torch.from_numpy(rows.owners() > 0)
    users = None if rows.users is None else tuple(one for one, stays in zip(rows.users, kept, strict=True) if stays)
    fewer = MadeUp(rows.inputs[kept], rows.targets[kept], users)
    return _tuning(subject, search, rows, folder), _tuning(subject, search, fewer, folder / "fewer")


def _of_parts(pair: tuple[_Watched, _Watched]) -> list[Outcome]:
    tuning, fewer = pair
    search, choice = tuning.plan.search, tuning._choice
    assert isinstance(search, PartsSearch)
    assert choice is not None
    changed = sum(one != other for one, other in zip(_contents(tuning), _contents(fewer), strict=True))
    tuning.again()
    late = 0 if _charged(tuning) else 1
    scores = [round(FULL_SCORE * 3 * i / search.choice.epsilon / search.parts) for i in range(search.parts - 1)]
    weights = np.exp(np.array(scores) * (search.choice.epsilon / FULL_SCORE))
    stream = SystemStream.start(new_run_key(), 0).substream(Purpose.NOISE, 0)
    picked = Counter(choice.choose(scores, stream) for _ in range(_DRAWS))
    laws = [
        (f"candidate {i + 1}, {picked[i]} of {_DRAWS} times", tails.binomial(picked[i], _DRAWS, float(weight)))
        for i, weight in enumerate(weights / weights.sum())
    ]
    return [
        Outcome("search/parts", f"one unit less changes {changed} parts of the data", wrong=changed != 1),
        _broken("charges", late, 1, "are not charged whole, once, and before their first run"),
        together("search/choice", laws, "one of all candidates comes out by the exponential mechanism"),
    ]


def _contents(tuning: _Watched) -> list[Counter[bytes]]:
    """The rows of each part of the data, the last one among them."""
    choice = tuning._choice
    assert choice is not None
    parts = [as_private(one.data) for one in tuning._seen]
    return [_rows(one) for one in [*parts, choice._data]]


def _rows(data: PrivateData) -> Counter[bytes]:
    inputs, _ = data.fetch(np.arange(data.rows, dtype=np.int64))
    return Counter(one.numpy().tobytes() for one in inputs)
