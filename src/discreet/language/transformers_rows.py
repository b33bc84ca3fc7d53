"""`TransformersRows`: rows with named fields, as tokenizers give them, as one tensor and a target each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from discreet.core import checks
from discreet.core.errors import InputError, kind_of
from discreet.language.tasks import IGNORED, Task, task_named

_PACKED = ("seq_lengths", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k")
"""Fields that say where the sequences of a packed row begin."""

_COLLATED = ("input_ids", "attention_mask", "token_type_ids", "labels", "label", "pixel_values", "special_tokens_mask")
"""Fields that a collator is given."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the inputs of a row lie in its tensor: several fields are stacked, (fields, longest), each filled with zeros
    at its end; a single one is the tensor itself. `lengths`: those of the fields; None if all are equally long."""

    columns: tuple[str, ...]
    lengths: tuple[int, ...] | None = None

    def together(self, fields: Sequence[Tensor]) -> Tensor:
        """The tensor of one row."""
        if len(self.columns) == 1:
            return fields[0]
        longest = max(len(field) for field in fields)
        return torch.stack([filled(field, longest, 0) for field in fields])

    def apart(self, rows: Tensor) -> dict[str, Tensor]:
        """The named inputs of a batch of rows, axis 0."""
        if len(self.columns) == 1:
            return {self.columns[0]: rows}
        lengths = self.lengths or (rows.shape[2],) * len(self.columns)
        named = {name: rows[:, i, :end] for i, (name, end) in enumerate(zip(self.columns, lengths, strict=True))}
        if "attention_mask" in named:
            named["attention_mask"] = (named["attention_mask"] != 0).long()
        return named


class TransformersRows(Dataset[tuple[Tensor, Tensor]]):
    """Rows for a task as `Training` takes them: (inputs, target) pairs, all of one shape.

    - `rows`: mappings with the inputs of the task and `labels`. For causal-lm `labels` may be left out: all tokens that
      the attention mask has are predicted. The shift happens here: the model sees all tokens but the last, and the
      target of each is the next.
    - `length`: the number of tokens of a row, which is public. Shorter rows are filled up at their end and not attended
      to there; longer ones are refused. Without it all rows must be equally long.
    - `label_length`: the same for the labels of seq2seq. `decoder_start`: the token that the decoder begins with,
      `config.decoder_start_token_id`.
    - `padding`: the token that fills rows up, and labels of seq2seq that are not predicted. `columns`: other inputs
      than the task's.
    - `collator`: a data collator of `transformers`, which is given one row at a time.

    A row that was packed of several sequences is refused: what it holds of other people would be protected as if it
    were theirs alone.
    """

    def __init__(
        self,
        rows: Any,
        task: str | Task,
        *,
        length: int | None = None,
        label_length: int | None = None,
        decoder_start: int | None = None,
        padding: int = 0,
        columns: Sequence[str] | None = None,
        collator: Callable[[list[Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        for name, value in (("length", length), ("label_length", label_length)):
            if value is not None:
                checks.count(name, value)
        self.held, self.task, self._padding = rows, task_named(task), padding
        self._length, self._label_length = length, label_length if "decoder_input_ids" in self.task.columns else length
        self._start, self._collator = decoder_start, collator
        self._first: tuple[int, int] | None = None  # the number of the first row that was read, and of its tokens
        refuse_own_generator(collator)
        names = tuple(columns or self.task.columns)
        if "decoder_input_ids" in names and len(rows):
            fields = self._inputs(0, names)[0]
            self.layout = Layout(names, tuple(len(field) for field in fields))
        else:
            self.layout = Layout(names)

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        fields, target = self._inputs(index, self.layout.columns)
        lengths = {len(field) for field in fields}
        if self.layout.lengths is None and len(lengths) > 1:
            raise InputError(
                f"the columns of row {index} have different lengths; pad all to one fixed length, or give length=..."
            )
        if self.layout.lengths is not None and tuple(len(field) for field in fields) != self.layout.lengths:
            raise InputError(f"row {index} is not as long as row 0; give length=... and label_length=...")
        self._refuse_lengths(index, fields[0])
        return self.layout.together(fields), target

    def _refuse_lengths(self, index: int, field: Tensor) -> None:
        """Refuse a row of tokens that is longer or shorter than the first that was read."""
        if field.dim() != 1 or field.is_floating_point():
            return
        first, length = self._first = self._first or (index, len(field))
        if len(field) != length:
            made = int(self.task.shifted)  # the last token is not seen
            raise InputError(
                f"row {index} has {len(field) + made} tokens and row {first} has {length + made}: they need one "
                "length, which is public; give PrivateTrainer(length=N) or TransformersRows(length=N), to fill rows up"
            )

    def tensors(self) -> tuple[Tensor, Tensor]:
        """All rows at once: their inputs and their targets, each along axis 0."""
        pairs = [self[place] for place in range(len(self))]
        return torch.stack([inputs for inputs, _ in pairs]), torch.stack([label for _, label in pairs])

    def _collated(self, row: Any) -> Mapping[str, Any]:
        """The row by itself through the collator, and its label under the name `labels`."""
        found: dict[str, Any] = dict(row)
        if self._collator is not None:
            given = {name: value for name, value in found.items() if name in _COLLATED}
            found = {name: value[0] for name, value in self._collator([given]).items()}
        if "labels" not in found and "label" in found:
            found["labels"] = found.pop("label")
        return found

    def _inputs(self, index: int, names: tuple[str, ...]) -> tuple[list[Tensor], Tensor]:
        """The input fields of a row, and its target."""
        row: Mapping[str, Any] = self._collated(self.held[index])
        refuse_packed(row, index)
        made = {"labels"} if self.task.shifted else {"decoder_input_ids"}
        missing = [name for name in (*names, "labels") if name not in row and name not in made]
        if missing:
            tokenize = missing[0] in ("input_ids", "attention_mask")
            mend = ": make them of its text with the model's tokenizer, one row at a time" if tokenize else ""
            raise InputError(f"row {index} lacks {missing[0]!r}; it has {', '.join(row)}{mend}")
        fields = {name: self._field(row[name], name, index) for name in names if name in row}
        labels = self._labels(row, index)
        if "decoder_input_ids" in names and "decoder_input_ids" not in fields:
            fields["decoder_input_ids"] = self._decoder_inputs(labels)
        found = [fields[name] for name in names]
        if not self.task.shifted:
            return found, labels
        if len(labels) != len(fields["input_ids"]):
            raise InputError(f"row {index} has {len(labels)} labels for {len(fields['input_ids'])} tokens")
        return [field[:-1] for field in found], labels[1:]

    def _field(self, value: Any, name: str, index: int) -> Tensor:
        """An input field, filled up to its length if it has one number for each token."""
        made_by = "the model's image processor" if name == "pixel_values" else "the model's tokenizer"
        found = _numbers(value, f"the {name} of row {index}", f"make them with {made_by}")
        if found.is_floating_point() and found.numel():  # an empty list of tokens is read as numbers
            return found
        length = self._label_length if name.startswith("decoder_") else self._length
        return self._fitted(found.long(), length, self._padding if name.endswith("input_ids") else 0, index, name)

    def _labels(self, row: Mapping[str, Any], index: int) -> Tensor:
        """The target of a row in the form that the loss takes."""
        if "labels" not in row:
            tokens, mask = torch.as_tensor(row["input_ids"]).long(), torch.as_tensor(row["attention_mask"])
            return self._fitted(tokens.masked_fill(mask == 0, IGNORED), self._length, IGNORED, index, "labels")
        known = "number classes from 0 (config.label2id), the same in every row"
        labels = _numbers(row["labels"], f"the label of row {index}", known)
        match self.task.target:
            case "tokens":
                if labels.dim() != 1:
                    raise InputError(f"row {index} needs a label for each token, got shape {tuple(labels.shape)}")
                return self._fitted(labels.long(), self._label_length, IGNORED, index, "labels")
            case "class":
                if labels.dim() or labels.is_floating_point():
                    raise InputError(f"row {index} needs one class as its label, a whole number")
                return labels.long()
        return labels.float().reshape(-1)

    def _fitted(self, field: Tensor, length: int | None, fill: int, index: int, name: str) -> Tensor:
        if length is None or field.dim() != 1:
            return field
        if len(field) > length:
            raise InputError(
                f"row {index} has {len(field)} {name}, more than the length of {length}; truncate it, or train with a "
                "longer one"
            )
        return filled(field, length, fill)

    def _decoder_inputs(self, labels: Tensor) -> Tensor:
        """The labels of seq2seq, moved by one place: what the decoder has seen before it predicts each of them."""
        if self._start is None:
            raise InputError("seq2seq needs decoder_start=model.config.decoder_start_token_id")
        moved = torch.cat([labels.new_tensor([self._start]), labels[:-1]])
        return moved.masked_fill(moved == IGNORED, self._padding)


def refuse_own_generator(collator: object) -> None:
    """Refuse a collator with a generator of its own: what it makes of a row would depend on how many rows it was given
    before, and be the same in every run."""
    held = {"collator": collator, **(vars(collator) if hasattr(collator, "__dict__") else {})}
    kinds = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
    found = [name for name, value in held.items() if isinstance(value, kinds)]
    if found or held.get("seed") is not None:
        raise InputError(
            f"the collator has random numbers of its own ({(found or ['seed'])[0]}), so what it makes of a row would "
            "depend on the rows before it; leave out its seed: torch's generator is seeded secretly for each row"
        )


def _numbers(value: Any, what: str, mend: str) -> Tensor:
    """A field as a tensor. `InputError` if it is a text or the like."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        held = value[0] if isinstance(value, list | tuple) and value else value
        kind = kind_of(value) if held is value else f"{kind_of(value)} of {type(held).__name__}"
        raise InputError(f"{what} is {kind}, which is no tensor of numbers; {mend}") from None


def filled(field: Tensor, length: int, fill: int) -> Tensor:
    """The field with `fill` at its end, up to `length`."""
    return field if len(field) == length else torch.cat([field, field.new_full((length - len(field),), fill)])


def refuse_packed(row: Mapping[str, Any], index: int) -> None:
    """Refuse a row of several sequences, which packing marks by their lengths, or by positions that begin again."""
    marks = [name for name in _PACKED if row.get(name) is not None]
    positions = row.get("position_ids")
    if positions is not None and not marks:
        steps = torch.as_tensor(positions).reshape(-1).diff()
        marks = ["position_ids"] if bool((steps < 0).any()) else []
    if marks:
        raise InputError(
            f"row {index} is packed of several sequences ({marks[0]}): it may hold texts of several people, but only "
            "the row as a whole is protected; train without packing (packing=False, no padding-free collator)"
        )
