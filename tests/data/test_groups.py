"""Whose row is whose: identifiers that tell reliably, or an error that says which does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from discreet.core.errors import InputError
from discreet.data import group

ALIKE: dict[str, Any] = {
    "tensor": torch.tensor([7, 3, 7, 9, 3]),
    "array": np.array([7, 3, 7, 9, 3], np.uint8),
    "list": [7, 3, 7, 9, 3],
    "whole floats": np.array([7.0, 3.0, 7.0, 9.0, 3.0]),
    "NumPy numbers in a list": [np.int64(7), 3, np.int32(7), np.float64(9), 3],
    "text": ["ann", "bob", "ann", "cy", "bob"],
    "array of text": np.array(["ann", "bob", "ann", "cy", "bob"]),
    "column of Arrow": pa.array([7, 3, 7, 9, 3]),
    "text in pieces": pa.chunked_array([["ann", "bob"], ["ann", "cy", "bob"]]),
    "series": pd.Series([7, 3, 7, 9, 3], dtype="Int64"),
    "array of objects": np.array(["ann", "bob", "ann", "cy", "bob"], object),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_rows_with_the_same_identifier_are_one_unit(kind: str) -> None:
    groups = group(ALIKE[kind], 5)
    assert len(groups) == 3
    assert groups.counts(np.arange(3)).tolist() == [2, 2, 1]
    assert [groups.rows(u, np.arange(groups.counts(np.array([u]))[0])).tolist() for u in range(3)] == [
        [0, 2],
        [1, 4],
        [3],
    ]


def test_different_identifiers_are_one_unit_a_row_in_order() -> None:
    groups = group(torch.tensor([5, 4, 9]), 3)
    assert groups.order.tolist() == [0, 1, 2]
    assert groups.starts.tolist() == [0, 1, 2, 3]


def test_no_row_gives_no_unit() -> None:
    assert len(group([], 0)) == 0


REFUSED: dict[str, tuple[Any, str]] = {
    "too few": ([1, 2], "fewer identifiers than the data has rows"),
    "too many": (torch.arange(4), "more identifiers than the data has rows"),
    "NaN": ([1.0, math.nan, 2.0], "row 1 of the data, counted"),
    "None": (np.array(["a", "b", None], object), "row 2 of the data, counted"),
    "NA": (pd.Series([1, pd.NA, 2], dtype="Int64"), "row 1 of the data, counted"),
    "NA of texts": (pd.Series(["a", "b", pd.NA], dtype="string"), "row 2 of the data, counted"),
    "NaT": ([1, 2, pd.NaT], "row 2 of the data, counted"),
    "null": (pa.array([1, None, 2]), "row 1 of the data, counted"),
    "masked": (np.ma.masked_array([1, 2, 3], [False, True, False]), "row 1 of the data, counted"),
    "arrays": ([np.array([1, 2])] * 3, "row 0, counted from 0, is a ndarray"),
    "frame": (pd.DataFrame({"who": [1, 2, 3]}), "got DataFrame; give one of its columns"),
    "table": (pa.table({"who": [1, 2, 3]}), "got Table; give one of its columns"),
    "mapping": ({"who": [1, 2, 3]}, "got dict; give one of its columns"),
    "part of a number": ([1, 2, 2.5], "row 2, counted from 0, is a float"),
    "truth values": ([True, False, True], "row 0, counted from 0, is a bool"),
    "tensors, which are equal to themselves only": (
        list(torch.tensor([1, 1, 2])),
        "row 0, counted from 0, is a Tensor",
    ),
    "tuples": ([(1, 2), (1, 2), (3, 4)], "row 0, counted from 0, is a tuple"),
    "numbers and text": ([7, "7", 8], "mixes"),
    "two axes": (torch.zeros(3, 1, dtype=torch.int64), "got an array of 2 axes"),
    "no axis": (torch.tensor(3), "got an array of 0 axes"),
    "a text": ("abc", "got str"),
    "a number": (3, "got int"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_tell_who_is_who_is_refused(case: str) -> None:
    identifiers, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        group(identifiers, 3)
