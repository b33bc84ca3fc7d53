"""Model and loss for whatever is published: copies that no private row is ever run through.

What a module remembers of private rows (an attribute, a cache, a buffer) would leave with figures that are computed on
public rows. So a run has two models: the one that is trained sees private rows, the copy everything else. They have
their parameters in common, which releases alone change, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from discreet.clipping import Criterion
from discreet.clipping.digests import check_unchanged
from discreet.clipping.separation.copies import copied

Declared = tuple[Mapping[str, str], Mapping[str, str]]
"""Digests by name of what is published, and of buffers that are not."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicCopy:
    """A model and a loss as they were when this was made, with the parameters that the model has now.

    What `copy.deepcopy` does not copy is shared all the same: attributes of classes, global variables, closures, what
    weak references and caches of functions name, objects that copy themselves as themselves.
    """

    model: nn.Module
    criterion: Criterion
    _live: nn.Module
    _declared: Declared

    @classmethod
    def made(cls, model: nn.Module, criterion: Criterion, declared: Declared) -> PublicCopy:
        """To be called before a private row is seen. `declared`: digests of the state of the model, as it is then.

        `InputError` for what cannot be copied.
        """
        return cls(*copied(model, criterion), model, declared)

    def checked(self) -> PublicCopy:
        """This; `PrivacyViolation` if what the two models share, and no release changes, is not as it was declared."""
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
