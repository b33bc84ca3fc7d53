"""Modules that overwrite what they were given cannot be run again on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.core.errors import UnsupportedModel

CLIP = Clip(1.0, 2.0**-40)


class InPlace(nn.Module):
    """Overwrites what it is given before it multiplies it; nothing happens to numbers that are not negative."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 8))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.leaky_relu(x, 0.2, inplace=True), self.weight)


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = InPlace()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x * 1.0)


def differs(engine: str) -> bool:
    """Whether an engine's sum over negative rows is another one than that of the reference."""
    torch.manual_seed(0)
    model, inputs, targets = Whole(), -torch.rand(5, 8), torch.rand(5, 3)
    found, wanted = (
        ENGINES[name].clipped_sum(model, nn.MSELoss(), Chunk(inputs, targets), CLIP)["inner.weight"].double()
        for name in (engine, "reference")
    )
    return float((found - wanted).abs().max()) > 1e-5


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_module_that_overwrites_its_own_input_is_refused_by_name(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run again on what it made of it."""
    with torch.random.fork_rng(devices=[]):
        with pytest.raises(UnsupportedModel, match=r"'inner' \(InPlace\) overwrites its own input"):
            differs(engine)
        assert not differs("vmap")
        monkeypatch.setattr("discreet.clipping.capture.capture.versions_of", lambda args, kwargs: [])
        assert differs(engine)
