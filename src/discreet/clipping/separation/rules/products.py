"""Products of matrices, and attention: they must not sum over the axis of the examples."""

from __future__ import annotations

from discreet.clipping.separation.labels import MIXED, SHARED, UNIFORM, Label, Rows, Shape, joined
from discreet.clipping.separation.registry import Given, Value, rule


def _product(given: Given, one: Value, other: Value) -> Label:
    """The label of `one @ other`, both with the same number of axes: two, or three with the first in common."""
    a, b = given.rows(one), given.rows(other)
    if any(label != SHARED and not isinstance(label, Rows) for label in (a, b)):
        return MIXED
    last = one.dims - 1
    if isinstance(a, Rows) and isinstance(b, Rows):
        return a if a == b and a.axis == 0 and last == 2 else MIXED
    if isinstance(a, Rows):
        return a if a.axis < last and not (last == 2 and a.axis == 0) else MIXED
    if isinstance(b, Rows):
        return b if b.axis == last else MIXED
    return SHARED


@rule("mm", "bmm")
def product(given: Given) -> Label:
    """The product of two matrices, or of pairs of matrices."""
    return _product(given, given["self"], given["mat2"])


@rule("addmm", "baddbmm", "_addmm_activation", "addbmm")
def product_and_sum(given: Given) -> Label:
    """A product of matrices plus another tensor."""
    names = ("mat1", "mat2") if given["mat1"] is not None else ("batch1", "batch2")
    found = _product(given, *(given[name] for name in names))
    if ("addbmm" in str(given.func) and "baddbmm" not in str(given.func)) or found == MIXED:
        return MIXED
    return joined([(found, given.shape), (given["self"].label, given["self"].shape)], given.shape, given.batch)


@rule("mv", "addmv")
def matrix_and_vector(given: Given) -> Label:
    """The product of a matrix and a vector that is the same for all examples."""
    matrix = given["mat"] if given["mat"] is not None else given["self"]
    label = given.rows(matrix)
    others = [one for one in given.tensors if one is not matrix]
    return label if label in (SHARED, Rows(0)) and given.all_shared(*others) else MIXED


@rule("linear")
def linear(given: Given) -> Label:
    """The last axis times a matrix that is the same for all examples."""
    first = given["input"]
    label = given.rows(first)
    if not given.all_shared(given["weight"], given["bias"]):
        return MIXED
    return MIXED if isinstance(label, Rows) and label.axis == first.dims - 1 else label


@rule("_trilinear")
def trilinear(given: Given) -> Label:
    """The product of three tensors that get new axes first, summed over some axes: what bilinear layers compute."""
    axes = range(given["i1"].dims + len(given["expand1"]))
    summed = {axis % len(axes) for axis in given["sumdim"]}
    parts: list[tuple[Label, Shape]] = []
    for number in "123":
        one, new = given[f"i{number}"], {axis % len(axes) for axis in given[f"expand{number}"]}
        label, own = given.rows(one), [axis for axis in axes if axis not in new]
        shape = [1 if axis in new else one.shape[own.index(axis)] for axis in axes]
        parts.append((label._replace(axis=own[label.axis]) if isinstance(label, Rows) else label, shape))
    found = joined(parts, [max(lengths) for lengths in zip(*(shape for _, shape in parts), strict=True)], given.batch)
    if not isinstance(found, Rows):
        return found if found == SHARED else MIXED
    return (
        MIXED if found.axis in summed else found._replace(axis=found.axis - sum(axis < found.axis for axis in summed))
    )


@rule(
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math",
)
def attention(given: Given) -> list[Label]:
    """Attention within each element of the first axis. On processors the second output is the logarithm of each
    query's sum, along the same first axis; what else there is are random states."""
    parts = [given[name] for name in ("query", "key", "value")]
    labels = {given.rows(one) for one in parts}
    mask = given["attn_mask"] if given["attn_mask"] is not None else given["attn_bias"]
    label = next(iter(labels))
    fits = labels == {SHARED} or (len(labels) == 1 and isinstance(label, Rows) and label.axis == 0)
    if fits and isinstance(mask, Value) and mask.label not in (SHARED, UNIFORM):
        fits = isinstance(mask.label, Rows) and mask.dims == parts[0].dims and mask.label == label
    sums = label if given.func._schema.name.endswith("_for_cpu") else MIXED
    return [label if fits else MIXED, sums if fits else MIXED][: len(given.shapes)] + [MIXED] * (len(given.shapes) - 2)


@rule("_cdist_forward", "_euclidean_dist")
def distances(given: Given) -> Label:
    """Distances between rows of two matrices: a pair of them for each example, or examples as rows and a shared one."""
    one, other = given["x1"], given["x2"]
    a, b = given.rows(one), given.rows(other)
    if a == b and isinstance(a, Rows) and one.dims == other.dims and a.axis < one.dims - 2:
        return a
    if b == SHARED and isinstance(a, Rows) and one.dims == other.dims and a.axis == one.dims - 2:
        return a
    return SHARED if a == b == SHARED else MIXED
