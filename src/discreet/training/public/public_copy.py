"""Copies of model and loss that never see a private row; everything published comes from them.

A module may remember private rows (an attribute, a cache, a buffer), and figures computed on public rows would then
reveal them. So a run has two models: the trained one sees private rows, and the copy sees everything else. They share
their parameters, which only releases change, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from discreet.clipping import Criterion
from discreet.clipping.digests import check_unchanged
from discreet.clipping.separation.copies import copied

Declared = tuple[Mapping[str, str], Mapping[str, str]]
"""Digests by name: of published tensors, and of buffers that are not published."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicCopy:
    """A model and a loss as they were when this was made, with the parameters that the model has now.

    `copy.deepcopy` leaves some state shared: class attributes, global variables, closures, targets of weak references,
    function caches, and objects that return themselves as copies.
    """

    model: nn.Module
    criterion: Criterion
    _live: nn.Module
    _declared: Declared

    @classmethod
    def made(cls, model: nn.Module, criterion: Criterion, declared: Declared) -> PublicCopy:
        """The copies; call this before a private row is seen. `declared`: digests of the model's present state.

        `InputError` if model or loss cannot be copied.
        """
        return cls(*copied(model, criterion), model, declared)

    def checked(self) -> PublicCopy:
        """This object; `PrivacyViolation` if shared state that no release changes differs from its declaration."""
        check_unchanged(self._live, *self._declared)
        return self

    def follow(self) -> nn.Module:
        """The copy, with the parameters that the model has now, also if it was moved to another device."""
        live = dict(self._live.named_parameters())
        for name, parameter in self.model.named_parameters():
            parameter.data = live[name].data
        device = next(iter(live.values())).device
        for buffer in self.model.buffers():
            buffer.data = buffer.data.to(device)
        return self.model
