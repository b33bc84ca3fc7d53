"""What inputs go through before the model, by the names that model.json gives them.

A step is built from plain data and maps rows (a tensor with a batch axis) to rows, each by itself. A new kind of step
is one more entry of `STEPS`; a published entry never changes meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from pydantic import ValidationError
from torch import Tensor

from discreet.core.errors import InputError
from discreet.features import precompute
from discreet.publication.model_spec import Named
from discreet.recipes.fixed import Features, build_front_end, named

Step = Callable[[Tensor], Tensor]


def features(parts: list[Any], shape: list[int]) -> Step:
    """Fixed front ends side by side, as recipes have them (`features`), on rows of `shape`."""
    listed = [Features.model_validate(part) for part in cast("list[object]", named(parts))]
    front_end = build_front_end(listed, shape)
    return lambda rows: precompute(front_end, rows)


def projection(components: list[list[float]], center: list[float] | None = None) -> Step:
    """Flattened rows, less `center`, onto `components`, shape (kept, columns): principal components, say."""
    axes = torch.tensor(components, dtype=torch.float64)
    if axes.dim() != 2 or (center is not None and len(center) != axes.shape[1]):
        raise ValueError("components must be a matrix, and center as long as one of its rows")
    middle = torch.zeros(axes.shape[1], dtype=torch.float64)
    middle = middle if center is None else torch.tensor(center, dtype=torch.float64)
    return lambda rows: ((rows.flatten(1).double() - middle) @ axes.T).float()


STEPS: Mapping[str, Callable[..., Step]] = {"features": features, "projection": projection}


def build_step(step: Named) -> Step:
    """The step by its name; one that this version does not know, or arguments that it cannot have, are refused."""
    if step.name not in STEPS:
        raise InputError(f"model.json: unknown step {step.name!r:.80} of preprocessing; known: {', '.join(STEPS)}")
    try:
        return STEPS[step.name](**step.arguments)
    except (TypeError, ValueError, RuntimeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"model.json: the step {step.name} cannot have these arguments: {reason}") from None
