"""Made-up rows of the shape of private ones. Nothing of a private row but its shape and type is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet.core.array_types import IntArray
from discreet.training.preflight.random_rows import rows_of_model

_TEXT = 4
"""Rows of so many whole numbers or more are taken for texts, which zeros fill up."""

Rows = tuple[Tensor, Tensor]
"""Inputs and targets, each with the rows along axis 0."""


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """Made-up rows, and whose each is where a plan protects users."""

    inputs: Tensor
    targets: Tensor
    users: tuple[int, ...] | None = None

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.inputs) if self.users is None else len(set(self.users))

    def owners(self) -> IntArray:
        """The unit of each row, counted as they first appear; shape (rows,)."""
        numbers: dict[int, int] = {}
        users = range(len(self.inputs)) if self.users is None else self.users
        return torch.tensor([numbers.setdefault(one, len(numbers)) for one in users]).numpy()

    def with_unit(self, inputs: Tensor, targets: Tensor) -> MadeUp:
        """These rows, and after them those of one more unit."""
        users = None if self.users is None else self.users + (max(self.users) + 1,) * len(inputs)
        return MadeUp(torch.cat([self.inputs, inputs]), torch.cat([self.targets, targets]), users)

    def exchanged(self, inputs: Tensor, targets: Tensor) -> MadeUp:
        """These rows with others in the place of the first unit's, which has as many."""
        chosen = torch.from_numpy(self.owners() == 0).nonzero().flatten()
        made = self.inputs.clone(), self.targets.clone()
        for part, new in zip(made, (inputs, targets), strict=True):
            part[chosen] = new[: len(chosen)]
        return MadeUp(*made, self.users)

    def unit(self, number: int) -> Rows:
        """The rows of a unit."""
        chosen = torch.from_numpy(self.owners() == number)
        return self.inputs[chosen], self.targets[chosen]


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes rows like `example`, a row with a batch axis. `classes`: above the labels, where targets are whole numbers;
    `tokens`: above whole numbers in inputs; `largest`: rows of the largest of several users; `model`: makes its inputs
    where it has a method for it."""

    example: Rows
    classes: int
    tokens: int
    largest: int = 1
    model: nn.Module | None = None

    @classmethod
    def like(cls, example: Rows, model: nn.Module, rows_per_unit: int, *, users: bool) -> Maker:
        """For rows that a model takes: labels below its outputs; tokens as it makes them (`rows_of_model`) or below its
        smallest embedding."""
        example = torch.zeros_like(example[0]), torch.zeros_like(example[1])
        modules = [one for one in model.modules() if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
        device = next(model.parameters()).device
        classes = 2
        if not example[1].is_floating_point():
            with torch.no_grad(), torch.random.fork_rng():
                output = model(example[0].to(device))
            classes = int(output.shape[1]) if output.dim() > 1 and output.shape[1] > 1 else 2
        tokens = min((one.num_embeddings for one in modules), default=2)
        return cls(example, classes, tokens, rows_per_unit + 1 if users else 1, model)

    def rows(self, count: int, seed: int) -> Rows:
        """So many rows, by the seed. Numbers are normal, whole numbers uniform."""
        generator = torch.Generator().manual_seed(seed)
        x, y = self.example
        own = None if self.model is None else rows_of_model(self.model, x, count, generator)
        if own is not None:
            return own, self._like(y, count, self.classes, generator)
        made = self._like(x, count, self.tokens, generator)
        if x.dim() == 2 and x.shape[1] >= _TEXT and x.dtype == torch.int64:
            made = made.masked_fill(self._padding(count, x.shape[1], generator), 0)
        return made, self._like(y, count, self.classes, generator)

    def units(self, count: int, seed: int = 0) -> MadeUp:
        """So many units; users have 1, 2, ... `largest` rows in turn, mixed with those of others."""
        if self.largest == 1:
            return MadeUp(*self.rows(count, seed))
        sizes = [1 + number % min(self.largest, 4) for number in range(count)]
        owners = [user for turn in range(max(sizes)) for user in range(count) if turn < sizes[user]]
        return MadeUp(*self.rows(len(owners), seed), tuple(owners))

    def _padding(self, count: int, length: int, generator: torch.Generator) -> Tensor:
        """A mask of the padding of texts, of which one in eight is as long as it may be and others end before."""
        shorter = torch.randint(1, length - 1, (count,), generator=generator)
        shorter[torch.randint(0, 8, (count,), generator=generator) == 0] = 0
        return torch.arange(length) >= length - shorter[:, None]

    def _like(self, one: Tensor, count: int, below: int, generator: torch.Generator) -> Tensor:
        shape = (count, *one.shape[1:])
        if one.is_floating_point():
            return torch.randn(shape, generator=generator).to(one.dtype)
        if one.is_complex():
            return torch.view_as_complex(torch.randn((*shape, 2), generator=generator)).to(one.dtype)
        if one.dtype == torch.uint8:
            return torch.randint(0, 256, shape, generator=generator, dtype=one.dtype)
        return torch.randint(0, below, shape, generator=generator).to(one.dtype)


def joined(parts: Sequence[Rows]) -> Rows:
    """Several rows as one."""
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
