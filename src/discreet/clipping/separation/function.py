"""Functions of rows without parameters that are trained, such as transforms, checked while they run as engines are."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import unit_seeds
from discreet.clipping.separation.examine import FEWEST, Mixes, proved
from discreet.clipping.separation.recording.program import NO_MODULE
from discreet.clipping.separation.recording.recorder import Recorder, forward, returns
from discreet.clipping.separation.watched import Proofs
from discreet.core.errors import first_line
from discreet.randomness.host_generators import HostGenerators


class Function:
    """A function of rows. It is called with all rows at once if that is proved to keep them apart, and else with one
    row at a time, each by a fresh copy of the function: as was proved, alone or among copies of the row, if it can.

    `function`: from rows to equally many rows, along axis 0. `rows`: random rows of the same shape and type.
    `together`: whether to prove anything. `unproved`: why the proof failed, or "". `again`: the number of calls that
    were done row by row. `lost`: the rows of the last call that became NaN (or zero).
    """

    def __init__(self, function: Callable[[Tensor], Tensor], rows: Tensor, *, together: bool = True) -> None:
        self.function, self._rows, self._device = function, rows, rows.device
        self._pristine = copy.deepcopy(function)
        self._proofs: Proofs | None = None
        self._like: Tensor | None = None
        self._first: Tensor | None = None
        self.unproved, self.again, self.lost = "", 0, list[int]()
        with contextlib.suppress(Exception), torch.random.fork_rng():
            self._like = copy.deepcopy(function)(rows[:1].clone())
        if not together:
            return
        try:
            with torch.random.fork_rng():
                self._proofs = Proofs([proved(self._run)], self._run)
        except (Mixes, RuntimeError, ValueError, IndexError, TypeError) as error:
            self.unproved = first_line(error).removeprefix(f"{NO_MODULE} ")

    @property
    def is_proved(self) -> bool:
        """Whether it may take several rows together."""
        return self._proofs is not None

    @property
    def takes_rows(self) -> bool:
        """Whether it makes a row of a random row."""
        return isinstance(self._like, Tensor) and self._like.dim() > 0 and len(self._like) == 1

    def __call__(self, inputs: Tensor) -> Tensor:
        self.lost = []
        if len(inputs) == 0:
            return self.function(inputs)
        start, host = Generators([inputs]), HostGenerators()
        found = self._as_proved(self.function, inputs, host)
        if found is not None:
            return found
        self.function = copy.deepcopy(self._pristine)  # the other one may remember rows
        self.again += 1
        start.rewind()
        return torch.cat(self._one_by_one(inputs, host))

    def _as_proved(self, function: Callable[[Tensor], Tensor], inputs: Tensor, host: HostGenerators) -> Tensor | None:
        """The output of the function on these rows; None if it did not run a proved program."""
        if self._proofs is None:
            return None
        recorder, given, found = Recorder(), inputs.clone(), None  # the function may write to them
        with (
            recorder.recording(),
            torch.no_grad(),
            forward(None, given),
            _suppressed(),
        ):
            around = Surroundings()
            made = function(given)
            around.check()
            returns(made)
            found = made
        known = not host.rewind() and found is not None and self._proofs.cover(recorder.programs[0])
        return found if known else None

    def _alone(self, row: Tensor, host: HostGenerators) -> Tensor:
        """What becomes of one row: by a proved program, alone or among copies of itself, as it would among others; or
        else what the function makes of it alone."""
        start = Generators([row])
        for times in (1, FEWEST):
            given = row.expand(times, *row.shape[1:])
            found = self._as_proved(copy.deepcopy(self._pristine), given, host)
            if found is not None:
                return found[:1]
            start.rewind()
        return copy.deepcopy(self._pristine)(row.clone())

    def _one_by_one(self, inputs: Tensor, host: HostGenerators) -> list[Tensor]:
        """Each row by a copy of the function. A row on which it fails, or of which it makes something of another shape
        or type than of a random row, becomes NaN (or zero). If it fails on random rows, the first of all rows on which
        it does not takes the place of one, before the run; as long as there is none, the error is raised."""
        parts: dict[int, Tensor] = {}
        error: Exception | None = None
        with unit_seeds() as seed:
            for i, row in enumerate(torch.split(inputs, 1)):
                seed()
                try:
                    parts[i] = self._alone(row, host)
                except (KeyboardInterrupt, GeneratorExit):
                    raise
                except BaseException as raised:  # a transform may raise any error
                    error = raised if isinstance(raised, Exception) else RuntimeError("the function ended the process")
                host.rewind()
        if self._first is None and parts:  # never of a later call, of which one row would decide what becomes of others
            first = next(iter(parts.values()))
            self._first = torch.empty_like(first) if isinstance(first, Tensor) else first
        like = self._like if self.takes_rows else self._first
        if like is None:
            assert error is not None
            raise error
        if like.device == self._device:  # where rows were; the model and its rows may be moved before the run
            like = like.to(inputs.device)
        none = torch.full_like(like, torch.nan) if like.is_floating_point() else torch.zeros_like(like)
        kept = {i: part for i, part in parts.items() if _alike(part, like)}
        self.lost = [i for i in range(len(inputs)) if i not in kept]
        return [kept.get(i, none) for i in range(len(inputs))]

    def _run(self, rows: int) -> None:
        times = -(-rows // len(self._rows))
        inputs = self._rows.repeat(times, *[1] * (self._rows.dim() - 1))[:rows].clone()
        with torch.no_grad(), forward(None, inputs):
            returns(copy.deepcopy(self._pristine)(inputs))


def _alike(one: object, other: Tensor) -> bool:
    """Whether a result is a tensor with the shape, type, layout and device of another."""
    kinds = [(x.shape, x.dtype, x.layout, x.device) for x in (one, other) if isinstance(x, Tensor)]
    return len(kinds) == 2 and kinds[0] == kinds[1]


@contextlib.contextmanager
def _suppressed() -> Iterator[None]:
    """Inside, whatever a function raises ends it, and nothing else; but for Ctrl-C."""
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:
        return
