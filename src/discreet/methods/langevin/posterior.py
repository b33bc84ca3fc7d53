"""Iterates kept for averaged predictions. That is post-processing of releases and costs no privacy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.methods.several import Several

_AT_ONCE = 1024
_KEY = "posterior"


class Posterior:
    """Up to `most` iterates of a run, and the mean of their predictions (Welling and Teh 2011, section 3).

    Every `every`-th iterate after the first `start` is kept. When there are more than `most`: with `thin`, every second
    one is dropped and `every` doubles, so that they always cover the whole run evenly; without `thin`, the oldest is
    dropped (a ring). Memory: at most `most` + 1 copies of the trained parameters.

        posterior = Posterior(model, start=20).follow(optimizer)
        trained = Training(plan, model, criterion, optimizer, data).run()
        probabilities = posterior.predict(inputs)

    `follow` records every step of the optimizer, and keeps the iterates in its state, hence in checkpoints. Otherwise
    call `update` after each step.
    """

    def __init__(self, model: nn.Module, most: int = 32, every: int = 1, start: int = 0, thin: bool = True) -> None:
        self._most, self._stride = checks.count("most", most), checks.count("every", every)
        self._start = checks.count("start", start, least=0)
        self._thin, self._seen = thin, 0
        self._kept: list[tuple[int, dict[str, Tensor]]] = []
        self._model, self._shown = model, copy.deepcopy(model).eval()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def kept(self) -> list[int]:
        """Numbers of the kept iterates, counted from 1 after the first `start`."""
        return [count for count, _ in self._kept]

    def follow(self, optimizer: torch.optim.Optimizer) -> Posterior:
        """Record the iterate after every step of this optimizer, whose state then holds the iterates as well."""
        last = optimizer.optimizers[-1] if isinstance(optimizer, Several) else optimizer
        last.register_step_post_hook(lambda *_: self.update())
        last.register_state_dict_post_hook(lambda _, state: state | {_KEY: self.state_dict()})
        last.register_load_state_dict_pre_hook(lambda _, state: self._load_from(state))
        return self

    @torch.no_grad()
    def update(self) -> None:
        """Record the model's present iterate."""
        self._seen += 1
        count = self._seen - self._start
        if count < 1 or count % self._stride:
            return
        iterate = {name: p.detach().clone() for name, p in self._model.named_parameters() if p.requires_grad}
        self._kept.append((count, iterate))
        if len(self._kept) > self._most:
            self._make_room()

    @torch.no_grad()
    def predict(
        self, inputs: Tensor, link: Callable[[Tensor], Tensor] = lambda output: torch.softmax(output, -1)
    ) -> Tensor:
        """The mean over the kept iterates of `link(model(inputs))`, by default class probabilities; one row an input.

        In evaluation mode, with the buffers that the model had when this object was made. `InputError` if none is kept.
        """
        if not self._kept:
            raise InputError("no iterate is kept: take steps first, or give a smaller start or every")
        total: Tensor | float = 0.0
        for _, iterate in self._kept:
            rows = [link(functional_call(self._shown, iterate, (part,))) for part in torch.split(inputs, _AT_ONCE)]
            total = total + torch.cat(rows)
        assert isinstance(total, Tensor)
        return total / len(self._kept)

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` needs to go on."""
        return {"seen": self._seen, "stride": self._stride, "kept": list(self._kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; a `ValueError` if it is of another model."""
        shapes = {name: p.shape for name, p in self._model.named_parameters() if p.requires_grad}
        kept = [(count, dict(iterate)) for count, iterate in state["kept"]]
        for _, iterate in kept:
            if {name: tensor.shape for name, tensor in iterate.items()} != shapes:
                raise ValueError("the kept iterates are of a model with other parameters")
        self._seen, self._stride, self._kept = state["seen"], state["stride"], kept

    def _make_room(self) -> None:
        if not self._thin:
            del self._kept[0]
            return
        self._stride *= 2
        self._kept = [(count, iterate) for count, iterate in self._kept if count % self._stride == 0]

    def _load_from(self, state: dict[str, Any]) -> dict[str, Any]:
        if _KEY not in state:
            raise ValueError("the state was saved without the kept iterates of a Posterior")
        self.load_state_dict(state[_KEY])
        return {name: value for name, value in state.items() if name != _KEY}
