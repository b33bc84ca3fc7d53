"""Models with a module that scales rows by something it is not given, in one way or another."""

from __future__ import annotations

from typing import Any

import torch
from mixing_modules import HIDDEN, Two
from torch import Tensor, nn


class Film(nn.Module):
    """Scales rows by an attribute, of which it takes as many as there are rows; `by` is a plain number. The square of a
    parameter, as its product with itself, has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(HIDDEN))
        self.context: Any = None
        self.by = 1.0

    def forward(self, h: Tensor) -> Tensor:
        scaled: Tensor = h * (self.scale * self.scale) * self.by
        return scaled * self.context[: len(h)]


class Filmed(Two):
    """Two layers with a film between; what it scales by stays as it is. Training draws random numbers for each row, so
    that clipped sums are compared in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.film = Film()
        self.one = self.film.context = torch.ones(1, HIDDEN)

    def between(self, h: Tensor) -> Tensor:
        self.film.context = self.one
        return self.filmed(h * (1 + 0.1 * torch.rand_like(h))) if self.training else self.film(h)

    def filmed(self, h: Tensor) -> Tensor:
        """In training."""
        output: Tensor = self.film(h)
        return output


class Same(Filmed):
    """Puts the rows into the film that it is then called with."""

    def filmed(self, h: Tensor) -> Tensor:
        self.film.context = h.detach()
        output: Tensor = self.film(h)
        return output


class Before(Filmed):
    """Puts rows into the film before it is called."""

    def filmed(self, h: Tensor) -> Tensor:
        self.film.context = 0.5 * h.detach()
        output: Tensor = self.film(h)
        return output


class After(Filmed):
    """Puts rows into the film after it was called."""

    def filmed(self, h: Tensor) -> Tensor:
        output: Tensor = self.film(h)
        self.film.context = h.detach()
        return output


class Number(Filmed):
    """Puts the number of rows there."""

    def filmed(self, h: Tensor) -> Tensor:
        self.film.by = 1.0
        output: Tensor = self.film(h)
        self.film.by = 0.5 * len(h)
        return output


class Single(Filmed):
    """Has a film that scales a row which comes alone by what was put there, and others by nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.film = Picky()

    def filmed(self, h: Tensor) -> Tensor:
        self.film.context = h
        output: Tensor = self.film(h)
        return output


class Picky(Film):
    """Does so."""

    def forward(self, h: Tensor) -> Tensor:
        output: Tensor = h * (self.scale * self.scale) * (self.context[:1].detach() if len(h) == 1 else 1.0)
        return output


class Late(Filmed):
    """Puts rows there after the call, from the 1000th on, by no operator of torch. It draws nothing."""

    def between(self, h: Tensor) -> Tensor:
        self.film.context = self.one
        output: Tensor = self.film(h)
        if self.rows > 1000:
            self.film.context = h
        return output
