"""Hugging Face models and its `Trainer` around a private run. Needs `discreet[hf]`.

A model of `transformers` takes named inputs; this library takes one tensor for each row. `Packed` stacks the columns of
a row, and `Classifier` takes them apart. Adapters of `peft` need nothing more: their base is frozen and declared public
by its hash, and only the adapters are clipped and noised.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from discreet.core.errors import InputError
from discreet.core.extras import extra
from discreet.core.processes import launched
from discreet.plan import AdaptivePlan, Plan
from discreet.training import Callback, PublicData, Trained, Training, refuse_own_rows

transformers = extra("transformers", "hf", "PrivateTrainer")

COLUMNS = ("input_ids", "attention_mask")


class Packed(Dataset[tuple[Tensor, Tensor]]):
    """Rows of a data set of Hugging Face, as (columns, length) whole numbers and a label; all of one length.

    `rows`: mappings with the `columns` and `labels`, as tokenizers and `datasets` give them, padded to one length that
    was fixed beforehand (`padding="max_length"`): the longest row of a batch would be private.
    """

    def __init__(self, rows: Any, columns: Sequence[str] = COLUMNS) -> None:
        self._rows, self._columns = rows, tuple(columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row: Mapping[str, Any] = self._rows[index]
        missing = [name for name in (*self._columns, "labels") if name not in row]
        if missing:
            raise InputError(f"row {index} lacks {missing[0]!r}; it has {', '.join(row)}")
        parts = [torch.as_tensor(row[name], dtype=torch.int64) for name in self._columns]
        if len({len(part) for part in parts}) != 1:
            raise InputError(f"the columns of row {index} have different lengths; pad all to one fixed length")
        return torch.stack(parts), torch.as_tensor(row["labels"])


class Classifier(nn.Module):
    """`inner`, a model for the classification of sequences, on packed rows (n, columns, length): scores (n, labels).

    Positions are given for each row, where `inner` takes them: by itself it would embed them once for all rows, but
    examples must lie along axis 0 everywhere.
    """

    def __init__(self, inner: nn.Module, columns: Sequence[str] = COLUMNS) -> None:
        super().__init__()
        self.inner, self._columns = inner, tuple(columns)
        base: Any = getattr(inner, "get_base_model", None)  # peft hides the signature
        takes = inspect.signature(inner.forward if base is None else base().forward)
        self._positions = "position_ids" in takes.parameters

    def forward(self, rows: Tensor) -> Tensor:
        named = {name: rows[:, place] for place, name in enumerate(self._columns)}
        if self._positions and "position_ids" not in named:
            named["position_ids"] = torch.arange(rows.shape[2], device=rows.device).expand(len(rows), -1)
        with _masks_for_all():
            scores: Tensor = self.inner(**named, return_dict=True).logits
        return scores


@contextmanager
def _masks_for_all() -> Iterator[None]:
    """A context in which `transformers` always makes attention masks. By default it leaves them out if no row of the
    batch has padding, so the program for a row would depend on the other rows."""
    module: Any = getattr(transformers, "masking_utils", None)
    looks = getattr(module, "is_tracing", None)
    if looks is None:
        yield
        return
    module.is_tracing = lambda tensor=None: True
    try:
        yield
    finally:
        module.is_tracing = looks


class PrivateTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
    """A `Trainer` whose `train` is a private run under `plan`; evaluation and prediction are Hugging Face's own.

    `train_dataset` is private, `eval_dataset` declared public. Of the arguments only the learning rate, the optimizer's
    settings and those of evaluation count; batches, epochs and clipping are those of the plan. After `train`, `trained`
    is what `publish` takes. `options` go to `Training` (`run`, `engine`, ...).
    """

    model: Any

    def __init__(
        self,
        *rest: Any,
        plan: Plan | AdaptivePlan,
        columns: Sequence[str] = COLUMNS,
        told: Sequence[Callback] = (),
        options: Mapping[str, Any] = types.MappingProxyType({}),
        **named: Any,
    ) -> None:
        super().__init__(*rest, **named)
        if self.args.max_grad_norm not in (0, 1.0) or self.args.gradient_accumulation_steps != 1:
            raise InputError("clipping and batches are those of the plan; leave out max_grad_norm and accumulation")
        self._plan, self._columns, self._told, self._options = plan, tuple(columns), tuple(told), dict(options)
        self.trained: Trained | None = None

    def train(self, *rest: Any, **named: Any) -> Trained:
        """Take every step of the plan, privately. This is a charge."""
        if rest or any(value is not None for value in named.values()):
            raise InputError("a private run is resumed with options={'run': RunOptions(FOLDER, resume=True)}")
        refuse_own_rows("eval_dataset", self.eval_dataset, self.train_dataset)
        model = Classifier(self.model, self._columns)
        private = [parameter for parameter in model.parameters() if parameter.requires_grad]
        kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        optimizer = kind(private, **settings)
        public = None if self.eval_dataset is None else _together(Packed(self.eval_dataset, self._columns))
        training = Training(
            self._plan,
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            Packed(self.train_dataset, self._columns),
            **{"public": PublicData(test=public), "shard": "replicate" if launched() else None} | self._options,
        )
        published: Any = training.watch.published  # also if the run is broken off: the other one saw private rows
        self.model = self.model_wrapped = published.inner
        self.trained = training.run(progress=False, callbacks=self._told)
        return self.trained

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Hugging Face's loader, for rows declared public: figures about private rows would not be paid for."""
        given = self.eval_dataset if eval_dataset is None else eval_dataset
        named = self.eval_dataset[given] if isinstance(given, str) else given
        refuse_own_rows("eval_dataset", named, self.train_dataset)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Hugging Face's loader for `predict`, for rows declared public."""
        refuse_own_rows("test_dataset", test_dataset, self.train_dataset)
        return super().get_test_dataloader(test_dataset)


def _together(rows: Packed) -> tuple[Tensor, Tensor]:
    pairs = [rows[place] for place in range(len(rows))]
    return torch.stack([inputs for inputs, _ in pairs]), torch.stack([label for _, label in pairs])
