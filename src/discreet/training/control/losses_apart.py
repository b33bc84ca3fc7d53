"""Losses of private rows at several parameter values, each computed as by a model that has seen no other row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from discreet.clipping import Criterion, evaluation_mode, private_parameters
from discreet.clipping.losses import each_loss
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import unit_seeds
from discreet.clipping.separation import Kept, Memory, Mixes, Proofs, proved, recorder
from discreet.clipping.separation.copies import copied
from discreet.clipping.separation.watched import NOT_OF_A_ROW
from discreet.data import PrivateData
from discreet.training.preflight.random_rows import random_rows

Place = dict[str, Tensor]
"""Parameters that replace those of the model."""


class LossesApart:
    """Losses from one copy of model and loss; or, if the copy remembers anything, from a fresh copy for each row.

    `model` and `criterion` have seen no private row, and see none here.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, data: PrivateData, proofs: Proofs | None) -> None:
        self._given, self._proofs = (model, criterion), proofs
        self._used = copied(model, criterion)
        _warm(*self._used, data)
        self._memory, self._kept = Memory(*self._used), Kept(*self._used)
        self._changed = False

    def together(self, place: Place, inputs: Tensor, targets: Tensor) -> Tensor:
        """Losses of the rows of a chunk, computed together where rows are proved to stay apart. Random numbers are the
        same either way."""
        start = Generators([inputs, *place.values()])
        if not self._changed:
            losses = _losses_together(*self._used, place, inputs.clone(), targets.clone(), self._proofs)
            self._changed = not self._kept.is_kept(*self._used)
            if losses is not None and not self._changed:
                return losses
            start.rewind()
        return self.singly(place, inputs, targets)

    def singly(self, place: Place, inputs: Tensor, targets: Tensor) -> Tensor:
        """The same, one row at a time."""
        start, rows = Generators([inputs, *place.values()]), list(singly(inputs, targets))
        if not self._changed and self._memory.is_kept(*self._used):
            found = []
            with unit_seeds() as seed:
                for row in rows:
                    seed()
                    found.append(_losses_or_none(*self._used, place, *row))
                    if not self._memory.is_kept(*self._used):
                        break
                else:
                    return torch.cat(found)
            start.rewind()
            self._changed = True
        found = []
        with unit_seeds() as seed:
            for row in rows:
                seed()
                found.append(_losses_or_none(*copied(*self._given), place, *row))
        return torch.cat(found)


def singly(inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each row of a chunk, with a batch axis of length 1."""
    return zip(torch.split(inputs, 1), torch.split(targets, 1), strict=True)


def losses_at(model: nn.Module, criterion: Criterion, place: Place, inputs: Tensor, targets: Tensor) -> Tensor:
    """Losses of the rows when the model is called with all of them."""
    return each_loss(criterion, functional_call(model, place, (inputs,)), targets)


def evaluated_apart(model: nn.Module, data: PrivateData) -> Proofs:
    """The programs that the model runs in evaluation mode, at parameters given for its own, and that are proved to keep
    rows apart."""

    def run(rows: int) -> None:
        inputs = examples.inputs.repeat(3, *[1] * (examples.inputs.dim() - 1))[:rows].clone()
        with torch.no_grad(), evaluation_mode(model):
            _output_at(model, place, inputs)

    model, _ = copied(model, nn.CrossEntropyLoss())  # what it remembers of them does not stay
    place = {name: one.detach().clone() for name, one in private_parameters(model).items()}
    try:
        examples = random_rows(model, data, None, raw=True)
        with torch.random.fork_rng():
            return Proofs([proved(run)], run)
    except (Mixes, RuntimeError, ValueError, IndexError, TypeError):
        return Proofs((), lambda rows: None)  # every row is done alone


def _output_at(model: nn.Module, place: Place, inputs: Tensor) -> Any:
    """The model's output, whose operators are recorded. Proof and losses call this, so that both run one program."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers()), **place}
    with recorder.forward(model, inputs, [*state.items()]):
        output = functional_call(model, place, (inputs,))
        recorder.returns(output)
    return output


def _losses_together(
    model: nn.Module, criterion: Criterion, place: Place, inputs: Tensor, targets: Tensor, proofs: Proofs | None
) -> Tensor | None:
    """Losses of the rows; None if model or loss fails on one of them, or if they are not proved to stay apart."""
    record = recorder.Recorder()
    try:
        with record.recording():
            output = _output_at(model, place, inputs)
        if proofs is not None and not proofs.cover(record.programs[0]):
            return None
        return each_loss(criterion, output, targets)
    except NOT_OF_A_ROW:
        raise
    except BaseException:  # a module may raise whatever it likes
        return None


def _losses_or_none(model: nn.Module, criterion: Criterion, place: Place, inputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of a row; infinite if model or loss fails on it, because an error would reveal something of that row."""
    try:
        return losses_at(model, criterion, place, inputs.clone(), targets.clone())
    except NOT_OF_A_ROW:
        raise
    except BaseException:  # a module may raise whatever it likes
        return torch.full((1,), math.inf, device=inputs.device)


def _warm(model: nn.Module, criterion: Criterion, data: PrivateData) -> None:
    """Run model and loss on a random row, so that anything they create at their first call exists."""
    with torch.random.fork_rng():
        try:
            examples = random_rows(model, data, None, raw=True)
            losses_at(model, criterion, {}, examples.inputs[:1], examples.targets[:1])
        except Exception:  # a module or a data set may raise whatever it likes
            return
