"""Multi-head attention, which uses its projections without calling the modules that hold them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from discreet.clipping.rules.base import rule
from discreet.clipping.rules.vectorised import Vectorised

_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


@rule(nn.MultiheadAttention)
class AttentionRule(Vectorised):
    """The module alone, example by example. Its mask is for all examples (two axes) or for each head of each."""

    @classmethod
    def axis(cls, module: nn.Module) -> int:
        assert isinstance(module, nn.MultiheadAttention)
        return 0 if module.batch_first else 1

    def arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        module: Any = self.module
        named = dict(_SIGNATURE.bind(module, *args, **kwargs).arguments)
        del named["self"]
        if not module.batch_first:
            for key in ("query", "key", "value"):
                named[key] = named[key].transpose(0, 1)
        mask = named.get("attn_mask")
        if mask is not None and mask.dim() == 3:
            named["attn_mask"] = mask.unflatten(0, (-1, module.num_heads))
        self._mask = named.pop("attn_mask") if mask is not None and mask.dim() == 2 else None
        return (), named

    def arrange_gradient(self, number: int, gradient: Tensor) -> Tensor:
        module: Any = self.module
        return gradient if number == 1 or module.batch_first else gradient.transpose(0, 1)

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module: Any = self.module
        at = 0 if module.batch_first else 1
        for key in ("query", "key", "value"):
            kwargs[key] = kwargs[key].unsqueeze(at)
        if kwargs.get("key_padding_mask") is not None:
            kwargs["key_padding_mask"] = kwargs["key_padding_mask"].unsqueeze(0)
        output, weights = function(**kwargs | ({} if self._mask is None else {"attn_mask": self._mask}))
        return output.squeeze(at), None if weights is None else weights.squeeze(0)
