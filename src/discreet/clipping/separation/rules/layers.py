"""The operators of layers: convolutions, pooling, norms, recurrences, embeddings, dropout."""

from __future__ import annotations

from discreet.clipping.separation.labels import MIXED, SHARED, UNIFORM, Every, Label, Rows, joined, sized
from discreet.clipping.separation.propagate import Mixes
from discreet.clipping.separation.registry import Given, fails, rule
from discreet.clipping.separation.rules.along import before_the_last

fails("multinomial", "bernoulli", "poisson", "_standard_gamma", "binary_cross_entropy", "max_unpool2d", "max_unpool3d")
fails("embedding", "_embedding_bag", "_embedding_bag_forward_only")
fails("masked_fill", by="value")


@rule("convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution", "slow_conv_dilated2d")
@rule("_slow_conv2d_forward", "conv_depthwise3d", "_conv_depthwise2d", "slow_conv3d_forward", "slow_conv_transpose2d")
@rule("slow_conv_transpose3d", "cudnn_convolution_transpose", "convolution_overrideable", "native_channel_shuffle")
@rule("affine_grid_generator", "channel_shuffle", "native_group_norm")
def along_the_first(given: Given) -> Label:
    """Operators on each element of the first axis, with weights that are the same for all."""
    first, *others = given.tensors
    label = given.rows(first)
    if not given.all_shared(*others):
        return MIXED
    return label if label == SHARED or (isinstance(label, Rows) and label.axis == 0) else MIXED


@rule("im2col", "col2im", "multinomial")
def along_the_first_if_batched(given: Given) -> Label:
    """`along_the_first` for operators that also take an element without a batch: only with the axis of the batch."""
    batched = {"im2col": 4, "col2im": 3, "multinomial": 2}[given.func._schema.name.removeprefix("aten::")]
    return along_the_first(given) if given.first.dims == batched else MIXED


@rule("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(given: Given) -> Label:
    """An image and a grid for each element of the first axis."""
    first, *others = given.tensors
    label = given.rows(first)
    alike = all(one.label == label for one in others)
    return label if isinstance(label, Rows) and label.axis == 0 and alike else MIXED


def _spatial(count: int, names: str) -> None:
    rule(*names.split())(lambda given: before_the_last(count, given))


_spatial(
    1,
    "avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d max_pool1d max_pool1d_with_indices reflection_pad1d "
    "replication_pad1d upsample_nearest1d _upsample_nearest_exact1d upsample_linear1d",
)
_spatial(
    2,
    "avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool2d mkldnn_adaptive_avg_pool2d adaptive_max_pool2d max_pool2d "
    "max_pool2d_with_indices mkldnn_max_pool2d max_unpool2d reflection_pad2d replication_pad2d upsample_nearest2d "
    "_upsample_nearest_exact2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
)
_spatial(
    3,
    "avg_pool3d _adaptive_avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_pool3d max_pool3d_with_indices "
    "mkldnn_max_pool3d max_unpool3d reflection_pad3d replication_pad3d upsample_nearest3d _upsample_nearest_exact3d "
    "upsample_trilinear3d pixel_shuffle pixel_unshuffle",
)


@rule("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_pool(given: Given) -> Label:
    """Pooling over windows that are drawn at random for each element of the first axis."""
    first, samples = given["self"], given["random_samples"]
    return first.label if first.label == Rows(0) and samples.label in (SHARED, UNIFORM, Rows(0)) else MIXED


@rule("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def frozen_batch_norm(given: Given) -> list[Label]:
    """Batch norm with stored statistics, which works entry by entry."""
    first, others = given.first, given.tensors[1:]
    label = given.rows(first)
    fits = (label == SHARED or isinstance(label, Rows)) and given.all_shared(*others)
    return [label if fits else MIXED, *[MIXED] * (len(given.shapes) - 1)]


@rule("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "cudnn_batch_norm")
def batch_norm(given: Given) -> list[Label]:
    """Statistics over all axes but the second, so the examples must lie on the second, as in instance norm, or nowhere,
    as where weights are standardised."""
    if given["training"] is False:
        return frozen_batch_norm(given)
    if given["running_mean"] is not None or given["running_var"] is not None:
        raise Mixes("a norm writes what it has seen of the batch to its statistics")
    if given.all_shared(*given.tensors):
        return [SHARED] * len(given.shapes)
    first, others = given.first, given.tensors[1:]
    label = given.rows(first)
    channels = Rows(0, label.outer, label.inner) if isinstance(label, Rows) and label.axis == 1 else None
    if channels is None or any(one.label not in (SHARED, channels) for one in others):
        return [MIXED] * len(given.shapes)
    statistics: list[Label] = [channels if sized(shape, given.batch) else MIXED for shape in given.shapes[1:]]
    return [label, *statistics]


@rule("batch_norm_update_stats", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts")
def statistics_of_batch(given: Given) -> list[Label]:
    """Statistics over the batch. They write running ones, which their schemas do not say."""
    if given["running_mean"] is not None or given["running_var"] is not None:
        raise Mixes("a norm writes what it has seen of the batch to its statistics")
    return [MIXED] * len(given.shapes)


@rule("embedding")
def embedding(given: Given) -> Label:
    """Rows of a table that is the same for all examples."""
    indices = given["indices"]
    return given.rows(indices) if given["weight"].label == SHARED else MIXED


@rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(given: Given) -> list[Label]:
    """Sums of rows of a table, over bags with exactly the entries of an example."""
    indices, offsets, weights = given["indices"], given["offsets"], given["per_sample_weights"]
    label = given.rows(indices)
    rest: list[Label] = [MIXED] * (len(given.shapes) - 1)
    if not isinstance(label, Rows) or label.axis != 0 or given["weight"].label != SHARED:
        return [MIXED, *rest]
    weighed = weights is None or weights.label in (SHARED, label)
    fits = weighed and label.outer == 1 and offsets.label == Every(label.inner)
    return [Rows(0) if fits else MIXED, *rest]


@rule("mkldnn_rnn_layer")
def mkldnn_rnn_layer(given: Given) -> list[Label]:
    """A layer of an LSTM: input (time, example, feature), states (example, feature)."""
    one, state = given["input"], (given["hx_"], given["cx_"])
    weights = [given[f"weight{i}"] for i in range(4)]
    label = given.rows(one)
    known = all(part.label in (UNIFORM, Rows(0), SHARED) and len(part.shape) == 2 for part in state)
    if label != Rows(1) or len(one.shape) != 3 or not known or not given.all_shared(*weights):
        return [MIXED] * len(given.shapes)
    return [Rows(1), Rows(0), Rows(0), MIXED]


@rule("_cudnn_rnn", "miopen_rnn")
def cudnn_rnn(given: Given) -> list[Label]:
    """All layers of a recurrent network, with the examples on the second axis, or with `batch_first` on the first."""
    one, states = given["input"], [part for part in (given["hx"], given["cx"]) if part is not None]
    label, wanted = given.rows(one), Rows(0 if given["batch_first"] else 1)
    shared = given.all_shared(*(given["weight"] or ()), given["weight_buf"])
    if (
        label != wanted
        or len(one.shape) != 3
        or not shared
        or any(part.label not in (UNIFORM, Rows(1)) for part in states)
    ):
        return [MIXED] * len(given.shapes)
    return [wanted, Rows(1), Rows(1), *[MIXED] * (len(given.shapes) - 3)]


@rule("native_dropout", "_fused_dropout", "rrelu_with_noise", "_prelu_kernel", "prelu", "alpha_dropout", "bernoulli")
@rule("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "poisson", "_standard_gamma", "special_erfcx")
@rule("elu", "softplus", "hardswish", "log_sigmoid_forward", "logit", "hardtanh", "polar", "complex", "bucketize")
@rule("masked_fill", "fmax", "fmin", "copysign", "fake_quantize_per_tensor_affine_cachemask", "binary_cross_entropy")
@rule("silu", "gelu", "threshold", "hardswish_", "relu6", "softshrink", "native_dropout_backward", "isin", "abs", "sgn")
def entries(given: Given) -> Label | list[Label]:
    """Operators that work entry by entry, possibly with a random number for each entry."""
    tensors = [(one.label, one.shape) for one in given.tensors]
    if str(given.func).startswith("aten.isin") and not given.all_shared(*given.tensors[1:]):
        return MIXED
    if str(given.func).startswith("aten.bucketize"):
        return given["self"].label if given.all_shared(given["boundaries"]) else MIXED
    widest = max(one.dims for one in given.tensors)
    shapes = given.shapes or (given.first.shape,)
    return [joined(tensors, shape, given.batch) if len(shape) == widest else MIXED for shape in shapes]


@rule("_weight_norm_interface", "_weight_norm")
def weight_norm(given: Given) -> Label:
    """Weights computed from weights."""
    return SHARED if given.all_shared(*given.tensors) else MIXED
