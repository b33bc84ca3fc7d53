"""Searches over disjoint parts of the data: a row is in one part, the choice has the law that is paid for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import blobs, linear, tiny_plan
from scipy import stats
from searches import PARTS_GRID, ROWS, build, parts_tuning
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from discreet import Augmented, InputError, PrivacyViolation, Setup
from discreet.core.adjacency import Unit
from discreet.data import Portion, PrivateData, as_private, in_parts
from discreet.plan import PartsSearch
from discreet.queries.choices import FULL_SCORE
from discreet.randomness import Purpose, TestStream
from discreet.training.tuning.private_choice import PrivateChoice

SEARCH = PartsSearch.make(PARTS_GRID).over(tiny_plan()).search
assert isinstance(SEARCH, PartsSearch)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def cut(names: list[int | str]) -> list[list[int | str]]:
    """The rows of each part by name, each row holding its own name's place among all possible ones."""
    assert isinstance(SEARCH, PartsSearch)
    numbers = torch.tensor([hash(name) % 10**9 for name in names])
    found = in_parts(as_private((numbers, numbers)), names, SEARCH.part_of, SEARCH.parts)
    for part in found:
        assert part.data.fetch(np.arange(part.data.rows))[0].tolist() == [hash(name) % 10**9 for name in part.names]
    return [part.names for part in found]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 159), st.booleans(), st.randoms(use_true_random=False))
def test_a_row_more_or_less_changes_one_part_only(start: int, which: int, text: bool, shuffler: Any) -> None:
    """Whatever the identifiers are, and whatever the order of the rows."""
    names: list[int | str] = [f"person {n}" if text else n for n in range(start, start + 160)]
    shuffler.shuffle(names)
    whole, without = cut(names), cut([name for name in names if name != names[which]])
    changed = [part for part in range(5) if whole[part] != without[part]]
    assert len(changed) == 1
    assert [name for name in whole[changed[0]] if name != names[which]] == without[changed[0]]
    assert sorted(str(name) for part in whole for name in part) == sorted(map(str, names))


def test_parts_are_about_equally_large_and_another_salt_cuts_otherwise() -> None:
    """Chi-squared over 5 parts of 20,000 names: one false alarm in 10^4, of one fixed draw."""
    assert isinstance(SEARCH, PartsSearch)
    counts = Counter(map(SEARCH.part_of, range(20_000)))
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert stats.chisquare([counts[part] for part in range(5)]).pvalue > 1e-4
    other = SEARCH.model_copy(update={"salt": "another"})
    assert sum(SEARCH.part_of(name) == other.part_of(name) for name in range(2000)) < 600


def finals(folder: Path, rows: list[int]) -> list[Tensor]:
    """What each candidate's weights come to on these rows, with one and the same randomness."""
    models: list[nn.Module] = []

    def recording(chosen: Any) -> Setup:
        setup = build(chosen)
        models.append(setup.model)
        return setup

    inputs, targets = blobs(ROWS)
    cut_rows = {"data": (inputs[rows], targets[rows]), "ids": rows}
    parts_tuning(folder, recording, **cut_rows, start=TestStream, engine="bookkeeping").run()
    return [model.state_dict()["head.weight"] for model in models[-4:]]


def test_a_row_less_is_seen_by_one_candidate_or_by_none(tmp_path: Path) -> None:
    """A row is left out of a part for training, or of the last: other candidates end as they did, bit for bit."""
    assert isinstance(SEARCH, PartsSearch)
    everyone = list(range(ROWS))
    whole = finals(tmp_path / "whole", everyone)
    for part in (2, 4):
        gone = next(row for row in everyone if SEARCH.part_of(row) == part)
        less = finals(tmp_path / str(part), [row for row in everyone if row != gone])
        differ = [k for k in range(4) if not torch.equal(whole[k], less[k])]
        assert differ == ([] if part == 4 else [part])


def test_no_row_is_both_trained_on_and_looked_at_by_the_choice(tmp_path: Path) -> None:
    """Every row, told by its first feature, is in one place: with the candidate of its name, or with the choice."""
    inputs, targets = blobs(ROWS)
    inputs[:, 0] = torch.arange(ROWS)
    search = parts_tuning(tmp_path, data=(inputs, targets))
    assert isinstance(SEARCH, PartsSearch)
    assert search._choice is not None
    places = [seen.data for seen in search._seen] + [search._choice._data]
    for part, data in enumerate(places):
        assert isinstance(data, PrivateData)
        rows = data.fetch(np.arange(data.rows))[0][:, 0].int().tolist()
        assert rows == [row for row in range(ROWS) if SEARCH.part_of(row) == part]


def judge(search: PartsSearch = SEARCH, rows: int = 30, users: int = 0, **changes: Any) -> PrivateChoice:
    names: list[int | str] = [row % users if users else row for row in range(rows)]
    data = replace(as_private(blobs(rows)), **changes)
    return PrivateChoice(search, Portion(data, names), Unit.USER if users else Unit.EXAMPLE)


def test_the_choice_has_the_law_that_is_paid_for() -> None:
    """Probabilities proportional to e^(range x score): chi-squared of 4,000 choices, one false alarm in 10^4, and the
    same test finds a choice with half of the range, with a range too large by a half, and one that ranks at random."""
    assert isinstance(SEARCH, PartsSearch)
    scores = [5 * FULL_SCORE, 4 * FULL_SCORE, 4 * FULL_SCORE + FULL_SCORE // 2, 0]

    def pvalue(search: PartsSearch, over: list[int], seed: int = 1) -> float:
        one, stream = judge(search), TestStream(seed)
        counts = Counter(one.choose(over, stream.substream(Purpose.NOISE, turn)) for turn in range(4000))
        weights = np.exp([1.2 * score / FULL_SCORE for score in scores])
        return float(stats.chisquare([counts[k] for k in range(4)], 4000 * weights / weights.sum()).pvalue)

    def of_range(epsilon: float) -> PartsSearch:
        return SEARCH.model_copy(update={"epsilon": epsilon})

    assert pvalue(of_range(1.2), scores) > 1e-4
    assert pvalue(of_range(1.2), [score + 10**15 for score in scores]) > 1e-4, "only differences count"
    for broken in (of_range(0.6), of_range(1.8)):
        assert pvalue(broken, scores) < 1e-4
    assert pvalue(of_range(1.2), [0, 0, 0, 0]) < 1e-4
    with pytest.raises(PrivacyViolation, match="all candidates"):
        judge().choose(scores[:3], TestStream(1).substream(Purpose.NOISE, 0))


@pytest.mark.parametrize("search", [SEARCH, SEARCH.model_copy(update={"score": "loss", "bound": 2.0})], ids=str)
@pytest.mark.parametrize("users", [0, 7])
def test_a_unit_adds_at_most_one_to_a_score_and_takes_nothing(search: PartsSearch, users: int) -> None:
    """A row, or a user with all rows, more or less: of every score, for wild models and losses that are no number."""

    class Wild(nn.CrossEntropyLoss):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            loss = super().forward(output, target) * 5
            return torch.where(loss > 6, torch.nan, torch.where(loss > 4, torch.inf, loss - 3))

    sign = 1 if search.score == "accuracy" else -1
    inputs, targets = blobs(30)
    names: list[int | str] = [row % users if users else row for row in range(30)]
    unit = Unit.USER if users else Unit.EXAMPLE

    def scores(rows: list[int]) -> list[int]:
        part = Portion(as_private((inputs[rows], targets[rows])), [names[row] for row in rows])
        return [sign * PrivateChoice(search, part, unit).score(linear(seed), Wild()) for seed in range(3)]

    whole, moved = scores(list(range(30))), set()
    for name in sorted(set(names), key=str)[:7]:
        less = scores([row for row in range(30) if names[row] != name])
        moved |= {high - low for high, low in zip(whole, less, strict=True)}
    assert 0 <= min(moved) < max(moved) <= FULL_SCORE


def test_candidates_see_the_augmentation_and_the_choice_does_not(tmp_path: Path) -> None:
    calls: list[int] = []

    def noted(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x

    data = Augmented(blobs(ROWS), noted, views=2)
    trained = parts_tuning(tmp_path, data=data, engine="vmap").run()
    assert trained.winner is not None
    assert calls, "the transform of the data is lost where it is cut"


def test_users_stay_whole(tmp_path: Path) -> None:
    """All rows of a user are in one part, whose number of units is that of users."""
    units = [f"user {row % 40}" for row in range(ROWS)]
    plan = {"population": 40 / 5, "batch": 4, "unit": "user", "rows_per_unit": 2}
    search = parts_tuning(tmp_path, plan=plan, units=units, ids=None)
    assert sum(len(set(seen.units)) for seen in search._seen) < 40  # type: ignore[arg-type]
    for one in search._seen:
        names = list(one.units)  # type: ignore[call-overload]
        assert all(names.count(name) == 4 for name in set(names))
    assert search.run().winner is not None


def test_scored_by_losses_that_are_lower(tmp_path: Path) -> None:
    """With next to no noise the candidates that learn nothing do not win."""
    plan = {"population": 300 / 5, "batch": 30, "steps": 20, "noise_multiplier": 0.6}
    for score in ({}, {"score": "loss", "bound": 3.0}):
        folder = tmp_path / (str(score.get("score", "accuracy")))
        trained = parts_tuning(
            folder, plan=plan, data=blobs(300), ids=range(300), score=score, engine="bookkeeping"
        ).run()
        assert trained.winner is not None
        assert trained.winner["optimizer.lr"] == 1.0


def regression(_settings: Any) -> Setup:
    model = nn.Linear(4, 1)
    return Setup(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": None}, "which part of the data a row is in must depend on nothing but each row itself"),
        ({"ids": range(9)}, "ids has fewer identifiers than the data has rows"),
        ({"units": range(ROWS)}, "protects single rows"),
        ({"plan": {"unit": "user"}}, "say whose each row is"),
        ({"data": blobs(4), "ids": range(4)}, r"part \d of 5 of the data has no row"),
        ({"plan": {"population": 16.0}}, "has more units than the 20 that the declared population of a part allows"),
        ({"ids": 3}, "ids must be one identifier for each row, got int"),
        ({"ids": [0.5] * ROWS}, "is a float; ids must be whole numbers or text, .* where the row is the same"),
        ({"ids": ["7", *range(ROWS - 1)]}, "ids mixes whole numbers and text"),
        ({"ids": [None] * ROWS}, "has no identifier in ids"),
        ({"plan": {"adjacency": "replace_one"}}, "replace_one"),
        ({"grid": {"clip_norm": [1.0]}}, "at least two candidates"),
        ({"score": {"score": "loss"}}, "needs bound"),
        ({"score": {"bound": 1.0}}, "needs bound"),
        ({"plan": {"before": []}, "grid": {}}, "at least one setting"),
    ],
)
def test_refused_before_anything_is_charged(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parts_tuning(tmp_path, **changes)
    assert not (tmp_path / "run").exists()


def test_a_score_that_candidates_do_not_have_is_refused(tmp_path: Path) -> None:
    data = TensorDataset(blobs(ROWS)[0], torch.zeros(ROWS, 1))
    with pytest.raises(InputError, match="need one class per row"):
        parts_tuning(tmp_path, regression, data=data)


def test_public_data_is_not_the_private_data_that_is_cut(tmp_path: Path) -> None:
    data = blobs(ROWS)
    with pytest.raises(InputError, match="is the training data itself"):
        parts_tuning(tmp_path, data=data, public_test=data)


def test_the_hash_does_not_change() -> None:
    """A published cut stays what it is: the first names, and where they are, by sha256 with Python's own integers."""
    import hashlib

    assert isinstance(SEARCH, PartsSearch)
    for name, kind in ((7, "number"), ("7", "text"), ("Zoë", "text")):
        number = int.from_bytes(hashlib.sha256(f"discreet parts 1\n{kind}\n{name}".encode()).digest()[:8], "big")
        assert SEARCH.part_of(name) == math.floor(5 * number / 2**64)
