"""Augmentation: several random views of an example at every step, whose mean gradient is clipped as one.

More views do not cost privacy: an example contributes one clipped gradient, the mean over its views (De et al. 2022,
"Unlocking high-accuracy differentially private image classification through scale": "augmentation multiplicity").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet.core import checks

Transform = Callable[[Tensor], Tensor]
"""Transforms each input (axis 0) by itself, with torch's default generator; returns as many inputs."""


@dataclass(frozen=True, slots=True)
class Augmented:
    """Private data whose inputs are transformed anew at every step, each in `views` different ways.

    - `data`: what `Training` takes: a pair of tensors or a map-style data set.
    - `transform(inputs)`: returns as many inputs. Row i must depend on row i only; draw random numbers for every row
      from torch's default generator, which has a secret seed at each step. `flip` and `shift` are ready-made.
    - `views`: rows that the model gets for each example; their mean gradient is clipped as one. A chunk holds
    correspondingly fewer examples, so memory does not grow; time does.
    """

    data: object
    transform: Transform
    views: int = 1

    def __post_init__(self) -> None:
        checks.count("views", self.views)


def flip() -> Transform:
    """Mirror every image, (n, ..., height, width), left to right with probability 1/2."""

    def transform(images: Tensor) -> Tensor:
        chosen = torch.rand(len(images), device=images.device) < 0.5
        return torch.where(chosen.view(-1, *[1] * (images.dim() - 1)), images.flip(-1), images)

    return transform


def shift(pixels: int) -> Transform:
    """Move every image, (n, ..., height, width), by up to `pixels` in both directions; zeros come in at the edges."""
    checks.count("pixels", pixels)

    def transform(images: Tensor) -> Tensor:
        count, height, width = len(images), images.shape[-2], images.shape[-1]
        padded = torch.nn.functional.pad(images.reshape(count, -1, height, width), [pixels] * 4)
        down, right = torch.randint(0, 2 * pixels + 1, (2, count, 1), device=images.device)
        rows = (down + torch.arange(height, device=images.device)).view(count, 1, height, 1)
        columns = (right + torch.arange(width, device=images.device)).view(count, 1, 1, width)
        examples = torch.arange(count, device=images.device).view(-1, 1, 1, 1)
        channels = torch.arange(padded.shape[1], device=images.device).view(1, -1, 1, 1)
        return padded[examples, channels, rows, columns].view_as(images)

    return transform


AUGMENTATIONS: dict[str, Callable[..., Transform]] = {"flip": flip, "shift": shift}
"""Transforms by their names in recipes."""
