"""Advice at the end of an error: how to give a model rows of several inputs.

Every engine, and the proof that rows stay apart, is about one tensor whose first axis are the rows. So fields lie side
by side in it, and a subclass of the model takes them apart: its weights keep their names.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from discreet.core.array_types import IntArray

_COLUMNS = "; say which field is the target and what the model sees: discreet.Columns(data, target=NAME, inputs=NAMES)"


def in_place_of_pair(data: object) -> str:
    """Says what was given in the place of a pair of arrays, and what to give."""
    kind = type(data).__name__
    if isinstance(data, tuple) and len(data) == 2:
        said = f"a pair of {' and '.join(type(part).__name__ for part in data)}"
        if _is_ragged(*data):
            return (
                f"{said}; rows need one shape: pad them (torch.nn.utils.rnn.pad_sequence(inputs, True)) with "
                "a value by which the model tells what was filled in"
            )
        return f"{said}{_of(data[0])}" if _is_several(data[0]) else f"{said}; make tensors of them"
    if isinstance(data, Mapping):
        if not data or not all(map(_is_array, data.values())):
            return f"{kind}; give a pair of what is in it, inputs and targets"
        return f"{kind}{_COLUMNS}"
    if isinstance(data, tuple) and len(data) > 2 and all(map(_is_array, data)):
        return f"a tuple of {len(data)}{_of(data[:-1])}"
    if isinstance(data, list) and data and (advice := of_row(data[0])):
        return f"{kind} of {type(data[0]).__name__}s{advice}"
    return f"{kind}; give the targets too" if _is_array(data) else kind


def _is_ragged(inputs: object, targets: object) -> bool:
    """Whether inputs are a list with one tensor for each target, and these tensors differ in shape."""
    if not isinstance(inputs, list) or not all(map(_is_array, inputs)) or not _is_array(targets):
        return False
    return len(inputs) == len(targets) and len({tuple(one.shape) for one in inputs}) > 1  # type: ignore[arg-type]


def of_row(row: object) -> str:
    """Advice where a row is no pair of an input and a target."""
    if isinstance(row, Mapping):
        return _COLUMNS
    return _of(row[:-1]) if isinstance(row, list | tuple) and len(row) > 2 else ""


def of_pair(inputs: object, targets: object) -> str:
    """Advice where inputs or targets are several; "" where they are not."""
    return next((_of(part) for part in (inputs, targets) if _is_several(part)), "")


def for_model(model: nn.Module, error: Exception) -> str:
    """Advice where a model failed on one tensor and takes several, or a dictionary; "" elsewhere."""
    names = _arguments(model.forward)
    if len(names) > 1:
        return _advice(f"torch.stack([{', '.join(names)}], 1)", [], len(names), type(model).__name__)
    keys = _keys(model.forward, names)
    if keys and isinstance(error, TypeError | IndexError | KeyError):  # torch says "too many indices", or the like
        return _advice(f"torch.stack([{', '.join(keys)}], 1)", keys, len(keys), type(model).__name__)
    return ""


def _of(parts: Any) -> str:
    names = list(parts) if isinstance(parts, Mapping) else []
    stacked = f"torch.stack([{', '.join(map(str, names))}], 1)" if names else "torch.stack(PARTS, 1)"
    return _advice(stacked, names, len(parts))


def _advice(stacked: str, names: Sequence[object], count: int, model: str = "your model") -> str:
    columns = [f"rows[:, {place}]" for place in range(min(count, 3))] + ["..."] * (count > 3)
    taken = ", ".join(columns)
    if names:
        taken = "{" + ", ".join(f"{name!r}: {one}" for name, one in zip(names, columns, strict=False)) + "}"
    return (
        f"; several inputs of a row are given as one tensor, {stacked} (those of other shapes: torch.cat of their "
        f"flattened rows), and a subclass of {model} takes them apart (docs/your-code.md, several inputs): its "
        f"forward(self, rows) returns super().forward({taken})"
    )


def _is_several(part: object) -> bool:
    """A dictionary, or a list or tuple of arrays; a list of numbers, or of lists, is one input."""
    if isinstance(part, Mapping):
        return len(part) > 0
    return isinstance(part, tuple | list) and any(map(_is_array, part))


def _is_array(part: object) -> bool:
    return isinstance(part, Tensor | np.ndarray)


def _arguments(forward: Callable[..., Any]) -> list[str]:
    """The names of the positional arguments that a forward takes, without switches (`return_dict`)."""
    try:
        found = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        one.name
        for one in found
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        and not isinstance(one.default, bool)
        and not one.name.startswith(("return_", "output_", "use_"))
    ]


def _keys(forward: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """The keys by which a forward looks into its arguments, `names`, as one that takes a dictionary does."""
    code = getattr(forward, "__code__", None)
    steps = [] if code is None else list(dis.get_instructions(code))
    keys = [
        key.argval
        for held, key, taken in zip(steps, steps[1:], steps[2:], strict=False)
        if held.opname.startswith("LOAD_FAST") and held.argval in names and isinstance(key.argval, str)
        if key.opname == "LOAD_CONST" and (taken.opname == "BINARY_SUBSCR" or taken.argrepr == "[]")
    ]
    return list(dict.fromkeys(keys))


def no_numbers(rows: Sequence[Any], numbers: IntArray) -> str:
    """The fault of the first row whose input or target cannot become a tensor, with its mend; "" if there is none.
    `numbers`: of the rows. No value of a row is in it."""
    for number, row in zip(numbers, rows, strict=True):
        if not isinstance(row, tuple | list) or len(row) != 2:
            continue
        for what, part in zip(("input", "target"), row, strict=True):
            if isinstance(
                part, Tensor | np.ndarray | np.generic | bool | int | float | complex | Mapping | list | tuple
            ):
                continue
            mend = "give a tensor, an array or a number"
            if type(part).__module__.startswith("PIL."):
                mend = (
                    "make a tensor of it, in the data set: torchvision.transforms.ToTensor(), or of numpy.array(image)"
                )
            elif isinstance(part, str):
                mend = (
                    "give classes as whole numbers from 0, the same for a class in every row: {'first': 0, 'second': 1}"
                    if what == "target"
                    else "make numbers of the text first, in the data set (the tokens of a tokenizer)"
                )
            return f"row {number} of the data: its {what} is a {type(part).__name__}, which is no number; {mend}"
    return ""
