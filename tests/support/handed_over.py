"""What the steps of a run hand over to its optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from discreet.core.release import Release
from discreet.training import step as step_module


@dataclass(frozen=True)
class HandedOver:
    """A release, and the public constant that it is divided by."""

    release: Release
    divisor: float

    @property
    def means(self) -> dict[str, np.ndarray]:
        """The noisy mean of each parameter."""
        return {name: np.array(tensor) / self.divisor for name, tensor in self.release.tensors.items()}


def steps_seen(monkeypatch: pytest.MonkeyPatch) -> list[HandedOver]:
    """The list to which every step from now on adds what it hands over."""
    found: list[HandedOver] = []
    real = step_module.apply

    def noted(release: Release, parameters: Any, optimizer: Any, divisor: float, *rest: Any) -> None:
        found.append(HandedOver(release, divisor))
        real(release, parameters, optimizer, divisor, *rest)

    monkeypatch.setattr(step_module, "apply", noted)
    return found
