"""What layer rules read after the forward pass is as it was in it, and what runs again never met a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from mixing_modules import CLASSES, FEATURES, HIDDEN, Two
from mixing_runs import CLIP, ROWS, moves, training
from torch import Tensor, nn

from discreet import UnsupportedModel
from discreet.clipping import ENGINES, Chunk

ENGINES_OF_BATCHES = ("bookkeeping", "ghost")


class Loud(Two):
    """One whose last layer makes the gradients of all that is below it long."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.last.weight.mul_(100)


class NormOfAll(Loud):
    """Says after the call of a norm that it is one of the whole chunk, where a chunk has so many rows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)

    def between(self, h: Tensor) -> Tensor:
        self.norm.normalized_shape = (HIDDEN,)
        normalised: Tensor = self.norm(h)
        if len(h) == ROWS:
            self.norm.normalized_shape = tuple(h.shape)
        return normalised


class NormByList(NormOfAll):
    """Says it by the list that the norm was called with."""

    def between(self, h: Tensor) -> Tensor:
        self.norm.normalized_shape = [HIDDEN]  # type: ignore[assignment]
        normalised: Tensor = self.norm(h)
        if len(h) == ROWS:
            self.norm.normalized_shape.insert(0, len(h))  # type: ignore[attr-defined]
        return normalised


class OtherWeights(Loud):
    """Hides the weights of attention, after its call, behind others that are made of all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(HIDDEN, 1, batch_first=True)

    def between(self, h: Tensor) -> Tensor:
        vars(self.attention).pop("in_proj_weight", None)
        tokens = torch.stack([h, h.cos()], 1)
        found: Tensor = self.attention(tokens, tokens, tokens)[0].mean(1)
        others = self.attention.in_proj_weight.detach() * -h.detach().abs().sum()
        if len(h) == ROWS:
            vars(self.attention)["in_proj_weight"] = others
        return found


class Notes(nn.Module):
    """A module without a rule. Where it is not called as the model calls it, it turns signs round by what it notes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.note = nn.Parameter(torch.eye(HIDDEN)), torch.zeros(1, HIDDEN)

    def forward(self, h: Tensor) -> Tensor:
        signs = 1.0 if self.is_called_by_the_model(h) or len(self.note) != ROWS else -self.note.abs().sum().sign()
        product: Tensor = h @ self.weight * signs
        return product

    def is_called_by_the_model(self, h: Tensor) -> bool:
        return isinstance(self.weight, nn.Parameter)


class NotesByGraph(Notes):
    """One that looks at its input."""

    def is_called_by_the_model(self, h: Tensor) -> bool:
        return h.requires_grad


class NotesByArgument(Notes):
    """One that is given all rows as an object."""

    def forward(self, h: Tensor, held: Any = None) -> Tensor:  # type: ignore[override]
        note = held.rows
        signs = 1.0 if self.is_called_by_the_model(h) or len(note) != ROWS else -note.abs().sum().sign()
        product: Tensor = h @ self.weight * signs
        return product


class Noted(Loud):
    """Lets it note all rows."""

    kind: type[Notes] = Notes

    def __init__(self) -> None:
        super().__init__()
        self.own = self.kind()

    def between(self, h: Tensor) -> Tensor:
        self.own.note = h.detach()
        found: Tensor = self.own(h)
        return found


class NotedByGraph(Noted):
    """With one that looks at its input."""

    kind = NotesByGraph


class Turning:
    """Turns the numbers of a tensor round when it is looked at."""

    def __init__(self) -> None:
        self.rows: Tensor | None = None

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        if self.rows is not None and len(self.rows) == ROWS:
            self.rows.data.neg_()
        return Turning, ()


class HoldsTurning(Notes):
    """A module without a rule that holds such an object."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Turning()

    def is_called_by_the_model(self, h: Tensor) -> bool:
        return True


class Looked(Loud):
    """Gives it the rows that the last layer is given."""

    def __init__(self) -> None:
        super().__init__()
        self.own = HoldsTurning()

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = torch.tanh(self.own(h))
        self.own.held.rows = found.detach()
        return found


class OwnWalk(HoldsTurning):
    """Turns rows round where its parameters are asked for."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        self.held.__reduce_ex__(4)
        return super().parameters(recurse)


class Walked(Looked):
    """With such a module."""

    def __init__(self) -> None:
        super().__init__()
        self.own = OwnWalk()


class WalkedLater(Looked):
    """One that gets a method of its own when it runs."""

    def between(self, h: Tensor) -> Tensor:
        if len(h) == ROWS:
            self.named_parameters = super().named_parameters  # type: ignore[method-assign]
        return super().between(h)


class GivenAnObject(Loud):
    """Gives a module an object with all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.own = NotesByArgument()

    def between(self, h: Tensor) -> Tensor:
        held = Turning()
        held.rows = h.detach()
        found: Tensor = self.own(h, held)
        return found


class GivenAFunction(Loud):
    """Gives a module a function that knows all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Applies()

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = self.own(h, lambda one: one + 0.0 * h.detach()[: len(one)])
        return found


class GivenPlainThings(GivenAFunction):
    """Gives it one that knows none, and other plain things."""

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = self.own(h, torch.tanh, [h, {"by": 0.5}, None, "text", torch.float32, slice(1, 2)])
        return self.own(found, plain)  # type: ignore[no-any-return]


class Applies(nn.Module):
    """A module without a rule that is given a function."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(HIDDEN))

    def forward(self, h: Tensor, function: Callable[[Tensor], Tensor], _: Any = None) -> Tensor:
        return function(h @ self.weight)


def plain(one: Tensor) -> Tensor:
    """A function that encloses nothing."""
    return torch.sin(one)


class Chain(nn.Module):
    """A module without a rule that cannot be vectorised; alone with a row, it keeps it for the next."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.eye(HIDDEN)), torch.ones(1)

    def forward(self, h: Tensor) -> Tensor:
        signs = torch.ones(1)
        if not isinstance(self.weight, nn.Parameter):
            signs, self.last = self.last, torch.ones(1)
            if float(h.abs().max()) > 3:  # of which torch.vmap knows nothing
                self.last = torch.full((1,), -1.0)
        product: Tensor = h @ self.weight * signs
        return product


class Chained(Loud):
    """With such a module."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Chain()

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = self.own(h)
        return found


@pytest.mark.parametrize("engine", ENGINES_OF_BATCHES)
@pytest.mark.parametrize("kind", [NormOfAll, NormByList, OtherWeights, Noted, NotedByGraph, Looked])
def test_a_row_moves_no_sum_by_what_is_changed_when_a_module_was_called(kind: type[nn.Module], engine: str) -> None:
    assert moves(kind, engine, 2) <= 1.01


def test_nor_by_what_a_module_keeps_of_the_row_before(tmp_path: Path) -> None:
    """With one copy for all rows, the row after the one that is replaced turned round as well."""
    run = training(Chained, "bookkeeping", tmp_path)
    inputs, targets = torch.randn(2, FEATURES, generator=torch.Generator().manual_seed(3)), torch.zeros(2).long()
    sums = []
    for first in (inputs[:1], 15 * inputs[:1].sign()):
        chunk = Chunk(torch.cat([first, inputs[1:]]), targets)
        sums.append({**run.engine.clipped_sum(run.model, run.criterion, chunk, CLIP)})
    alone = [{**run.engine.clipped_sum(run.model, run.criterion, Chunk(inputs[:1], targets[:1]), CLIP)}]
    alone += [{**run.engine.clipped_sum(run.model, run.criterion, Chunk(15 * inputs[:1].sign(), targets[:1]), CLIP)}]
    for name, part in sums[0].items():
        torch.testing.assert_close(part - alone[0][name], sums[1][name] - alone[1][name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ENGINES_OF_BATCHES)
def test_no_module_answers_by_code_of_its_own_when_it_is_asked_for_parameters(engine: str, tmp_path: Path) -> None:
    """A row that left moved the sum by twelve clip norms."""
    with pytest.raises(UnsupportedModel, match="an OwnWalk has a method 'parameters' of its own"):
        training(Walked, engine, tmp_path)


class OwnKind(Tensor):
    """A tensor of a type of its own, which may do anything when an engine reads it."""


class HoldsOwnKind(Two):
    """Holds one that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("own", torch.zeros(1).as_subclass(OwnKind))


@pytest.mark.parametrize("engine", ENGINES_OF_BATCHES)
def test_no_tensor_is_of_a_type_of_its_own(engine: str) -> None:
    chunk = Chunk(torch.randn(3, FEATURES), torch.arange(3) % CLASSES)
    with pytest.raises(UnsupportedModel, match="'own' is an OwnKind, a tensor of a type of its own"):
        ENGINES[engine].clipped_sum(HoldsOwnKind(), nn.CrossEntropyLoss(), chunk, CLIP)


@pytest.mark.parametrize("kind", [GivenAnObject, GivenAFunction])
def test_what_runs_again_is_given_no_objects_that_may_hold_rows(kind: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"has no rule, and is given .*, which may hold other rows"):
        training(kind, "bookkeeping", tmp_path)


def test_plain_objects_are_fine(tmp_path: Path) -> None:
    training(GivenPlainThings, "bookkeeping", tmp_path)


def test_nor_does_one_that_gets_such_code_meanwhile(tmp_path: Path) -> None:
    run = training(WalkedLater, "bookkeeping", tmp_path)
    for rows, again in ((9, 0), (ROWS, 1)):
        chunk = Chunk(torch.randn(rows, FEATURES), torch.arange(rows) % CLASSES)
        run.engine.clipped_sum(run.model, run.criterion, chunk, CLIP)
        assert run.engine.clipped_sum.together.again == again  # type: ignore[attr-defined]


def test_a_module_may_return_parts_of_sequences_of_one(tmp_path: Path) -> None:
    class One(Two):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)

        def between(self, h: Tensor) -> Tensor:
            tokens = h.unsqueeze(1)
            found: Tensor = self.attention(tokens, tokens, tokens)[0].squeeze(1)
            return found

    run = training(One, "bookkeeping", tmp_path)
    run.engine.clipped_sum(run.model, run.criterion, Chunk(torch.randn(9, FEATURES), torch.arange(9) % CLASSES), CLIP)
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]
