"""Before a run the engine is held against the reference and the noise against what is paid for; one line says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from problems import tiny_plan, tiny_training
from scipy import stats

from discreet.clipping import ENGINES, Accumulator, Clip
from discreet.clipping.engines import bookkeeping
from discreet.core.errors import InputError, PrivacyViolation, UnsupportedModel
from discreet.mechanism import noise
from discreet.randomness import NOISE_SAMPLERS
from discreet.training.preflight import noise_check
from discreet.training.preflight.noise_check import FALSE_ALARM, VALUES

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noise", NOISE_SAMPLERS)
def test_the_line_says_what_was_checked_and_is_logged_when_the_session_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, engine: str, noise: str
) -> None:
    with caplog.at_level(logging.DEBUG, logger="discreet"):
        training = tiny_training(tmp_path, engine=engine, noise=noise)
        line = training.preflight.line
        assert line.startswith(f"engine {engine}: ")
        assert ("of the clip norm from reference, on " in line) == (engine != "reference")
        assert ("on 12 random examples" in line) == (engine != "reference")
        assert line.endswith(f"; noise {noise}: {VALUES} values have the scale paid for")
        assert "\n" not in line
        assert caplog.messages == []
        with training.session():
            assert caplog.messages == [line]
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def engine_off(name: str) -> Plant:
    """Clips to a hundredth more than it should."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        if name == "bookkeeping":
            real = bookkeeping.decide
            longer = lambda clip, *rest: real(replace(clip, norm=1.01 * clip.norm), *rest)  # noqa: E731
            patch.setattr(bookkeeping, "decide", longer)
            return
        clips = ENGINES[name].clipped_sum
        wrong = replace(
            ENGINES[name],
            clipped_sum=lambda m, c, chunk, clip: clips(m, c, chunk, Clip(1.01 * clip.norm, clip.grid)),
        )
        patch.setitem(ENGINES, name, wrong)

    return plant


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "reference"])
def test_an_engine_that_clips_to_a_hundredth_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine_off(name)(monkeypatch)
    with pytest.raises(UnsupportedModel, match="of the clip norm away from 'reference'"):
        tiny_training(tmp_path, engine=name)
    assert not (tmp_path / "run").exists()


def half_in_the_sampler(patch: pytest.MonkeyPatch) -> None:
    weaker = {
        name: replace(real, draw=lambda substream, n, scale, real=real: real.draw(substream, n, scale // 2))
        for name, real in NOISE_SAMPLERS.items()
    }
    patch.setattr(noise_check, "NOISE_SAMPLERS", weaker)


def half_the_multiplier(patch: pytest.MonkeyPatch) -> None:
    real = noise.noise_multiplier
    patch.setattr(noise, "noise_multiplier", lambda event: 0.5 * real(event))


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    real = Accumulator.total

    def total(self: Accumulator, *given: object) -> object:
        found = real(self, *given)  # type: ignore[arg-type]
        return replace(found, sensitivity=0.5 * found.sensitivity)

    patch.setattr(Accumulator, "total", total)


def twice_as_much(patch: pytest.MonkeyPatch) -> None:
    real = noise.noise_multiplier
    patch.setattr(noise, "noise_multiplier", lambda event: 2 * real(event))


@pytest.mark.parametrize("plant", [half_in_the_sampler, half_the_multiplier, half_the_sensitivity, twice_as_much])
@pytest.mark.parametrize("noise", NOISE_SAMPLERS)
def test_noise_of_another_scale_is_refused_and_nothing_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, noise: str
) -> None:
    plan = tiny_plan(clip_norm=0.3, noise_multiplier=[(1.5, 4), (0.7, 3)])
    tiny_training(tmp_path, plan=plan, noise=noise)
    plant(monkeypatch)
    with pytest.raises(PrivacyViolation, match="nothing was charged"):
        tiny_training(tmp_path, plan=plan, noise=noise)
    assert not (tmp_path / "run").exists()


def test_the_false_alarm_rate_is_what_is_stated() -> None:
    """scipy.stats, which shares no code with the limits, and the powers that the module states."""
    low, high = noise_check._limits()
    squares = stats.chi2(VALUES)
    assert squares.cdf(low) + squares.sf(high) == pytest.approx(FALSE_ALARM, rel=1e-6)
    assert squares.logsf(low / 0.5**2) < -690  # half the scale, 1e-300
    assert squares.sf(low / 0.8**2) + squares.cdf(high / 1.2**2) < 1e-20


def test_an_unknown_noise_names_the_known() -> None:
    with pytest.raises(InputError, match="unknown noise 'loud'; known: fast, exact"):
        noise_check.noise_named("loud")
