"""Losses that have nothing to teach on some rows: they are fine, and advice about others fits the error."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, FEATURES, blobs, tiny_training
from torch import Tensor, nn

from discreet.core.errors import InputError

INPUTS, LABELS = blobs()


def labelled(output: Tensor, target: Tensor) -> Tensor:
    there = target >= 0
    if not there.any():
        raise ValueError("no label")
    return F.cross_entropy(output[there], target[there])


@pytest.mark.parametrize("gaps", [[0], [5], [0, 5, 23]])
def test_which_rows_have_no_label_decides_nothing(tmp_path: Path, gaps: list[int]) -> None:
    targets = LABELS.clone()
    targets[gaps] = -1
    assert tiny_training(tmp_path, criterion=labelled, data=(INPUTS, targets)).run().charged_steps == 7


def test_a_loss_that_fails_on_every_row_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a row alone fails .*: no label; look for .* no label") as error:
        tiny_training(tmp_path, criterion=pairs_of_labels, data=(INPUTS, LABELS))
    assert "targets." not in str(error.value)


def pairs_of_labels(output: Tensor, target: Tensor) -> Tensor:
    return labelled(output, target if len(target) > 1 else torch.full_like(target, -1))


@pytest.mark.parametrize("rare", [2, 7, 11])
def test_a_loss_of_one_label_that_is_constant_elsewhere_is_fine(tmp_path: Path, rare: int) -> None:
    """Random targets must have met the label: others leave autograd nothing to follow."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        chosen = target == rare
        return F.cross_entropy(output[chosen], target[chosen]) if chosen.any() else torch.zeros(())

    tiny_training(tmp_path, model=nn.Linear(FEATURES, 12), criterion=loss, data=(INPUTS, torch.arange(24) % 12))


def test_labels_out_of_range_are_not_to_be_made_real_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="out of bounds") as error:
        tiny_training(tmp_path, criterion=lambda o, t: F.cross_entropy(o, t), data=(INPUTS, LABELS + CLASSES))
    assert "float()" not in str(error.value)
