"""Hugging Face's `Trainer` around a private run. Needs `discreet[hf]`.

Rows and models are those of `discreet.language`. Adapters of `peft` need nothing more: their base is frozen and
declared public by its hash, and only the adapters are clipped and noised.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.core.extras import extra
from discreet.core.processes import launched
from discreet.language import Task, TransformersModel, TransformersRows, task_named, task_of_model
from discreet.plan import AdaptivePlan, Plan
from discreet.training import Callback, PublicData, Trained, Training, refuse_own_rows

transformers = extra("transformers", "hf", "PrivateTrainer")


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
        task: str | Task | None = None,
        length: int | None = None,
        told: Sequence[Callback] = (),
        options: Mapping[str, Any] = types.MappingProxyType({}),
        **named: Any,
    ) -> None:
        super().__init__(*rest, **named)
        if self.args.max_grad_norm not in (0, 1.0) or self.args.gradient_accumulation_steps != 1:
            raise InputError("clipping and batches are those of the plan; leave out max_grad_norm and accumulation")
        self._plan, self._told, self._options = plan, tuple(told), dict(options)
        self._task, self._length = task_of_model(self.model) if task is None else task_named(task), length
        self.trained: Trained | None = None

    def train(self, *rest: Any, **named: Any) -> Trained:
        """Take every step of the plan, privately. This is a charge."""
        if rest or any(value is not None for value in named.values()):
            raise InputError("a private run is resumed with options={'run': RunOptions(FOLDER, resume=True)}")
        refuse_own_rows("eval_dataset", self.eval_dataset, self.train_dataset)
        rows = self._rows(self.train_dataset)
        model = TransformersModel(self.model, self._task, rows.layout)
        private = [parameter for parameter in model.parameters() if parameter.requires_grad]
        kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        optimizer = kind(private, **settings)
        public = None if self.eval_dataset is None else _together(self._rows(self.eval_dataset))
        training = Training(
            self._plan,
            model,
            self._task.loss(),
            optimizer,
            rows,
            **{"public": PublicData(test=public), "shard": "replicate" if launched() else None} | self._options,
        )
        published: Any = training.watch.published  # also if the run is broken off: the other one saw private rows
        self.model = self.model_wrapped = published.inner
        self.trained = training.run(progress=False, callbacks=self._told)
        return self.trained

    def _rows(self, rows: Any) -> TransformersRows:
        config = getattr(self.model, "config", None)
        start = getattr(config, "decoder_start_token_id", None)
        padding = getattr(config, "pad_token_id", None) or 0
        return TransformersRows(rows, self._task, length=self._length, decoder_start=start, padding=padding)

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


def _together(rows: TransformersRows) -> tuple[Tensor, Tensor]:
    pairs = [rows[place] for place in range(len(rows))]
    return torch.stack([inputs for inputs, _ in pairs]), torch.stack([label for _, label in pairs])
