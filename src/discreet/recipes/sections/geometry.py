"""The section of methods that shape the noise: `geometry: {name: adadp, kind: box, beta: 1.5}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import model_validator
from torch import nn

from discreet.methods import ADADP, DPOPT, AdaClip, ReleasedScales
from discreet.methods.released_scales import Kind, Rule, clipping_by
from discreet.plan.clipping import AnyClipping
from discreet.recipes.named import Named, known

GEOMETRIES: dict[str, Callable[..., Rule]] = {"adaclip": AdaClip, "adadp": ADADP, "dpopt": DPOPT}


class RecipeGeometry(Named):
    """A method by name, with its settings as further keys. `kind`: how gradients are clipped."""

    kind: Kind = "ellipsoid"

    @model_validator(mode="after")
    def _known(self) -> RecipeGeometry:
        known(self.name, GEOMETRIES)
        self.rule()
        return self

    def rule(self) -> Rule:
        """The method with its settings."""
        rule: Rule = self.build(GEOMETRIES)
        return rule

    def clipping(self, clip_norm: float) -> dict[str, Any]:
        """The clipping of the plan."""
        return clipping_by(self.name, clip_norm, self.kind)

    def over(self, model: nn.Module, clip_norm: float) -> ReleasedScales:
        """The scales for a model."""
        return ReleasedScales(self.rule(), model, clip_norm, self.kind)


def refuse_without_scales(clipping: AnyClipping | None) -> None:
    """`ValueError` for clipping by scales that no method of a recipe gives."""
    if clipping is not None and clipping.geometry is not None:
        raise ValueError(
            f"{clipping.kind} clipping needs scales; name a method with geometry: {{name: adadp, kind: "
            f"{clipping.kind}}}, or give scales to Training(geometry=...) in Python"
        )
