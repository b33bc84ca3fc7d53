"""Models in which rounding alone decides, for rows that are long or constant."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES, CLASSES = 64, 3


class Asymmetry(nn.Module):
    """By how much a symmetric layer sees a row and its mirror image differ, which is rounding, beside a constant."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)  # how far a row moves others depends on these weights
            self.layer, self.head = nn.Linear(FEATURES, 32), nn.Linear(32, CLASSES)
        with torch.no_grad():
            half = torch.randn(32, FEATURES // 2, generator=torch.Generator().manual_seed(0)) / 8
            self.layer.weight.copy_(torch.cat([half, half.flip(1)], 1))

    def forward(self, x: Tensor) -> Tensor:
        difference = self.layer(x) - self.layer(x.flip(1)) + 0.1
        return self.head(torch.relu(difference))


class Stamps(Asymmetry):
    """The same of whole numbers, as time stamps are."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float())


class Waves(Asymmetry):
    """The same of complex numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.real + x.imag)


class Direction(nn.Module):
    """The direction of what a layer makes of a row without its mean. For constant rows that is rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.head = nn.Linear(FEATURES, FEATURES, bias=False), nn.Linear(FEATURES, CLASSES)
        with torch.no_grad():
            self.mixed.weight.sub_(self.mixed.weight.mean(1, keepdim=True))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.normalize(self.mixed(x), dim=1))


class Rows(nn.Module):
    """A transformer's layer over the eight parts of a row, as of a small image."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x.unflatten(1, (8, 8))).mean(1))
