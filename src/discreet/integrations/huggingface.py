"""Hugging Face's `Trainer` around a private run. Needs `discreet[hf]`.

Rows and models are those of `discreet.language`. Adapters of `peft` need nothing more: their base is frozen and
declared public by its hash, and only the adapters are clipped and noised.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import IterableDataset

from discreet.core.errors import InputError
from discreet.core.imports.extras import extra
from discreet.core.processes import launched
from discreet.integrations.adapter_publishing import publish_adapters
from discreet.integrations.moved import FirstStep
from discreet.integrations.trainer_history import History
from discreet.integrations.trainer_refusals import (
    refuse_arguments,
    refuse_callbacks,
    refuse_half_precision,
    refuse_hooks,
    refuse_passed_on,
)
from discreet.language import Task, TransformersModel, TransformersRows, task_named, task_of_model
from discreet.language.tasks import base_of
from discreet.plan import AdaptivePlan, Plan
from discreet.training import EarlyStopping, EngineOptions, PublicData, Trained, Training, refuse_own_rows
from discreet.training.callbacks.base import Callback, Callbacks, as_callbacks

__all__ = ["PrivateTrainer", "publish_adapters"]

transformers = extra("transformers", "hf", "PrivateTrainer")


class PrivateTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
    """A `Trainer` whose `train` is a private run under `plan`; evaluation and prediction are Hugging Face's own.

    - `train_dataset` is private, `eval_dataset` declared public.
    - Of the arguments these count: learning rate and its schedule over the steps of the plan, the optimizer and its
      settings, `label_smoothing_factor`, `gradient_checkpointing`, `bf16`, those of `evaluate`, and for evaluations
      during `train` `eval_strategy` and `eval_steps`; there are about twenty with "no". Batches, epochs and clipping
      are those of the plan. A collator is given one row at a time.
    - Hooks of a subclass, callbacks of `transformers` and arguments that would be ignored are refused by name.
    - `task`: by default what the class of the model is for. `length`, `label_length`: the public lengths of rows
      (`TransformersRows`). `columns`: the inputs of the model; by default those of the task, and `token_type_ids` where
      the data set has a column of that name. `reduction`: of the loss over the tokens of a row.
    - `told`: callbacks of `discreet`, or functions. `early`: when to stop, and which model is kept. `options` go to
      `Training` (`run`, `engine`, `units`, `public`, ...).

    After the first step it is checked that exactly the trainable weights moved. After `train`, `trained` is what
    `publish` and `publish_adapters` take, and `model` is the published one.
    """

    model: Any
    optimizer: Any
    lr_scheduler: Any
    trained: Trained | None

    def __init__(
        self,
        *rest: Any,
        plan: Plan | AdaptivePlan,
        task: str | Task | None = None,
        length: int | None = None,
        label_length: int | None = None,
        columns: Sequence[str] | None = None,
        reduction: str = "mean",
        told: Callbacks = (),
        early: EarlyStopping | None = None,
        options: Mapping[str, Any] = types.MappingProxyType({}),
        **named: Any,
    ) -> None:
        refuse_passed_on(named, inspect.signature(super().__init__).parameters)
        given = inspect.signature(super().__init__).bind_partial(*rest, **named).arguments
        super().__init__(*rest, **named)
        refuse_hooks(self, PrivateTrainer)
        refuse_arguments(self.args, given)
        refuse_callbacks(given.get("callbacks") or (), transformers.TrainerCallback)
        self._columns = None if columns is None else tuple(columns)
        self._plan, self._told, self._options, self._early = plan, as_callbacks(told), dict(options), early
        self._task = task_of_model(self.model) if task is None else task_named(task)
        self._lengths: dict[str, int | None] = {"length": length, "label_length": label_length}
        smoothing = {"label_smoothing": self.args.label_smoothing_factor} if self.args.label_smoothing_factor else {}
        self._loss = self._task.loss(reduction=reduction, **smoothing)  # type: ignore[arg-type]
        self._collator = given.get("data_collator")
        self._optimizers = self.optimizer, self.lr_scheduler  # those that were given, if any
        self._begun, self.trained = False, None

    def train(self, *rest: Any, **named: Any) -> Trained:
        """Take every step of the plan, privately. This is a charge."""
        if rest or any(value is not None for value in named.values()):
            raise InputError("a private run is resumed with options={'run': RunOptions(FOLDER, resume=True)}")
        refuse_hooks(self, PrivateTrainer)  # once more: methods can be put onto an object, too
        if self._begun:
            raise InputError(
                "this trainer has begun its run, and another one is charged again: make another PrivateTrainer, with "
                "options={'run': RunOptions(FOLDER, resume=True)} to go on with a run that was broken off"
            )
        refuse_own_rows("eval_dataset", self.eval_dataset, self.train_dataset)
        refuse_half_precision(self.model)
        rows = self._rows(self.train_dataset)
        if self.args.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        model = TransformersModel(self.model, self._task, rows.layout)
        self.optimizer, self.lr_scheduler = self._optimizers  # an earlier call may have left others, and was refused
        optimizer = self.create_optimizer()
        scheduler = self.create_scheduler(self._plan.steps, optimizer)  # it is not stepped for metrics and queries
        public = None if self.eval_dataset is None else self._rows(self.eval_dataset).tensors()
        options: dict[str, Any] = {"shard": "replicate" if launched() else None, "scheduler": scheduler} | self._options
        declared = PublicData.of(options.get("public"))
        options["public"] = declared if declared.test is not None else replace(declared, test=public)
        if self.args.bf16:
            engine = options.get("engine", EngineOptions())
            engine = EngineOptions(engine) if isinstance(engine, str) else engine
            options["engine"] = replace(engine, autocast=torch.bfloat16)
        training = Training(self._plan, model, self._loss, optimizer, rows, **options)
        published: Any = training.watch.published  # also if the run is broken off: the other one saw private rows
        self.model = self.model_wrapped = published.inner
        first = FirstStep(lambda: training.watch.published, optimizer)
        history = History(self.state)
        told: tuple[Callback, ...] = (first, history, *self._told)
        self._begun = True
        self.trained = training.run(evaluate_every=self._every(), progress=False, early=self._early, callbacks=told)
        history.catch_up(self.trained)
        return self.trained

    def _every(self) -> int | None:
        """Steps between evaluations, if the arguments say so; those of an epoch draw every unit once on average."""
        if self.args.eval_strategy == "epoch":
            return max(1, round(self._plan.sampling.epoch(self._plan.population)))
        if self.args.eval_strategy != "steps":
            return None
        given = self.args.eval_steps
        return math.ceil(given * self._plan.steps) if given < 1 else int(given)  # below 1 it is a share of all steps

    def _rows(self, rows: Any) -> TransformersRows:
        if isinstance(rows, IterableDataset) or not hasattr(rows, "__getitem__") or not len(rows):
            raise InputError(
                "a private run draws its rows itself, each with the probability of the plan; give a data set with "
                "len() and rows by their number, not a stream or a loader"
            )
        config = getattr(base_of(self.model), "config", None)
        columns = self._columns
        if columns is None:  # never from a row: whether the first has a field is its own secret
            takes = inspect.signature(base_of(self.model).forward).parameters
            more = "token_type_ids" in takes and "token_type_ids" in (getattr(rows, "column_names", None) or ())
            columns = (*self._task.columns, *(["token_type_ids"] if more else []))
        return TransformersRows(
            rows,
            self._task,
            **self._lengths,
            decoder_start=getattr(config, "decoder_start_token_id", None),
            padding=getattr(config, "pad_token_id", None) or 0,
            columns=columns,
            collator=self._collator,
        )

    def add_callback(self, callback: Any) -> None:
        """Add one for evaluations and predictions; those for events of training are refused."""
        if hasattr(self, "_begun"):  # before, `Trainer` adds its own
            refuse_callbacks([callback], transformers.TrainerCallback)
        super().add_callback(callback)

    def hyperparameter_search(self, *rest: Any, **named: Any) -> Any:
        """Refused: every trial is a run, and choosing among them is paid for."""
        raise InputError("each trial of a search is charged, and so is the choice: use a plan for it (docs/tuning.md)")

    def get_train_dataloader(self) -> Any:
        """Refused: batches of a loader are not drawn as the plan says, so nothing would hold for them."""
        raise InputError(
            "a private run has no loader: batches of shuffled rows are not those that epsilon is computed for; "
            "call train(), which draws every batch by the plan"
        )

    def training_step(self, *rest: Any, **named: Any) -> Any:
        """Refused: its gradient is neither clipped nor noised."""
        raise InputError("a step of transformers is neither clipped nor noised; call train() of PrivateTrainer")

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
