"""Mistakes with several processes end in an error in every one of them, and nothing is released for the step."""

from pathlib import Path

import pytest
from forked import started
from met import check_met

from discreet.accounting.adaptive.filters import BasicFilter
from discreet.ledger import Ledger

MET: dict[str, tuple[str, int]] = {
    "another_plan": ("another plan", 0),
    "another_order": ("another data", 0),
    "fewer_rows": ("another data|not the plan|rows", 0),
    "other_weights": ("another state of the model", 0),
    "another_criterion": ("another loss", 0),
    "another_version": ("another version", 0),
    "other_lanes": ("another number of lanes", 0),
    "one_more_sampler": ("another data|rows", 0),
    "all_lanes_in_each": ("not added every drawn unit exactly once", 0),
    "another_stream": ("not at the same step", 0),
    "another_learning_rate": ("different weights", 1),
    "changed_weights": ("changed by something that is not a release", 1),
    "a_chunk_left_out": ("a chunk of the step was not added", 1),
    "a_process_that_stops": ("different places|has ended", 2),
    "a_process_that_is_gone": ("has ended or does not answer", 2),
    "an_error_of_the_loop": ("failed with KeyError", 1),
    "a_sum_that_is_no_number": ("not a number that fits its grid", 0),
    "another_draw": ("not at the same step", 0),
    "a_budget_that_is_spent": ("nothing was charged", 0),
    "another_loss": ("another loss", 0),
    "public_rows_in_one": ("another evaluation .public rows, evaluate_every, early.", 0),
    "evaluations_at_other_steps": ("another evaluation", 0),
    "an_early_end_in_one": ("another evaluation", 0),
    "a_checkpoint_of_the_first": ("at different places .*in all of them. Nothing more was released", 3),
    "train_alone": ("a run is one process", 0),
}
"""What processes say, and how many steps were released before."""

OWN = {"a_process_that_stops": "InterruptedError", "a_process_that_is_gone": "gone", "an_error_of_the_loop": "KeyError"}
"""The error of the second process, where it is its own."""

SOME = ("other_weights", "all_lanes_in_each", "another_loss")
ENDED = ("a_process_that_stops", "a_process_that_is_gone")
"""After these the processes are no team any more."""


def check(folder: Path, *mistakes: str) -> None:
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_budget("d", BasicFilter(0.1, 1e-5))
    ledger.close()
    started(2, "shared_mistakes.py", str(folder), *mistakes, timeout=120)
    for name in mistakes:
        check_met(folder, name, MET[name], OWN)


def test_a_mistake_ends_all_processes(tmp_path: Path) -> None:
    check(tmp_path, *SOME)


def test_so_does_every_other(tmp_path: Path) -> None:
    check(tmp_path, *[name for name in MET if name not in (*SOME, *ENDED)])


@pytest.mark.parametrize("name", ENDED)
def test_so_does_a_process_that_goes_away(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)
