"""The preprocessing steps before a model, by their names in model.json.

A step is built from plain data and maps rows (a tensor with a batch axis) to rows, each by itself. A new kind of step
is a new entry of `STEPS`; a published entry never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import ValidationError
from torch import Tensor

from discreet.certificate.model_spec import Named
from discreet.core.errors import InputError, first_line
from discreet.features.precompute import Precomputed
from discreet.recipes.sections.components import project
from discreet.recipes.sections.fixed_features import Features, build_front_end, named

Step = Callable[[Tensor], Tensor]


def features(parts: list[Any], shape: list[int]) -> Step:
    """Fixed front ends side by side, as in recipes (`features`), on rows of `shape`."""
    listed = [Features.model_validate(part) for part in cast("list[object]", named(parts))]
    return Precomputed(build_front_end(listed, shape))


def components(released: Tensor) -> Step:
    """Projects rows on the principal components that the run bought, shape (count, columns)."""
    return lambda rows: project(rows, released)


STEPS: Mapping[str, Callable[..., Step]] = {"features": features, "components": components}

_ON_RELEASED = ("components",)
"""Steps whose first argument is the tensor of their name in released.safetensors."""


def build_step(step: Named, released: Mapping[str, Tensor]) -> Step:
    """The step by its name. `InputError` for a step that this version does not know, or impossible arguments."""
    if step.name not in STEPS:
        raise InputError(f"model.json: unknown step {step.name!r:.80} of preprocessing; known: {', '.join(STEPS)}")
    if step.name in _ON_RELEASED and step.name not in released:
        raise InputError(f"model.json: the step {step.name} needs a tensor that the run has not released")
    given = [released[step.name]] if step.name in _ON_RELEASED else []
    try:
        return STEPS[step.name](*given, **step.arguments)
    except (TypeError, ValueError, RuntimeError, ValidationError) as error:
        reason = first_line(error)
        raise InputError(f"model.json: the step {step.name} cannot have these arguments: {reason}") from None
