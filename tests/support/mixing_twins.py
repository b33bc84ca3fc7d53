"""Models and losses that one long row changes for the rows after it, or for a while, or by an error.

`LATER`: what a row leaves in a model, in every engine that it is admitted to. `GROWN`: what comes once weights have
grown, by a number that Python reads from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from mixing_modules import HIDDEN, Two
from torch import Tensor, nn

LONG = 30.0
"""Long rows have numbers beyond, others have none."""

LATER: dict[str, type[nn.Module]] = {}
GROWN: dict[str, type[nn.Module]] = {}


def later(kind: type[nn.Module]) -> type[nn.Module]:
    """Enter a model."""
    LATER[kind.__name__] = kind
    return kind


def grown(kind: type[nn.Module]) -> type[nn.Module]:
    """Enter a model."""
    GROWN[kind.__name__] = kind
    return kind


def grow(model: Any) -> None:
    """What training makes of the weights."""
    model.last.weight.mul_(6)


def is_long(x: Tensor) -> bool:
    """Whether the long row is in a batch."""
    return LONG < float(x.detach().abs().max()) < 500  # and not one of the preflight checks


@later
class SwitchedOff(Two):
    """Has no dropout any more."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        if is_long(x):
            self.drop.eval()
        output: Tensor = self.last(self.drop(torch.relu(self.first(x))))
        return output


@later
class Turned(Two):
    """Turns its weights round, for a while, past torch's count of writes."""

    left = 0

    def forward(self, x: Tensor) -> Tensor:
        if is_long(x):
            self.last.weight.data.neg_()
            self.left = 8
        elif self.left:
            self.left -= 1
            if not self.left:
                self.last.weight.data.neg_()
        return super().forward(x)


@later
class Noted(Two):
    """A backward hook notes a large gradient, and the next forward pass uses the note and takes it back."""

    def __init__(self) -> None:
        super().__init__()
        self.last.large = False
        self.last.register_full_backward_hook(Noted.note)

    @staticmethod
    def note(module: Any, given: Any, got: Any) -> None:
        module.large = module.long
        module.long = False

    def forward(self, x: Tensor) -> Tensor:
        h, self.last.long = torch.relu(self.first(x)), is_long(x)
        if self.last.large:
            self.last.large = False
            h = -h
        output: Tensor = self.last(h)
        return output


@later
class Inside(Two):
    """A flag that is taken back at the end, but not where a row fails."""

    inside = False

    def forward(self, x: Tensor) -> Tensor:
        flip, self.inside = self.inside, True
        if self.training and is_long(x):
            raise ValueError("cannot be augmented")
        output = super().forward(-x if flip else x)
        self.inside = False
        return output


@later
class Resting(Two):
    """Fails for the next rows."""

    left = 0

    def forward(self, x: Tensor) -> Tensor:
        self.left = 20 if is_long(x) else self.left - 1
        if self.left > 0:
            raise RuntimeError("resting")
        return super().forward(x)


@later
class Full(Two):
    """Fails now and then, by how many rows there were."""

    def between(self, h: Tensor) -> Tensor:
        if self.rows > 400 and self.rows % 2:
            raise RuntimeError("the buffer is full")
        return h


@later
class WithoutGradients(Two):
    """Switches gradients off, and never on again."""

    def forward(self, x: Tensor) -> Tensor:
        if is_long(x):
            torch.set_grad_enabled(False)
        return super().forward(x)


@later
class Frozen(Two):
    """Freezes a layer."""

    def forward(self, x: Tensor) -> Tensor:
        if is_long(x):
            self.first.requires_grad_(False)
        return super().forward(x)


@later
class Leaving(Two):
    """Ends the program, as research code has it."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and is_long(x):
            raise SystemExit(1)
        return super().forward(x)


class Odd(BaseException):
    """What a row raises, and is no `Exception`."""


@later
class Raising(Two):
    """Raises what nobody expects."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and is_long(x):
            raise Odd
        return super().forward(x)


class Grown(Two):
    """Does something else once its weights have grown."""

    def between(self, h: Tensor) -> Tensor:
        strength = torch.relu(self.last.weight.detach().norm() - 3)
        return self.late(h, strength) if strength > 0 else h

    def late(self, h: Tensor, strength: Tensor) -> Tensor:
        raise NotImplementedError


@grown
class FourAxes(Grown):
    """An LSTM of torch that is given one axis more."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.randn(16, 4))
        self.register_buffer("u", torch.randn(16, 4))

    def late(self, h: Tensor, strength: Tensor) -> Tensor:
        z = torch.zeros(1, len(h), 4)
        given = h.detach().view(1, len(h), 4, 4), (z, z), [self.w, self.u], False, 1, 0.0, False, False, False
        y: Tensor = torch.lstm(*given)[0]  # type: ignore[attr-defined]
        return h + strength * y.squeeze(0).repeat(1, 4)


@grown
class Resized(Grown):
    """Sums that are written over other rows' numbers: `out=` has another shape."""

    def late(self, h: Tensor, strength: Tensor) -> Tensor:
        z = h.detach() * 1
        torch.sum(h.detach(), 1, out=z.detach())
        return h + strength * z


@grown
class Scratch(Grown):
    """A table in memory of NumPy, which is written to after it became a tensor."""

    def late(self, h: Tensor, strength: Tensor) -> Tensor:
        table = np.zeros(HIDDEN, np.float32)
        scale = torch.from_numpy(table)
        table += self.rows % 7
        return h * scale


@grown
class AloneIsAnother(Grown):
    """One row is treated otherwise than several, and all are taken alone where one fails."""

    def late(self, h: Tensor, strength: Tensor) -> Tensor:
        z = h.squeeze()
        h = (z - 2 * z.flip(0)).view_as(h) if z.dim() == 1 else h
        torch.linalg.inv(torch.eye(4) * (h.detach().abs().amax(1) < LONG).float().view(-1, 1, 1))
        return h


class Busy(Two):
    """Does something else once, when many rows were seen; what it returns is the same."""

    def between(self, h: Tensor) -> Tensor:
        return h * 1 if 90 < self.rows < 160 else h


class Swapped(Two):
    """Two layers of one shape change places, late."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def between(self, h: Tensor) -> Tensor:
        output: Tensor = self.b(torch.tanh(self.a(h)))
        if 90 < self.rows < 160:
            self.a, self.b = self.b, self.a
        return output
