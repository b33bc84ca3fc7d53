"""Rows of tokens: the shift of causal models, padding, labels, decoders; and rows that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from language_families import field_rows

from discreet.core.errors import InputError
from discreet.language import IGNORED, TASKS, Layout, TransformersRows, task_named


def one(row: dict[str, Any], task: str, **options: Any) -> tuple[list[Any], Any]:
    inputs, target = TransformersRows([row], task, **options)[0]
    return inputs.tolist(), target.tolist()


def test_each_token_is_predicted_from_those_before_it() -> None:
    row = {"input_ids": [5, 6, 7, 0], "attention_mask": [1, 1, 1, 0]}
    assert one(row, "causal-lm") == ([[5, 6, 7], [1, 1, 1]], [6, 7, IGNORED])
    given = row | {"labels": [IGNORED, IGNORED, 7, IGNORED]}  # a prompt of two tokens
    assert one(given, "causal-lm")[1] == [IGNORED, 7, IGNORED]


def test_rows_are_filled_up_to_a_public_length() -> None:
    row = {"input_ids": [5, 6], "attention_mask": [1, 1], "labels": [3, IGNORED]}
    inputs, target = one(row, "masked-lm", length=4, padding=9)
    assert inputs == [[5, 6, 9, 9], [1, 1, 0, 0]]
    assert target == [3, IGNORED, IGNORED, IGNORED]


def test_a_decoder_sees_the_labels_before_each() -> None:
    row = {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1], "labels": [8, 9]}
    rows = TransformersRows([row], "seq2seq", label_length=3, decoder_start=1, padding=0)
    inputs, target = rows[0]
    assert target.tolist() == [8, 9, IGNORED]
    named = rows.layout.apart(inputs.unsqueeze(0))
    assert named["decoder_input_ids"].tolist() == [[1, 8, 9]]
    assert named["input_ids"].tolist() == [[5, 6, 7]]
    with pytest.raises(InputError, match="seq2seq needs decoder_start"):
        TransformersRows([row], "seq2seq")


def test_columns_of_two_lengths_are_taken_apart_again() -> None:
    rows = TransformersRows(field_rows("seq2seq", 3), "seq2seq", decoder_start=0)
    assert rows.layout == Layout(("input_ids", "attention_mask", "decoder_input_ids"), (6, 6, 4))
    assert rows[1][0].shape == (3, 6)


@pytest.mark.parametrize(
    ("row", "task", "message"),
    [
        ({"input_ids": [1], "attention_mask": [1]}, "classification", "row 0 lacks 'labels'"),
        (
            {"text": "a", "labels": 1},
            "causal-lm",
            "row 0 lacks 'input_ids'; it has text, labels: make them of its text",
        ),
        ({"input_ids": [1, 2], "attention_mask": [1], "labels": 0}, "classification", "different lengths"),
        ({"input_ids": [1, 2], "attention_mask": [1, 1], "labels": 0.5}, "classification", "needs one class"),
        ({"input_ids": [1, 2], "attention_mask": [1, 1], "labels": 1}, "masked-lm", "a label for each token"),
        ({"input_ids": [1, 2], "attention_mask": [1, 1], "labels": [1]}, "causal-lm", "1 labels for 2 tokens"),
    ],
)
def test_rows_that_do_not_fit_are_named(row: dict[str, Any], task: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TransformersRows([row], task)[0]


def test_longer_rows_are_refused_not_cut() -> None:
    with pytest.raises(InputError, match="row 0 has 3 input_ids, more than the length of 2"):
        one({"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}, "causal-lm", length=2)


@pytest.mark.parametrize(
    "mark", [{"seq_lengths": [2, 2]}, {"position_ids": [0, 1, 0, 1]}, {"cu_seq_lens_q": [0, 2, 4]}]
)
def test_packed_rows_are_refused(mark: dict[str, Any]) -> None:
    """What trl's packing and the collators without padding make of several texts."""
    row = {"input_ids": [1, 2, 3, 4], "attention_mask": [1, 1, 1, 1]}
    assert one(row | {"position_ids": [0, 1, 2, 3]}, "causal-lm")[1] == [2, 3, 4]
    with pytest.raises(InputError, match="packed of several sequences"):
        one(row | mark, "causal-lm")


def test_a_task_that_does_not_exist_is_answered_with_all() -> None:
    with pytest.raises(InputError, match="causal-lm, masked-lm"):
        task_named("chat")
    with pytest.raises(InputError, match="reduction must be"):
        TASKS["causal-lm"].loss(reduction="none")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="label_smoothing is for classes"):
        TASKS["regression"].loss(label_smoothing=0.1)
