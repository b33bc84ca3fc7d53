"""Pipelines of users: what a function that makes a training does to raw rows is audited too."""

import itertools

import torch
from audited_builds import build

from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.replay import Replay


def without_large_rows(rows: MadeUp) -> tuple[torch.Tensor, torch.Tensor]:
    kept = rows.inputs.abs().amax(1) < 2.2
    return rows.inputs[kept], rows.targets[kept]


def test_a_pipeline_that_drops_single_rows_is_sound_and_its_draws_are_not_looked_at() -> None:
    (draws,) = draw_outcomes(build(pipeline=without_large_rows), steps=8)
    assert not draws.wrong
    assert draws.notice is not None
    assert "so draws are not looked at" in draws.notice


def test_rows_that_are_dropped_move_nothing_beyond_their_own() -> None:
    replay = Replay(build(pipeline=without_large_rows), steps=4)
    assert [one.said for one in itertools.islice(replay.each(), 3) if one.wrong] == []


def test_a_row_that_is_refused_is_no_finding() -> None:
    """Nothing is charged, and nothing is released, for data that cannot be trained on."""

    def refusing(rows: MadeUp) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.where(rows.inputs.abs() > 1e20, torch.nan, rows.inputs), rows.targets

    found = [one for one in Replay(build(pipeline=refusing), steps=4).each() if one.name.startswith("replay/overflow")]
    assert "refused before anything is charged" in found[0].said
    assert not found[0].wrong
