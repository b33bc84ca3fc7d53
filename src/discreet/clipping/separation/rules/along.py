"""Operators that treat each line of entries along some axes separately: sums, softmax, sorting, norms, transforms."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.clipping.separation.labels import MIXED, SHARED, Label, Rows, sized
from discreet.clipping.separation.registry import Given, entry_by_entry, fails, rule

fails("linalg_inv_ex", "linalg_cholesky_ex", "linalg_qr", "_linalg_eigh", "_linalg_svd", "_linalg_det")
fails("_linalg_slogdet", "linalg_matrix_exp", "linalg_pinv")


@rule("sum", "mean", "nansum", "nanmean", "prod", "amax", "amin", "aminmax", "max", "min", "argmax", "argmin", "all")
@rule("any", "std", "var", "std_mean", "var_mean", "median", "nanmedian", "mode", "kthvalue", "logsumexp", "norm")
@rule("linalg_vector_norm", "count_nonzero")
def reduced(given: Given) -> Label:
    """Axes are reduced (removed, or kept with length one); all axes if none is named. Two tensors: entry by entry."""
    first = given.first
    if len(given.tensors) > 1:
        return entry_by_entry(given)
    label = given.rows(first)
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    named = given["dim"]
    dims = _axes(named, first.dims)
    if not dims or label.axis in dims:
        return MIXED
    if given.shape and len(given.shape) == first.dims:
        return label
    return label._replace(axis=label.axis - sum(dim < label.axis for dim in dims))


@rule("_softmax", "_log_softmax", "softmax", "log_softmax", "_safe_softmax", "cumsum", "cumprod", "logcumsumexp")
@rule("cummax", "cummin", "sort", "argsort", "topk", "glu")
def line_by_line(given: Given) -> Label:
    """Entries may only meet along one axis; the other axes keep their places."""
    first = given.first
    label = given.rows(first)
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    dim = given["dim"] if given["dim"] is not None else -1
    return MIXED if label.axis == dim % max(1, first.dims) else label


@rule("flip", "roll", "fliplr", "flipud", "_fft_r2c", "_fft_c2c", "_fft_c2r", "rot90")
def several_axes(given: Given) -> Label:
    """Entries may meet or change places along some axes, or along all axes if none is named."""
    first = given.first
    label = given.rows(first)
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    dims = _axes(given["dims"] if given["dims"] is not None else given["dim"], first.dims)
    return MIXED if not dims or label.axis in dims else label


def _axes(named: object, dims: int) -> list[int]:
    """The axes that an operator was given: none, one, or several."""
    if named is None:
        return []
    several: Sequence[int] = named if isinstance(named, tuple | list) else (named,)
    return [axis % max(1, dims) for axis in several]


@rule("native_layer_norm", "_fused_rms_norm", "rms_norm")
def over_the_last(given: Given) -> Label:
    """Normalisation over the last axes, separately for each place on the others."""
    first = given.first
    label = given.rows(first)
    if not given.all_shared(*given.tensors[1:]):
        return MIXED
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    return label if label.axis < first.dims - len(given["normalized_shape"]) else MIXED


def before_the_last(count: int, given: Given) -> Label:
    """The rule of operators that work on the last `count` axes only: the examples must be on an axis before these."""
    first, *others = given.tensors
    label = given.rows(first)
    if not isinstance(label, Rows):
        clean = label == SHARED and given.all_shared(*others)
        return SHARED if clean and not any(sized(shape, given.batch) for shape in given.shapes) else MIXED
    alike = all(one.label == label and one.dims == first.dims for one in others)
    return label if alike and label.axis < first.dims - count else MIXED


@rule("renorm")
def renorm(given: Given) -> Label:
    """Each slice along one axis is scaled by the norm of all its entries, so slices must be examples."""
    label = given.rows(given.first)
    return label if label == SHARED or label == Rows(given["dim"] % given.first.dims) else MIXED


@rule("tril", "triu", "linalg_inv_ex", "linalg_cholesky_ex", "linalg_qr", "_linalg_eigh", "_linalg_svd", "_linalg_det")
@rule("_linalg_slogdet", "linalg_matrix_exp", "linalg_pinv")
def matrices(given: Given) -> Label:
    """Operators on matrices in the last two axes."""
    return before_the_last(2, given)
