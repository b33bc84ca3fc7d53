"""Models whose class holds parameters that are broadcast over the examples, or used otherwise. Rows are 5 x 6."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROW, WIDTH, CLASSES = (5, 6), 4, 3

PICKED = torch.tensor([6, 2, 0, 6, 1])
"""Numbers of places, one of them twice."""

Meets = Callable[[nn.Module, Tensor], Tensor]
"""What the class does with its parameters and the hidden layer, shape (batch, 5, `WIDTH`)."""


def rows(count: int) -> tuple[Tensor, Tensor]:
    """Random rows, the same for each count, and their classes."""
    torch.manual_seed(count)
    return torch.randn(count, *ROW), torch.arange(count) % CLASSES


class Held(nn.Module):
    """Two layers; between them `meets` uses parameters of its own: `token` (1, 1, 4), `places` (1, 7, 4), `scale` (4),
    `narrow` (4, 1) and `one` (1)."""

    def __init__(self, meets: Meets, *, dropped: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.dropped = nn.Linear(ROW[1], WIDTH), nn.Linear(WIDTH, CLASSES), nn.Dropout(dropped)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 7, WIDTH))
        self.scale, self.narrow = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH, 1))
        self.one = nn.Parameter(torch.randn(1))
        self.meets = meets

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(self.dropped(self.meets(self, torch.tanh(self.first(x)))).mean(1))
        return output


def _written(places: Tensor) -> Tensor:
    """Some of the numbers in the place of others."""
    copied = places.clone()
    copied[:, 1] = places[:, 2]
    return copied


BROADCAST: dict[str, tuple[set[str], Meets]] = {
    "a class token": ({"token"}, lambda m, h: torch.cat([m.token.expand(len(h), -1, -1), h], 1)),
    "a class token that no row is named for": ({"token"}, lambda m, h: torch.cat([m.token.expand_as(h[:, :1]), h], 1)),
    "places": ({"places"}, lambda m, h: h + m.places[:, :5]),
    "places in parts": ({"places"}, lambda m, h: h * m.places[:, 5:6] + m.places[:, :5] - m.places[:, 6]),
    "places taken from": ({"places"}, lambda m, h: m.places[0, 1:6] - h),
    "a scale": ({"scale"}, lambda m, h: h * m.scale),
    "a scale on the left": ({"scale"}, lambda m, h: m.scale * h),
    "a scale in place": ({"scale"}, lambda m, h: h.clone().mul_(m.scale)),
    "a scale twice": ({"scale"}, lambda m, h: (h * m.scale + h.flip(1) * m.scale) * m.scale),
    "a scale of channels": ({"narrow"}, lambda m, h: (h.transpose(1, 2) * m.narrow).transpose(1, 2)),
    "a scale turned round": ({"narrow"}, lambda m, h: h * m.narrow.t()),
    "one number": ({"one"}, lambda m, h: h * m.one + m.one),
    "in double precision": ({"scale"}, lambda m, h: (h * m.scale.double() + m.scale.to(torch.float64)).float()),
    "rounded": ({"scale"}, lambda m, h: (h.bfloat16() * m.scale.bfloat16()).float()),
    "all": (
        {"token", "places", "scale", "one"},
        lambda m, h: (torch.cat([m.token.expand(len(h), -1, -1), h], 1) * m.scale + m.places[:, :6]) - m.one,
    ),
    "an equal row of a batch": ({"token"}, lambda m, h: h + m.token.expand(len(h), 5, -1).cos()),
    "noise": ({"scale"}, lambda m, h: h + m.scale * torch.ones(len(h), 1, 1)),
    "one and a scale": ({"scale"}, lambda m, h: h * (1.0 + m.scale)),
    "places, shifted": ({"places"}, lambda m, h: h + (m.places - torch.ones(1, 7, WIDTH))[:, :5]),
    "a sum with a product": ({"places", "scale"}, lambda m, h: torch.addcmul(m.places[:, :5], m.scale, h)),
    "a sum with a product turned round": ({"scale"}, lambda m, h: torch.addcmul(h, h.sin(), m.scale)),
    "a layer norm": ({"scale", "narrow"}, lambda m, h: F.layer_norm(h, (WIDTH,), m.scale, m.narrow.t()[0])),
    "a layer norm without a shift": ({"scale"}, lambda m, h: F.layer_norm(h, (WIDTH,), m.scale)),
    "a layer norm of several axes": ({"places"}, lambda m, h: F.layer_norm(h, (5, WIDTH), None, m.places[0, 1:6])),
    "a choice": ({"scale", "token"}, lambda m, h: torch.where(h > 0, h * m.scale, m.token)),
    "a choice, for all alike": ({"scale"}, lambda m, h: h + torch.where(PICKED[:4] > 1, m.scale, 1.0)),
    "a look at it": ({"scale"}, lambda m, h: h * m.scale + m.scale.detach().softmax(0)),
    "a function of it": ({"scale"}, lambda m, h: h * m.scale.softmax(0)),
    "a function of it, shifted": ({"one"}, lambda m, h: h * (1 + torch.tanh(m.one)).clamp(max=1.5)),
    "a part of a function of it": ({"places"}, lambda m, h: h + (m.places * 2)[:, :5]),
    "its length": ({"places", "scale"}, lambda m, h: h * m.scale * m.places.norm()),
    "once more": ({"scale"}, lambda m, h: h * m.scale + torch.exp(m.scale)),
    "rows of a table": ({"places"}, lambda m, h: h - m.places[0, PICKED]),
    "rows of a table by index_select": ({"places"}, lambda m, h: h - m.places.index_select(1, PICKED)),
    "rows of an embedding": ({"places"}, lambda m, h: h - F.embedding(PICKED, m.places[0], padding_idx=2)),
    "numbers of other places": (
        {"places"},
        lambda m, h: h + F.interpolate(m.places.transpose(1, 2), size=5, mode="linear").transpose(1, 2),
    ),
    "another name for it": ({"scale"}, lambda m, h: h * m.scale + m.scale.view(WIDTH)),
}
"""Programs that broadcast the named parameters alone."""

BY_CHANCE: dict[str, tuple[set[str], Meets]] = {
    "as many constant rows as a small batch has": ({"token"}, lambda m, h: h + m.token[0].expand(5, -1)),
    "one of as many constant rows": ({"token"}, lambda m, h: h + m.token[0].expand(5, -1).cos()[:1]),
    "one of seven constant rows": ({"token"}, lambda m, h: h + m.token[0].expand(7, -1).cos()[:1]),
}
"""The same, but what is made of a parameter is as long as a batch of five or seven rows."""

OTHERWISE: dict[str, tuple[set[str], Meets]] = {
    "a product of matrices": ({"places"}, lambda m, h: h @ m.places[0, :4]),
    "another multiple": ({"scale"}, lambda m, h: torch.add(h, m.scale, alpha=2)),
    "a sum with twice a product": ({"scale"}, lambda m, h: torch.addcmul(h, m.scale, h, value=2)),
    "rows added in place": ({"places"}, lambda m, h: h + _written(m.places)[:, :5]),
    "one of two parts": ({"places"}, lambda m, h: h + m.places.split([5, 2], 1)[0]),
    "by itself": ({"scale"}, lambda m, h: h + m.scale * m.scale),
    "shifted by another": ({"scale", "one"}, lambda m, h: h + (m.scale + m.one)),
    "complex numbers": ({"scale"}, lambda m, h: (torch.complex(h, h.cos()) * m.scale).abs()),
    "added to complex numbers": ({"scale"}, lambda m, h: (torch.complex(h, h.cos()) + m.scale).abs()),
    "a quotient": ({"narrow"}, lambda m, h: h / (3 + m.narrow.t())),
}
"""Programs that use the named parameters in a way for which the module has to run again."""
