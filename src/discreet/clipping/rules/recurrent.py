"""Recurrent networks, whose weights are used at every time step inside one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_map_only

from discreet.clipping.rules.base import refuse, rule
from discreet.clipping.rules.vectorised import Vectorised


@rule(nn.RNN, nn.LSTM, nn.GRU)
class RecurrentRule(Vectorised):
    """The module alone, example by example. States have the examples along axis 1."""

    names = ()

    @classmethod
    def axis(cls, module: nn.Module) -> int:
        assert isinstance(module, nn.RNNBase)
        return 0 if module.batch_first else 1

    def arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        sequence, *state = (*args, *kwargs.values())
        if isinstance(sequence, PackedSequence):
            raise refuse(self.module, "got a PackedSequence, which has no axis of examples; give padded sequences")
        state = tree_map_only(Tensor, lambda tensor: tensor.transpose(0, 1), state)
        return (sequence.transpose(0, self.axis(self.module)), *state), {}

    def arrange_gradient(self, number: int, gradient: Tensor) -> Tensor:
        return gradient.transpose(0, self.axis(self.module) if number == 0 else 1)

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        at = self.axis(self.module)
        sequence, *state = args
        state = tree_map_only(Tensor, lambda tensor: tensor.unsqueeze(1), state)
        output, states = function(sequence.unsqueeze(at), *state)
        return output.squeeze(at), tree_map_only(Tensor, lambda tensor: tensor.squeeze(1), states)
