"""The float slack is measured on the user's own model before a run, and its certificate states what was taken."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import tiny_training
from searches import tuning
from torch import Tensor, nn

from discreet import publish, verify
from discreet.clipping import Chunk
from discreet.clipping.engines import engine
from discreet.core import assumptions
from discreet.core.errors import InputError, UnsupportedModel
from discreet.training.preflight import engine_comparison


def disturbed(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Let the sum of `vmap` depend on how the batch is cut: one number moves by `size` per example, unless alone."""
    real = engine.ENGINES["vmap"]

    def clipped_sum(model: nn.Module, criterion: Any, chunk: Chunk, clip: Any) -> dict[str, Tensor]:
        sums = real.clipped_sum(model, criterion, chunk, clip)
        first = next(iter(sums.values()))
        first.view(-1)[0] += size * clip.norm * (len(chunk.inputs) - 1)
        return sums

    broken = engine.Engine("vmap", clipped_sum, real.float_bits, "chunk")
    monkeypatch.setitem(engine.ENGINES, "vmap", broken)


@pytest.mark.parametrize(("size", "bits"), [(0.0, 20), (2.0**-30, 20), (2.0**-20, 16), (2.0**-17, 13)])
def test_the_slack_is_eight_times_what_is_measured_rounded_up_to_a_power_of_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: float, bits: int
) -> None:
    disturbed(monkeypatch, size)
    training = tiny_training(tmp_path, engine="vmap")
    assert training.engine.float_bits in (bits, bits + 1)
    measured = size * 11 / 12
    assert training.engine.error is not None
    assert training.engine.error >= min(2.0**-20, 8 * measured)
    assert f"2^-{training.engine.float_bits} " in training.engine.assumption


def test_too_much_rounding_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine_comparison._TOLERANCE, torch.float32, math.inf)
    disturbed(monkeypatch, 0.01)
    with pytest.raises(UnsupportedModel, match="too much noise to cover; use double precision"):
        tiny_training(tmp_path, engine="vmap")


def test_the_noise_covers_the_slack_and_the_certificate_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, 2.0**-20)
    training = tiny_training(tmp_path, engine="vmap", stream=None)
    trained = training.run()
    bits = training.engine.float_bits
    assert bits is not None
    assert bits < 20
    publish(trained, tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"]["float_bits"] == bits
    assert assumptions.engine("vmap", bits) in facts["assumptions"]
    assert verify(tmp_path / "out").accepted
    facts["mechanism"]["float_bits"] = 20
    (tmp_path / "out" / "certificate.json").write_text(json.dumps(facts))
    assert not verify(tmp_path / "out").accepted


@contextmanager
def rounding_otherwise(how: str) -> Iterator[None]:
    if how == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("how", ["autocast", "products"])
def test_a_run_that_rounds_otherwise_than_was_measured_is_refused_before_a_charge(tmp_path: Path, how: str) -> None:
    """A slack that was measured in single precision is not that of a run under autocast."""
    training = tiny_training(tmp_path, engine="vmap")
    with rounding_otherwise(how), training.session() as session:
        with pytest.raises(InputError, match="rounding was measured under autocast None, products highest"):
            session.ready()
        assert session.position == session.left == 0


def test_so_is_autocast_inside_a_step(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, engine="vmap")
    with training.session() as session:
        with (
            pytest.raises(InputError, match=r"give EngineOptions\(autocast=torch.bfloat16\)"),
            session.step() as step,
            rounding_otherwise("autocast"),
        ):
            step.add_all(training.criterion)
        with session.step() as step:
            step.add_all(training.criterion)


def test_so_is_a_search(tmp_path: Path) -> None:
    search = tuning(tmp_path)
    with rounding_otherwise("autocast"), pytest.raises(InputError, match="rounding was measured"):
        search.run()
    assert not list(tmp_path.rglob("*.sqlite"))
