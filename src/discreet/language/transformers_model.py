"""`TransformersModel`: a model of `transformers`, which takes named inputs, on rows that are one tensor each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from discreet.certificate.adapter_files import BASE
from discreet.core.errors import UnsupportedModel
from discreet.language.adapter_state import kept_state, restore_state
from discreet.language.conv1d_rule import register_conv1d
from discreet.language.random_tokens import random_tokens
from discreet.language.row_masks import masks_for_all
from discreet.language.tasks import Task, base_of, task_named
from discreet.language.transformers_rows import Layout

_OWN_POSITIONS = ("create_position_ids_from_input_ids", "position_ids_from_input_ids")
"""Methods of models that number the tokens of each row themselves, without its padding (RoBERTa)."""


class TransformersModel(nn.Module):
    """`inner`, a model of `transformers` (with adapters of `peft` or without), on rows of `TransformersRows`: the
    scores that the loss of the task takes.

    Rows lie along axis 0, and the scores of a row depend on it alone: attention masks are made for every batch, and
    positions are given for each row where `inner` takes them. By itself it would look positions up once for all rows.

    With adapters of `peft` the state of the model is that of the adapters, and a hash of the weights below them
    (`adapter_state`): these are declared, and neither checkpoints nor published folders hold them.
    """

    def __init__(self, inner: nn.Module, task: str | Task, layout: Layout | None = None) -> None:
        super().__init__()
        register_conv1d()
        self.inner, self.task = inner, task_named(task)
        self.layout = layout or Layout(self.task.columns)
        base = base_of(inner)  # peft hides the signature
        self.adapters = base is not inner
        refuse_batch_losses(base)
        takes = inspect.signature(base.forward).parameters
        alone = any(hasattr(module, name) for module in base.modules() for name in _OWN_POSITIONS)
        self._positions = "position_ids" in takes and not alone and "position_ids" not in self.layout.columns
        self._fixed = {"use_cache": False} if "use_cache" in takes else {}

    def forward(self, rows: Tensor) -> Tensor:
        named = self.layout.apart(rows)
        tokens = named.get("input_ids")
        if self._positions and tokens is not None:
            named["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        with masks_for_all():
            logits: Tensor = self.inner(**named, **self._fixed, return_dict=True).logits
        return self.task.scores(logits)

    def rows_to_try(self, example: Tensor, count: int, generator: torch.Generator) -> Tensor | None:
        """Random rows to try the model on before a run, of the shape of `example`, a row with axis 0; None where rows
        are no tokens."""
        shape = count, *example.shape[1:]
        wanted = (2,) if len(self.layout.columns) == 1 else (3, len(self.layout.columns))
        if example.dtype.is_floating_point or example.dtype == torch.bool or (len(shape), *shape[1:-1]) != wanted:
            return None
        made = random_tokens(self.inner, self.layout, shape, generator)
        return None if made is None else made.clamp(max=torch.iinfo(example.dtype).max)

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The tensors of the model by name; with adapters, theirs and a hash of all others."""
        if not self.adapters:
            return super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        found: Any = {} if destination is None else destination
        for name, tensor in kept_state(self.inner).items():
            found[prefix + (name if name == BASE else f"inner.{name}")] = tensor if keep_vars else tensor.detach()
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Put back what `state_dict` gave. With adapters, `InputError` if the weights below them are other ones."""
        if not self.adapters:
            return super().load_state_dict(state_dict, strict, assign)
        restore_state(self.inner, {name.removeprefix("inner."): tensor for name, tensor in state_dict.items()})
        return None


def refuse_batch_losses(base: Any) -> None:
    """Refuse a model whose own loss has a term of the whole batch, which a loss of single rows cannot have."""
    if getattr(getattr(base, "config", None), "output_router_logits", False):
        raise UnsupportedModel(
            "the model adds a loss that balances the load of its experts over the whole batch, so the gradient of a "
            "row would depend on the others; set model.config.output_router_logits = False to train without it"
        )
