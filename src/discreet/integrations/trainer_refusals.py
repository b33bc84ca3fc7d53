"""Hooks, callbacks and arguments of `transformers.Trainer` that `PrivateTrainer` would ignore, refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from discreet.core.errors import InputError
from discreet.language.tasks import base_of

_LOSS = (
    "each row is clipped alone, under the loss of task=, reduction= and label_smoothing_factor; train under another "
    "loss with discreet.Training (docs/language-models.md, a loss of your own)"
)
_STEP = "steps are drawn, clipped and noised by the plan; leave it out, or give told=[FUNCTION] for after them"
_BATCHES = "batches are drawn by the plan, row by row; leave it out (inputs: columns=, length=, data_collator=)"
_EVALUATION = "it evaluates by itself, as eval_strategy says, and keeps checkpoints in its run folder; leave it out"

HOOKS: Mapping[str, str] = {
    "compute_loss": _LOSS,
    "compute_loss_context_manager": _STEP,
    "autocast_smart_context_manager": f"{_STEP}; for bfloat16: bf16=True",
    "training_step": _STEP,
    "_inner_training_loop": _STEP,
    "_run_epoch": _STEP,
    "_prepare_input": _BATCHES,
    "_prepare_inputs": _BATCHES,
    "_wrap_model": _STEP,
    "_clip_grad_norm": _STEP,
    "_get_grad_norm": _STEP,
    "create_optimizer_and_scheduler": "override create_optimizer and create_scheduler instead, which it calls",
    "get_train_dataloader": _BATCHES,
    "_get_dataloader": f"{_BATCHES}; for public rows override get_eval_dataloader",
    "_get_train_sampler": _BATCHES,
    "_get_collator_with_removed_columns": _BATCHES,
    "_remove_unused_columns": _BATCHES,
    "_set_signature_columns_if_needed": _BATCHES,
    "get_batch_samples": _BATCHES,
    "_get_num_items_in_batch": _LOSS,
    "_maybe_log_save_evaluate": _EVALUATION,
    "_evaluate": _EVALUATION,
    "_save_checkpoint": _EVALUATION,
    "_load_from_checkpoint": _EVALUATION,
    "_load_best_model": _EVALUATION,
    "_determine_best_metric": _EVALUATION,
}
"""Methods that training by `transformers.Trainer` goes through and a private run does not, and what to do instead."""

_NOT_IN_TRAINING = ("on_init_end", "on_prediction_step", "on_predict")
"""Events of callbacks that `transformers` raises outside of training alone."""


def refuse_hooks(trainer: object, own: type) -> None:
    """Refuse a trainer whose hooks of training are not those of `own`, of which it is a subclass: they would not be
    called."""
    for name, instead in HOOKS.items():
        theirs = inspect.getattr_static(trainer, name, None)
        if theirs is not inspect.getattr_static(own, name, None):
            raise InputError(f"{type(trainer).__name__}.{name} would never be called in a private run: {instead}")


def refuse_callbacks(callbacks: Iterable[object], base: type) -> None:
    """Refuse callbacks of `transformers` (`base`) for events of training: they would learn how long steps take."""
    for one in callbacks:
        kind = one if isinstance(one, type) else type(one)
        events = [name for name in vars(base) if name.startswith("on_") and name not in _NOT_IN_TRAINING]
        mine = [name for name in events if getattr(kind, name, None) is not getattr(base, name)]
        if not mine:
            continue
        instead = (
            'stop by early=discreet.training.EarlyStopping("loss", patience=...)'
            if kind.__name__ == "EarlyStoppingCallback"
            else "give told=[FUNCTION], which gets public facts and metrics after each step (docs/callbacks.md)"
        )
        raise InputError(
            f"the callback {kind.__name__} would not be told of private steps ({mine[0]}): a callback of transformers "
            f"sees how long a step takes, and so how many rows it drew; leave it out, and {instead}"
        )


def refuse_passed_on(named: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse arguments of `Training` that are given to the trainer, which passes on those in `options`, and others that
    `transformers.Trainer` does not know (`known`), as those of `SFTTrainer`. A name is no model."""
    for name in ("units", "ids", "run", "engine", "public", "geometry", "averaging", "shard"):
        if name in named:
            raise InputError(f"PrivateTrainer takes no {name}; options={{{name!r}: ...}} is passed on to Training")
    for name in named:
        if name not in known:
            raise InputError(
                f"PrivateTrainer takes no {name}; what SFTTrainer makes of a model and its rows is made before, and "
                "given as model= and train_dataset= (docs/migrating-from-trl.md)"
            )
    model = named.get("model")
    if isinstance(model, str):
        raise InputError(f"model={model!r} is a name; give the model: AutoModelForCausalLM.from_pretrained({model!r})")


def refuse_half_precision(model: Any) -> None:
    """Refuse a whole model in half precision, where steps are rounded away: after the first the run would end."""
    kinds = {one.dtype for one in model.parameters() if one.requires_grad}
    if base_of(model) is model and (half := kinds & {torch.bfloat16, torch.float16}):
        raise InputError(
            f"the weights to be trained are in {half.pop()}, which rounds small steps away; load the model with "
            "dtype=torch.float32, and compute in bfloat16 by bf16=True"
        )


def refuse_arguments(arguments: Any, given: Mapping[str, Any]) -> None:
    """Refuse training arguments and arguments of the trainer (`given`) that a private run would not heed."""
    if arguments.max_grad_norm not in (0, 1.0):
        raise InputError(
            f"max_grad_norm={arguments.max_grad_norm} would clip nothing, as clipping is that of the plan; leave it "
            "out, and say clip_norm= there"
        )
    if arguments.gradient_accumulation_steps != 1:
        raise InputError(
            f"gradient_accumulation_steps={arguments.gradient_accumulation_steps} would be ignored, as batches are "
            "those of the plan; leave it out, say batch= there, and how many rows go through the model at a time in "
            "options={'engine': EngineOptions(physical_batch=...)}"
        )
    if arguments.fp16:
        raise InputError("gradients vanish in float16 without scaling; use bf16=True")
    if arguments.load_best_model_at_end:
        raise InputError(
            "load_best_model_at_end has no checkpoints to choose from; leave it out, and say which model is kept: "
            'early=discreet.training.EarlyStopping("loss", patience=None)'
        )
    for name, instead in (
        ("neftune_noise_alpha", "no noise is added to embeddings here; leave it out"),
        ("eval_on_start", "the first evaluation is after a step; leave it out, and call evaluate() before train()"),
        ("eval_delay", "evaluations begin with the first interval; leave it out"),
    ):
        if getattr(arguments, name, None):
            raise InputError(f"{name} would be ignored: {instead}")
    if given.get("compute_loss_func") is not None:
        raise InputError(f"compute_loss_func would never be called in a private run: {_LOSS}")
