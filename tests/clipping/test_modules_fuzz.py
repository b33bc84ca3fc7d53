"""Random modules, losses, rows of any size and ways to clip: 200 of the 10,000 cases of benchmarks/modules_fuzz.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fuzz_cases import case
from fuzz_verdict import AGREEMENT, ALONE, TOGETHER, apart_in_double, judged

from discreet.clipping.engines import bookkeeping

CASES, PARTS = 200, 10


def engines(number: int) -> tuple[str, ...]:
    """One of those that take rows together, and now and then one that takes each alone."""
    alone = (ALONE[number // 10 % len(ALONE)],) if number % 10 == 0 else ()
    return TOGETHER[number % len(TOGETHER)], *alone


@pytest.mark.parametrize("part", range(PARTS))
def test_no_unit_moves_the_sum_of_a_random_module_by_more_than_the_sensitivity(part: int) -> None:
    verdicts = {number: judged(case(number), engines(number)) for number in range(part, CASES, PARTS)}
    assert {number: verdict.wrong for number, verdict in verdicts.items() if verdict.wrong} == {}
    assert sum(bool(verdict.rehearsed) for verdict in verdicts.values()) <= 1  # of 10,000 it is one in 500
    assert sum(bool(verdict.rounded) for verdict in verdicts.values()) <= 1


def test_a_sum_with_room_for_the_rounding_of_terms_that_cancel_is_the_plain_one_in_double_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that is too short for another reason is not."""
    verdict = judged(case(21165), ["bookkeeping"])
    assert (verdict.rounded, verdict.wrong) == (["bookkeeping"], [])
    real = bookkeeping.decide
    monkeypatch.setattr(bookkeeping, "decide", lambda clip, *rest: real(replace(clip, norm=0.95 * clip.norm), *rest))
    assert apart_in_double(case(21165), "bookkeeping") > AGREEMENT


def test_it_finds_a_clip_norm_that_is_five_percent_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preflight would refuse such an engine, so what counts is that one is asked."""
    real = bookkeeping.decide
    monkeypatch.setattr(bookkeeping, "decide", lambda clip, *rest: real(replace(clip, norm=1.05 * clip.norm), *rest))
    assert sum(bool(judged(case(number), ["bookkeeping"]).rehearsed) for number in range(16)) >= 3
