"""`assert_private` of a step that somebody wrote by hand: sound ones pass, wrong ones fail, each by the right check.

A sound step fails once in a thousand runs of a test with fresh noise, so seeds and draws are the same in every run.
"""

import random
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from dp_sgd_by_hand import CLIP, DIVISOR, NOISE, WRONG, make, rows

from discreet.core.errors import InputError
from discreet.testing import assert_private, canaries, neighbours, step_checks
from discreet.testing.step_checks import draw_outcomes

CLAIM = {"rows": rows(), "sensitivity": CLIP / DIVISOR, "noise": NOISE * CLIP / DIVISOR, "effort": 0.5}


@pytest.fixture(autouse=True)
def _same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_checks, "secrets", SimpleNamespace(randbits=random.Random(0).getrandbits))


def poisson(rate: float) -> Callable[[int], list[np.ndarray]]:
    generator = np.random.default_rng(0)
    return lambda size: [np.flatnonzero(generator.random(size) < rate) for _ in range(50)]


def shuffled() -> Callable[[int], list[np.ndarray]]:
    generator = np.random.default_rng(0)
    return lambda size: np.array_split(generator.permutation(size), 5)


def test_a_sound_step_passes_and_says_what_was_looked_at() -> None:
    found = assert_private(make(), **CLAIM, draws=poisson(0.2), rate=0.2)
    names = {one.name.partition("/")[0] for one in found.outcomes}
    assert names == {"replay", "noise", "game", "draws", "draws, more units"}
    assert not [one.notice for one in found.outcomes if one.notice]
    moved = {one.name: one.figures.get("moved", 0) for one in found.outcomes}
    assert moved["replay/loud, drawn"] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_is_found(wrong: str) -> None:
    """Replays have fixed seeds and find the same with any effort; noise is looked at with all of it."""
    made, check = WRONG[wrong]
    with pytest.raises(AssertionError, match=f"FAILED  {check}"):
        assert_private(made, **CLAIM | {"effort": 0.05 if check.startswith("replay/") else 0.5})


def test_shuffled_epochs_under_a_poisson_claim_are_found() -> None:
    with pytest.raises(AssertionError, match="FAILED  draws"):
        assert_private(make(), **CLAIM | {"effort": 0.25}, draws=shuffled(), rate=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda drawn, size: np.repeat(drawn, 3), "3 times"),
        (lambda drawn, size: np.append(drawn, drawn[:1]), "2 times"),
        (lambda drawn, size: drawn - size, "rows have the numbers 0 to 59"),
        (lambda drawn, size: drawn + 1, "rows have the numbers 0 to 59"),
    ],
)
def test_draws_are_of_rows_once_each(change: Callable[[np.ndarray, int], np.ndarray], said: str) -> None:
    draw = poisson(0.2)
    found = draw_outcomes(lambda size: [change(one, size) for one in draw(size)], 0.2)
    assert all(one.wrong for one in found)
    assert said in found[0].said


def test_a_step_whose_noise_has_no_seed_is_not_replayed_and_says_so() -> None:
    secret = torch.Generator()
    made = make(noise=lambda total: NOISE * torch.randn(total.shape, generator=secret))
    with pytest.warns(UserWarning, match="no replay tells"):
        found = assert_private(made, **CLAIM | {"effort": 0.25})
    assert any(one.notice and "no replay" in one.notice for one in found.outcomes)


def test_rows_that_move_nothing_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="no row moves"):
        assert_private(make(clip=lambda norm: 0.3 * (CLIP / norm.clamp(min=CLIP)).nan_to_num(0.0)), **CLAIM)


def test_generators_are_put_back() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert_private(make(), **CLAIM | {"effort": 0.1})
    assert torch.equal(before, torch.get_rng_state())


def test_neighbours_differ_in_their_last_row() -> None:
    x, y = rows(5)
    for pair in neighbours(x, y):
        assert torch.equal(pair.having[0][:-1], pair.without[0])
        assert len(pair.canary[1]) == 1
    assert {one.name for one in canaries(x, y)} >= {"ordinary", "twin", "loud", "overflowing", "zero", "mislabelled"}


def test_what_is_missing_is_said() -> None:
    with pytest.raises(InputError, match="sensitivity and noise"):
        assert_private(make(), rows=rows())
    with pytest.raises(InputError, match="rows"):
        assert_private(make())
