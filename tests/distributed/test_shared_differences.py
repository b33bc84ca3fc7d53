"""Processes that compute different functions of a row, draw other noise or lose each other release nothing.

A unit that joins a batch moves those after it to other lanes. With another loss in one of two processes, one unit of 24
moved the clipped sum by 30 clip norms, and noise was there for one.
"""

from pathlib import Path

import pytest
import torch
from forked import started
from met import check_met
from problems import linear, tiny_training

from discreet.core.errors import PrivacyViolation

MET: dict[str, tuple[str, int]] = {
    "another_setting_of_the_loss": ("different gradients of the same random row", 0),
    "other_weights_of_classes": ("another loss", 0),
    "another_table_of_the_model": ("another state of the model", 0),
    "another_table_of_the_loss": ("another loss", 0),
    "another_activation": ("another model: the kinds of its modules", 0),
    "other_canaries": ("another declaration of canaries", 0),
    "another_slope": ("different gradients of the same random row", 0),
    "other_scales": ("another geometry of clipping .*Nothing was charged", 0),
    "more_views": ("another augmentation of the data", 0),
    "another_transform": ("another augmentation of the data", 0),
    "another_precision": ("different gradients of the same random row", 0),
    "another_noise": ("another noise or source of randomness", 0),
    "noise_that_anybody_can_draw": ("another noise or source of randomness", 0),
    "evaluation_mode": ("in another mode, or has other hooks, another autocast", 0),
    "autocast_of_the_loop": ("rounding was measured under autocast None, .* now there is autocast torch.bfloat16", 1),
    "a_hook": ("different gradients of the same random row", 0),
    "other_threads": ("another number of threads", 0),
    "other_threads_on_the_way": ("other threads", 0),
    "two_sessions_at_once": ("take one run at a time", 0),
    "a_failure_after_the_sums": ("has left the others|has ended or does not answer", 1),
}
"""What both processes say, and how many steps were released before."""


def check(folder: Path, *differences: str) -> None:
    started(2, "shared_differences.py", str(folder), *differences, timeout=120)
    for name in differences:
        check_met(folder, name, MET[name], {})


def test_processes_that_compute_differently_release_nothing(tmp_path: Path) -> None:
    check(tmp_path, *[name for name in MET if name != "a_failure_after_the_sums"])


def test_a_process_that_fails_unheard_is_never_heard_again(tmp_path: Path) -> None:
    check(tmp_path, "a_failure_after_the_sums")


def test_all_chunks_of_a_step_are_computed_in_one_mode(tmp_path: Path) -> None:
    """A unit may be in any chunk: which one depends on who else was drawn."""
    training = tiny_training(tmp_path, model=torch.nn.Sequential(torch.nn.Dropout(0.9), linear()), physical_batch=3)
    refused = pytest.raises(PrivacyViolation, match="in an earlier chunk")
    with training.session() as session, refused, session.step() as step:
        for chunk in step.chunks:
            step.add(training.criterion, chunk)
            training.model.eval()
