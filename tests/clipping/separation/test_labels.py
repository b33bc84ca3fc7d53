"""Labels say where examples are: held against tensors that have the number of the example at each of its places."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from discreet.clipping.separation.labels import MIXED, SHARED, UNIFORM, Rows, as_rows, joined, moved, reshaped

BATCH = 5


def marked(shape: tuple[int, ...], label: Rows) -> Tensor:
    """A tensor of that shape with the number of the example at each place, as the label has it."""
    line = torch.arange(BATCH).repeat_interleave(label.inner).repeat(label.outer)
    return line.view(-1, *[1] * (len(shape) - label.axis - 1)).expand(shape)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[tuple[int, ...], Rows]:
    others = draw(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=3))
    axis, outer, inner = draw(st.integers(0, len(others))), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return (*others[:axis], outer * BATCH * inner, *others[axis:]), Rows(axis, outer, inner)


def factored(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A shape of that many entries."""
    shape: list[int] = []
    while size > 1 and len(shape) < 4:
        part = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape.append(part)
        size //= part
    return (*shape, size)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_a_reshape_has_its_examples_where_the_label_says(data: st.DataObject) -> None:
    shape, label = data.draw(labelled())
    after = factored(data.draw, math.prod(shape))
    found = reshaped(label, shape, after, BATCH)
    places = marked(shape, label).reshape(after)
    if isinstance(found, Rows):
        assert torch.equal(places, marked(after, found))
    else:  # there is no label that would say it
        axes = [axis for axis, length in enumerate(after) if length % BATCH == 0]
        known = [Rows(a, o, after[a] // BATCH // o) for a in axes for o in range(1, 46) if after[a] // BATCH % o == 0]
        assert found == MIXED
        assert not any(torch.equal(places, marked(after, one)) for one in known)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_a_permutation_has_its_examples_where_the_label_says(data: st.DataObject) -> None:
    shape, label = data.draw(labelled())
    order = data.draw(st.permutations(range(len(shape))))
    found = moved(label, order)
    assert isinstance(found, Rows)
    after = marked(shape, label).permute(order)
    assert torch.equal(after, marked(tuple(after.shape), found))


def test_entries_join_only_where_examples_lie_alike() -> None:
    rows, shape = Rows(0), (BATCH, 3)
    assert joined([(rows, shape), (SHARED, (3,)), (UNIFORM, shape)], shape, BATCH) == rows
    assert joined([(rows, shape), (Rows(1), (1, BATCH))], (BATCH, BATCH), BATCH) == MIXED
    assert joined([(rows, shape), (SHARED, (BATCH, 1))], shape, BATCH) == MIXED  # one constant for each place
    assert joined([(Rows(0, 2, 1), (10,)), (Rows(0, 1, 2), (10,))], (10,), BATCH) == MIXED
    assert joined([(rows, (BATCH,)), (SHARED, (2, 1))], (2, BATCH), BATCH) == Rows(1)


def test_one_number_throughout_has_its_examples_where_there_is_room_for_them() -> None:
    assert as_rows(UNIFORM, (3, 2 * BATCH), BATCH) == Rows(1, 1, 2)
    assert as_rows(UNIFORM, (BATCH, BATCH), BATCH) == MIXED
