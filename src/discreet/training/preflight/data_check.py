"""One look at all data before anything is charged, so that no row can stop a run later."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode, private_parameters
from discreet.clipping.admission.table_entries import NoEntry, entries_checked
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.engines.long_rows import beyond
from discreet.clipping.separation.function import Function
from discreet.core.errors import CANNOT_TAKE, InputError, first_line, kind_of
from discreet.data import PrivateData, as_private, check_rows
from discreet.data.private.overlap import refuse_own_rows
from discreet.data.private.several_inputs import for_model
from discreet.training.augmented_views import transformed
from discreet.training.preflight.losses.loss_alone import FAILS_ALONE, LOOK_FOR
from discreet.training.preflight.losses.loss_trials import named
from discreet.training.public.evaluation import rows_at_once
from discreet.training.public.public_copy import PublicCopy

_AT_ONCE = 512
_ALONE = 8
"""The most rows that are tried alone; one that passes is enough."""

_LOOKED_AT, _MANY = 64, 0.05
"""The number of rows that are searched for long ones, and the share of long rows that is reported."""

_OF_TYPES = re.compile(r"\b(dtype|type|Float|Double|Half|BFloat16|Long|Int|Short|Byte|Char|Bool)\b")
"""Words of torch's errors about types."""

_log = logging.getLogger("discreet")


def try_every_row(model: nn.Module, criterion: Criterion, data: PrivateData) -> int | None:
    """Run model and criterion on every row, in evaluation mode and without gradients; raise what fails as `InputError`.

    Returns the number of classes that labels may name, where the criterion takes class indices. The messages name
    rows and go to the holder of the data; nothing is charged or kept.
    """
    device = next(iter(private_parameters(model).values())).device
    classes = None
    with torch.no_grad(), torch.random.fork_rng(), evaluation_mode(model):
        start, size = 0, _rows_at_once(model, data, device)
        while start < data.rows:
            rows = np.arange(start, min(start + size, data.rows))
            try:
                classes = _try_rows(model, criterion, data, rows, device)
            except torch.OutOfMemoryError:  # a card may hold the chunks of a run, and not so many rows
                if size <= 2:  # rows that fail alone may be among others
                    raise
                size //= 2
                continue
            start += size
        if min(size, data.rows) > 1:
            _try_alone(model, criterion, data, device)
    return classes


def check_public(
    sets: Mapping[str, Any],
    classes: int | None,
    data: object,
    on: PublicCopy | None = None,
) -> None:
    """Refuse public data, with its name, if it cannot be evaluated or is the private data itself.

    `on`: model and loss, which are tried on one row of each set.
    """
    for name, given in sets.items():
        if given is None:
            continue
        try:
            public = as_private(given)
            public.check(classes)
            if on is not None:
                _try_row(on.model, on.criterion, public)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        refuse_own_rows(name, given, data)


def _try_row(model: nn.Module, criterion: Criterion, public: PrivateData) -> None:
    """Run model and criterion on the first row of data declared public."""
    device = next(iter(private_parameters(model).values())).device
    with torch.no_grad(), torch.random.fork_rng(), evaluation_mode(model):
        _try_rows(model, criterion, public, np.arange(1), device)


def _try_alone(model: nn.Module, criterion: Criterion, data: PrivateData, device: torch.device) -> None:
    """Run model and criterion on single rows, after batches: what fails on each would leave a run nothing but noise.

    Some rows may fail, those without a label for example: they add nothing to a step.
    """
    failed: InputError | None = None
    for row in np.unique(np.linspace(0, data.rows - 1, _ALONE).astype(np.int64)):
        try:
            _try_rows(model, criterion, data, np.array([row]), device)
        except InputError as error:
            failed = error
        else:
            return
    assert failed is not None
    said = failed if not isinstance(failed.__cause__, Exception) else failed.__cause__
    raise InputError(f"{FAILS_ALONE}: {first_line(said)}; {LOOK_FOR}") from failed


def _rows_at_once(model: nn.Module, data: PrivateData, device: torch.device) -> int:
    """The number of rows that are tried at once, by the size of what the model returns for the first."""
    try:
        seen = transformed(data, data.first()[0].to(device))
    except CANNOT_TAKE:
        return _AT_ONCE  # the error that names the rows comes later
    with entries_checked(model, np.zeros(1, np.int64)):
        return rows_at_once(model, seen[:1], _AT_ONCE)


def _try_rows(
    model: nn.Module, criterion: Criterion, data: PrivateData, rows: np.ndarray, device: torch.device
) -> int | None:
    where = f"rows {rows[0]} to {rows[-1]} of the data" if len(rows) > 1 else f"row {rows[0]} of the data"
    try:
        inputs, targets = data.fetch(rows, strict=True)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: they cannot be put together: {first_line(error)}{_padded(error)}") from error
    check_rows(inputs, targets, int(rows[0]), None)
    _refuse_other_kind(data, inputs, targets, where)
    data.fetch(np.array([0, rows[0]]))  # raises the error that a batch with both would raise in a step
    seen = _as_seen(data, inputs.to(device), rows, where)
    try:
        with entries_checked(model, rows):
            around = Surroundings()
            output = model(seen)
            around.check()
    except (torch.OutOfMemoryError, NoEntry):
        raise
    except CANNOT_TAKE as error:
        shape = tuple(inputs.shape[1:])
        kind = _other_kind(model, seen)
        raise InputError(
            f"{where}: the model cannot take examples of shape {shape}: {first_line(error)}"
            f"{kind}{_without_gradients(error)}{for_model(model, error)}"
        ) from error
    named_by_index = isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss) and isinstance(output, Tensor)
    classes = int(output.shape[1]) if named_by_index and output.dim() > 1 else None
    one_each = classes is not None and output.dim() == targets.dim() + 1  # else the loss says what is wrong
    check_rows(inputs, targets, int(rows[0]), classes if one_each else None)
    try:
        loss = criterion(output, targets.to(device))
    except torch.OutOfMemoryError:
        raise
    except CANNOT_TAKE as error:
        kind = f"; targets are {targets.dtype} of shape {tuple(targets.shape[1:])} for a row"
        if isinstance(output, Tensor):
            kind += f", and outputs {output.dtype} of shape {tuple(output.shape[1:])}"
            kind += _as_wanted(criterion, output, targets, error)
        else:
            kind += f", and the model returns {kind_of(output)}, which the loss gets as it is"
        raise InputError(f"{where}: the loss cannot take these targets: {first_line(error)}{kind}") from error
    if not isinstance(loss, Tensor):
        raise InputError(
            f"{named(criterion)} returns an object of type {type(loss).__name__}; it must return a tensor, the loss "
            "alone (without .item(), and nothing beside it)"
        )
    return classes


def _as_seen(data: PrivateData, inputs: Tensor, rows: np.ndarray, where: str) -> Tensor:
    """The inputs as the model gets them. `InputError` if the transform fails on a row, or makes another kind of tensor
    of it than of the others: its numbers are NaN or zero then."""
    try:
        seen = transformed(data, inputs)
    except CANNOT_TAKE as error:
        if isinstance(error, InputError | torch.OutOfMemoryError):
            raise
        raise InputError(f"{where}: the transform of the augmented data fails: {first_line(error)}") from error
    if data.transform is not None:
        lost = ~seen.isfinite().flatten(1).all(1) if seen.dim() > 1 else ~seen.isfinite()
        if isinstance(data.transform, Function):
            lost[data.transform.lost] = True
        if bool(lost.any()):
            raise InputError(
                f"the transform of the augmented data fails on row {rows[int(lost.int().argmax())]} of the data, or "
                "makes it NaN, infinite or of another shape or type; mend the transform, or repair the row"
            )
    return seen


def _other_kind(model: nn.Module, inputs: Tensor) -> str:
    """The advice where the rows are of another type than the weights; "" where they are not, or might be indices."""
    weights = next(iter(private_parameters(model).values())).dtype
    if inputs.dtype == weights or any(isinstance(one, nn.Embedding | nn.EmbeddingBag) for one in model.modules()):
        return ""
    return f"; the rows are {inputs.dtype} and the weights {weights}: convert one, as rows.to({weights})"


def _without_gradients(error: Exception) -> str:
    """Advice where a model takes gradients of its own, as of an energy, which are off here; "" elsewhere."""
    if "does not require grad" not in str(error):
        return ""
    return (
        "; gradients are off where rows are only tried or measured: take those in forward inside torch.enable_grad(), "
        "or by torch.func.grad"
    )


def _as_wanted(criterion: Criterion, output: Tensor, targets: Tensor, error: Exception) -> str:
    """Advice on how to convert targets to what the loss takes; "" where there is none."""
    of_labels, whole = isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss), not targets.is_floating_point()
    if of_labels and targets.dim() == 2 and targets.shape[1] == 1:
        return "; labels have no axis of their own: give targets.squeeze(1)" + ("" if whole else ".long()")
    if of_labels and whole and targets.shape == output.shape:
        return "; of columns of zeros and ones: give targets.float()"
    if of_labels and whole and output.dim() > 2 and targets.shape == output.shape[:-1]:
        return "; classes are axis 1 of what a model returns: let it return outputs.transpose(1, -1)"
    if of_labels:
        other = targets.dtype != torch.int64 and targets.shape != output.shape
        return "; labels are whole numbers: give targets.long()" if other else ""
    wanted = (
        ""
        if output.shape == targets.shape or output.numel() != targets.numel()
        else f".reshape{(-1, *output.shape[1:])}"
    )
    if wanted and output.shape[1:] == (1,):
        wanted = ".unsqueeze(1)"
    if whole and output.is_floating_point() and (wanted or _OF_TYPES.search(str(error))):
        wanted += ".float()"
    return f"; give targets{wanted}" if wanted else ""


def _padded(error: Exception) -> str:
    """Advice for rows of different lengths; "" if the error is another."""
    if "equal size" not in str(error):
        return ""
    return (
        "; rows need one shape: pad them (torch.nn.utils.rnn.pad_sequence) with a value by which the model tells what "
        "was filled in"
    )


def _refuse_other_kind(data: PrivateData, inputs: Tensor, targets: Tensor, where: str) -> None:
    """Refuse rows whose type or shape differs from the first row's: batched together, they would change it or fail."""
    for what, one, other in zip(("inputs", "targets"), data.first(), (inputs, targets), strict=True):
        if (one.dtype, one.shape[1:]) != (other.dtype, other.shape[1:]):
            raise InputError(
                f"{where}: {what} are {other.dtype} of shape {tuple(other.shape[1:])}, those of row 0 {one.dtype} of "
                f"shape {tuple(one.shape[1:])}; convert all rows to one type and shape"
            )


def warn_of_long_rows(data: PrivateData, reach: float) -> None:
    """Warn the holder of the data, before the run, if many rows will be taken one at a time."""
    rows = np.unique(np.linspace(0, data.rows - 1, _LOOKED_AT).astype(np.int64))
    inputs, _ = data.fetch(rows)
    share = float(beyond(inputs, reach).double().mean())
    if share > _MANY:
        _log.warning(
            "%.0f %% of the rows have a number beyond %g and are taken one at a time, which is slow; scale the inputs "
            "by public constants",
            100 * share,
            reach,
        )
