"""Operators that read or write entries at places given by index tensors."""

from __future__ import annotations

from discreet.clipping.separation.labels import BATCH, MIXED, NUMBERS, SHARED, UNIFORM, Label, Rows, joined
from discreet.clipping.separation.registry import Given, Value, fails, rule

fails("index_select", "gather", "take_along_dim", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy")
fails("index_fill", "index", "_unsafe_index", "index_put", "_index_put_impl", "_unsafe_index_put")


@rule("index_select")
def index_select(given: Given) -> Label:
    """Entries of an axis at places that are the same for all examples; or rows of a table at the places of each."""
    first, index, dim = given["self"], given["index"], given["dim"] % max(1, given["self"].dims)
    label, places = given.rows(first), index.label
    if label == SHARED:
        if places == SHARED:
            return SHARED
        return places._replace(axis=dim) if isinstance(places, Rows) else MIXED
    if isinstance(label, Rows) and places == SHARED and label.axis != dim:
        return label
    return label if places == NUMBERS and isinstance(label, Rows) and label == Rows(dim) else MIXED


@rule("gather", "take_along_dim")
def gather(given: Given) -> Label:
    """Entries along one axis, at places whose label is that of the entries."""
    first, index, dim = given["self"], given["index"], given["dim"] % max(1, given["self"].dims)
    return _lined_up([first, index], dim, given)


@rule("scatter", "scatter_add", "scatter_reduce")
def scatter(given: Given) -> Label:
    """Writes to places along one axis; the labels of places and entries must agree."""
    parts = [one for one in (given["self"], given["index"], given["src"], given["value"]) if isinstance(one, Value)]
    if any(one.dims != given["self"].dims and one.label != SHARED for one in parts):
        return MIXED
    parts = [one for one in parts if one.dims == given["self"].dims]
    return _lined_up(parts, given["dim"] % max(1, given["self"].dims), given)


def _lined_up(parts: list[Value], dim: int, given: Given) -> Label:
    labels = [given.rows(one) for one in parts]
    if all(label == SHARED for label in labels):
        return SHARED
    first = labels[0]
    same = all(label == first for label in labels) and len({one.shape[_axis(first)] for one in parts}) == 1
    return first if isinstance(first, Rows) and same and first.axis != dim else MIXED


def _axis(label: Label) -> int:
    return label.axis if isinstance(label, Rows) else 0


@rule("index_add", "index_copy", "index_fill")
def index_add(given: Given) -> Label:
    """Writes to places of one axis that are the same for all examples."""
    first, dim = given["self"], given["dim"] % max(1, given["self"].dims)
    others = [one for one in (given["source"], given["value"]) if isinstance(one, Value) and one.dims]
    labels = {given.rows(one) for one in (first, *others)}
    single = [one for one in (given["source"], given["value"]) if isinstance(one, Value) and not one.dims]
    if given["index"].label != SHARED or not given.all_shared(*single):
        return MIXED
    label = next(iter(labels))
    if labels == {SHARED}:
        return SHARED
    return label if len(labels) == 1 and isinstance(label, Rows) and label.axis != dim else MIXED


@rule("index", "_unsafe_index")
def index(given: Given) -> Label:
    """`self[places]`; `places` has a tensor or None for each of the first axes."""
    return _indexed(given["self"], given["indices"], given)


@rule("index_put", "_index_put_impl", "_unsafe_index_put")
def index_put(given: Given) -> Label:
    """`self[places] = values`: the label of the values must fit that of the entries read at these places."""
    first, values = given["self"], given["values"]
    label = given.rows(first)
    read = _indexed(Value(label, first.shape, first.ref), given["indices"], given)
    if label == SHARED:
        return SHARED if read == SHARED and values.label == SHARED else MIXED
    if not isinstance(read, Rows) or read.axis != 0 or label != BATCH or values.label not in (SHARED, UNIFORM, BATCH):
        return MIXED
    return label if values.label != BATCH or values.shape[0] == given.batch else MIXED


def _indexed(first: Value, places: tuple[Value | None, ...], given: Given) -> Label:
    named = [(axis, one) for axis, one in enumerate(places) if isinstance(one, Value)]
    label = given.rows(first)
    if any(one.label == MIXED or (one.mask and one.dims != 1) for _, one in named) or (
        label not in (SHARED,) and not isinstance(label, Rows)
    ):
        return MIXED
    found = [one.label for _, one in named]
    wide = max((one.shape for _, one in named), key=len)
    if label == SHARED:  # a table
        if all(one == SHARED for one in found):
            return SHARED
        together = joined(
            [(one.label, one.shape) for _, one in named], _broadcast([one.shape for _, one in named]), given.batch
        )
        first_axis = named[0][0] if _adjacent([axis for axis, _ in named]) else 0
        return together._replace(axis=together.axis + first_axis) if isinstance(together, Rows) else MIXED
    assert isinstance(label, Rows)
    axes = [axis for axis, _ in named]
    if label.axis not in axes:
        if any(one != SHARED for one in found) or not _adjacent(axes):
            return MIXED
        gained = len(_broadcast([one.shape for _, one in named])) - len(axes)
        return label if label.axis < axes[0] else label._replace(axis=label.axis + gained)
    # Entries of each row: the index holds the row's number, and places of that row.
    if label != BATCH or not _adjacent(axes) or axes[0] != 0:
        return MIXED
    number, others = named[0][1], [one for _, one in named[1:]]
    shapes = _broadcast([one.shape for _, one in named])
    if number.label != NUMBERS or len(number.shape) != len(shapes) or number.shape[0] != given.batch:
        return MIXED
    lined = all(
        (one.label == SHARED and (len(one.shape) < len(shapes) or one.shape[0] == 1))
        or (one.label in (BATCH, UNIFORM) and len(one.shape) == len(shapes))
        for one in others
    )
    return BATCH if lined and len(wide) == len(shapes) else MIXED


def _adjacent(axes: list[int]) -> bool:
    return axes == list(range(axes[0], axes[0] + len(axes)))


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    longest = max(map(len, shapes))
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(max(lengths) for lengths in zip(*padded, strict=True))
