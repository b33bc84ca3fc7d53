"""Recurrent networks: linear maps at every time step; running the network again gives their inputs and gradients.

The gates of a step are activations of x W_ih' + b_ih and h W_hh' + b_hh. The recurrence runs again step by step, and
one backward pass gives the gradients of both maps. Then both are linear layers whose positions are the time steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from discreet.clipping.rules import base
from discreet.clipping.rules.base import refuse, rule
from discreet.clipping.rules.inner_linear import LinearParts, Part, examples_first
from discreet.clipping.rules.linear import LinearRule
from discreet.clipping.rules.numbers import wide

_KEPT_PER_GATE = 6
"""Numbers that a step keeps until its backward pass, for each input of a gate (a safe upper estimate)."""


@dataclass(slots=True)
class _Weights:
    """The weights of one layer in one direction, detached; `tail` ends the names of its parameters."""

    tail: str
    inner: Tensor
    outer: Tensor
    bias: Tensor | None
    outer_bias: Tensor | None
    projection: Tensor | None


@dataclass(slots=True)
class _Trace:
    """Inputs and outputs of the linear maps of one layer in one direction, by time step, within the graph.

    `before`: the states at the start of the steps. `outer`: h W_hh' + b_hh, if its gradient differs from that of
    `inner`. `unprojected`, `states`: the states before and after their projection, if there is one.
    """

    weights: _Weights
    inputs: Tensor
    inner: Tensor
    before: list[Tensor]
    outer: list[Tensor]
    unprojected: list[Tensor]
    states: list[Tensor]

    @property
    def wanted(self) -> list[Tensor]:
        """The tensors whose gradients are needed."""
        return [self.inner, *self.outer, *(self.states if self.unprojected else ())]


class _Recurrent(LinearParts):
    """Base of the rules for modules and cells. Inside, time is axis 0 and the examples are axis 1."""

    names = ()
    replays = True

    def __init__(
        self,
        module: nn.Module,
        trained: tuple[str, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        gradients: tuple[Tensor | None, ...],
    ) -> None:
        self.module, self.trained = module, trained
        self.given = args[0] if args else kwargs["input"]
        state = args[1] if len(args) > 1 else kwargs.get("hx")
        self.states = [wide(part) for part in tree_leaves(state) if isinstance(part, Tensor)]
        self.gradients = [None if gradient is None else wide(gradient) for gradient in gradients]

    @classmethod
    def covers(cls, module: nn.Module) -> bool:
        """Not covered: weights that are shared inside the module, or computed from others."""
        names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
        plain = len(names) == len(list(module.parameters())) and not list(module.children())
        return plain and all(name.startswith(("weight_", "bias_")) for name in names)

    def weights(self, tail: str) -> _Weights:
        """The parameters whose names end in `tail`."""
        held = dict(self.module.named_parameters())

        def get(name: str) -> Tensor | None:
            return wide(held[name + tail]) if name + tail in held else None

        inner, outer = get("weight_ih"), get("weight_hh")
        assert inner is not None
        assert outer is not None
        return _Weights(tail, inner, outer, get("bias_ih"), get("bias_hh"), get("weight_hr"))

    def parts_of(self, traces: list[_Trace], grads: dict[int, Tensor | None]) -> dict[str, tuple[Tensor, Tensor]]:
        """By the name of a weight: the input of its linear map, and the gradient of the map's output, both of shape
        (batch, time, features). `grads`: gradients by the id of their tensor."""

        def pulled(steps: list[Tensor]) -> Tensor:
            found = [(step, grads[id(step)]) for step in steps]
            return torch.stack([torch.zeros_like(step) if grad is None else grad for step, grad in found])

        parts: dict[str, tuple[Tensor, Tensor]] = {}
        for trace in traces:
            inner = pulled([trace.inner])[0]
            outer = pulled(trace.outer) if trace.outer else inner
            tail = trace.weights.tail
            parts[f"weight_ih{tail}"] = examples_first(trace.inputs), examples_first(inner)
            parts[f"weight_hh{tail}"] = examples_first(torch.stack(trace.before)), examples_first(outer)
            if trace.unprojected:
                pair = torch.stack(trace.unprojected), pulled(trace.states)
                parts[f"weight_hr{tail}"] = examples_first(pair[0]), examples_first(pair[1])
        return parts

    def as_maps(self, parts: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Part]:
        """The linear map of each weight and bias, by name."""
        found: dict[str, Part] = {}
        for name, (given, gradient) in parts.items():
            one = LinearRule.of(self.module, given, gradient)
            found[name] = one, "weight"
            found[name.replace("weight", "bias")] = one, "bias"
        return found

    def step(self, weights: _Weights, x: Tensor, h: Tensor, c: Tensor, trace: _Trace) -> tuple[Tensor, Tensor]:
        """The states after one time step, from its row `x` of `trace.inner`."""
        trace.before.append(h)
        if isinstance(self.module, nn.GRU | nn.GRUCell):
            outer = _tracked(F.linear(h, weights.outer, weights.outer_bias))
            trace.outer.append(outer)
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), outer.chunk(3, 1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            return n + z * (h - n), c
        gates = torch.addmm(x, h, weights.outer.T)
        if not isinstance(self.module, nn.LSTM | nn.LSTMCell):
            return (torch.relu(gates) if self.module.nonlinearity == "relu" else torch.tanh(gates)), c
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        if weights.projection is not None:
            trace.unprojected.append(h)
            h = h @ weights.projection.T
            trace.states.append(h)
        return h, c

    def begin(self, weights: _Weights, inputs: Tensor) -> _Trace:
        """The trace with the input map, x W_ih' + b_ih, computed for all time steps at once."""
        added = isinstance(self.module, nn.GRU | nn.GRUCell) or weights.bias is None or weights.outer_bias is None
        bias = weights.bias if added else weights.bias + weights.outer_bias  # type: ignore[operator]
        return _Trace(weights, inputs, _tracked(F.linear(inputs, weights.inner, bias)), [], [], [], [])


def _backward(traces: list[_Trace], outputs: list[tuple[Tensor, Tensor | None]]) -> dict[int, Tensor | None]:
    """The gradients of all `wanted` tensors, by id; `outputs`: pairs (output, gradient of output)."""
    wanted = [tensor for trace in traces for tensor in trace.wanted]
    pairs = [(output, gradient) for output, gradient in outputs if gradient is not None]
    found = torch.autograd.grad([one for one, _ in pairs], wanted, [two for _, two in pairs], allow_unused=True)
    return {id(tensor): gradient for tensor, gradient in zip(wanted, found, strict=True)}


@rule(nn.RNN, nn.LSTM, nn.GRU)
class RecurrentRule(_Recurrent):
    """Any number of layers, both directions, projections, with or without given states. Dropout between layers is
    replayed on CPUs, and refused elsewhere."""

    @classmethod
    def axis(cls, module: nn.Module) -> int:
        assert isinstance(module, nn.RNNBase)
        return 0 if module.batch_first else 1

    def find(self) -> dict[str, Part]:
        module = self.module
        assert isinstance(module, nn.RNNBase)
        if self.given.dim() != 3:
            raise refuse(module, "got a sequence without an axis of examples")
        first, *rest = self.gradients
        sequence, outer = self._time_first(wide(self.given)), None if first is None else self._time_first(first)
        masks = self._dropped(sequence)
        directions = 2 if module.bidirectional else 1
        tails = [f"_l{layer}{end}" for layer in range(module.num_layers) for end in ("", "_reverse")[:directions]]
        weights = [self.weights(tail) for tail in tails]
        numbers = len(sequence) * sum(one.inner.shape[0] for one in weights) * _KEPT_PER_GATE
        size = base.room_for(numbers * sequence.element_size())
        blocks: list[dict[str, tuple[Tensor, Tensor]]] = []
        for start in range(0, sequence.shape[1], size):
            piece = slice(start, start + size)
            cut = [None if x is None else x[:, piece] for x in (sequence, outer, *rest)]
            with torch.enable_grad():
                blocks.append(self._run(weights, cut, [m[:, piece] for m in masks], [s[:, piece] for s in self.states]))
        return self.as_maps({name: _joined([block[name] for block in blocks]) for name in blocks[0]})

    def _run(
        self, weights: list[_Weights], given: list[Tensor | None], masks: list[Tensor], states: list[Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Run a block of examples again, for `parts_of`. `given`: the sequence, and the gradients of all outputs."""
        x, outer, *last = given
        assert x is not None
        directions = 2 if getattr(self.module, "bidirectional", False) else 1
        traces: list[_Trace] = []
        ends: list[tuple[Tensor, Tensor]] = []
        for first in range(0, len(weights), directions):
            found = []
            for number in range(first, first + directions):
                begun = [state[number] for state in states]
                steps, end, trace = self._one_way(weights[number], x, begun, backwards=number > first)
                found.append(steps)
                ends.append(end)
                traces.append(trace)
            x = torch.cat(found, 2)
            if masks and len(traces) < len(weights):
                x = x * masks[first // directions]
        outputs = [(x, outer)]
        for place, gradient in enumerate(last):
            outputs.append((torch.stack([end[place] for end in ends]), gradient))
        return self.parts_of(traces, _backward(traces, outputs))

    def _one_way(
        self, weights: _Weights, x: Tensor, begun: list[Tensor], *, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor], _Trace]:
        """One layer in one direction: its states at all time steps, its final states, and its trace."""
        h = begun[0] if begun else x.new_zeros(x.shape[1], weights.outer.shape[1])
        c = begun[1] if len(begun) > 1 else x.new_zeros(x.shape[1], weights.outer.shape[0] // 4)
        trace = self.begin(weights, x)
        rows, steps = trace.inner.unbind(0), []
        for t in range(len(rows) - 1, -1, -1) if backwards else range(len(rows)):
            h, c = self.step(weights, rows[t], h, c, trace)
            steps.append(h)
        if backwards:  # back into the order of time
            for part in (steps, trace.before, trace.outer, trace.unprojected, trace.states):
                part.reverse()
        return torch.stack(steps), (h, c), trace

    def _time_first(self, tensor: Tensor) -> Tensor:
        return tensor.transpose(0, 1 - self.axis(self.module))

    def _dropped(self, sequence: Tensor) -> list[Tensor]:
        """The dropout masks of all layers but the last, drawn again from the same random numbers."""
        module = self.module
        assert isinstance(module, nn.RNNBase)
        if not (module.dropout and module.training and module.num_layers > 1):
            return []
        if sequence.device.type != "cpu" or self.generator is None:
            raise refuse(module, "with dropout between its layers draws its own random numbers; put nn.Dropout between")
        width = (module.proj_size or module.hidden_size) * (2 if module.bidirectional else 1)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.generator)
            ones = sequence.new_ones(*sequence.shape[:2], width)
            return [F.dropout(ones, module.dropout) for _ in range(module.num_layers - 1)]


@rule(nn.RNNCell, nn.LSTMCell, nn.GRUCell)
class CellRule(_Recurrent):
    """One time step. If a cell is called at several steps, its calls are measured together."""

    def find(self) -> dict[str, Part]:
        x, weights = wide(self.given).unsqueeze(0), self.weights("")
        if x.dim() != 3:
            raise refuse(self.module, "got a row without an axis of examples")
        h = self.states[0] if self.states else x.new_zeros(x.shape[1], weights.outer.shape[1])
        c = self.states[1] if len(self.states) > 1 else torch.zeros_like(h)
        with torch.enable_grad():
            trace = self.begin(weights, x)
            ends = self.step(weights, trace.inner[0], h, c, trace)
            grads = _backward([trace], list(zip(ends, self.gradients, strict=False)))
        return self.as_maps(self.parts_of([trace], grads))


def _tracked(tensor: Tensor) -> Tensor:
    """The tensor, with `requires_grad` set."""
    return tensor if tensor.requires_grad else tensor.requires_grad_()


def _joined(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The blocks, concatenated along the axis of the examples."""
    if len(pairs) == 1:
        return pairs[0]
    return torch.cat([a for a, _ in pairs]), torch.cat([g for _, g in pairs])
