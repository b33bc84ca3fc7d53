"""Replacing batch normalisation by group normalisation, on request."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from discreet.core import checks
from discreet.core.errors import UnsupportedModel


class Replaced(dict[str, nn.GroupNorm]):
    """New modules by name. Whoever takes them for the model, which was changed in place, is told so."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"replace_batch_norm returns the new modules by name, which have no {name!r}, and changes the model in "
            "place: write replace_batch_norm(model), and go on with model",
            name=name,
        )


def replace_batch_norm(model: nn.Module, most_groups: int = 32) -> dict[str, nn.GroupNorm]:
    """Replace every BatchNorm inside `model`, in place, by a GroupNorm; return the new modules by name.

    A GroupNorm normalises within one example (Wu and He 2018, "Group normalization"), so it can be trained privately.
    It keeps scale, shift, device, type and whether they are trained. Running statistics are dropped, so a model that
    was trained with BatchNorm needs training again. Build the optimizer afterwards.

    The number of groups is the largest divisor of the channels that is at most `most_groups` and leaves at least two
    channels in a group. BatchNorm1d gets one group, because its input may have no positions for statistics.

    `UnsupportedModel` if the model itself is a BatchNorm, or if a BatchNorm is lazy. `InputError` if `most_groups` is
    not a whole number of at least 1.
    """
    checks.count("most_groups", most_groups)
    if isinstance(model, _BatchNorm):
        raise UnsupportedModel(
            "the model itself is a BatchNorm, so it cannot be replaced inside; use torch.nn.GroupNorm"
        )
    made: dict[_BatchNorm, nn.GroupNorm] = {}
    replaced = Replaced()
    for path, parent in list(model.named_modules(remove_duplicate=False)):
        for child, module in list(parent.named_children()):
            if isinstance(module, _BatchNorm):
                name = f"{path}.{child}" if path else child
                if module not in made:
                    made[module] = _group_norm(name, module, most_groups)
                replaced[name] = made[module]
                setattr(parent, child, made[module])
    return replaced


def groups_for(module: _BatchNorm, most_groups: int = 32) -> int:
    """The number of groups of the GroupNorm that replaces `module`."""
    channels = module.num_features
    if isinstance(module, nn.BatchNorm1d):
        return 1
    limit = max(1, min(most_groups, channels // 2))
    return next(groups for groups in range(limit, 0, -1) if channels % groups == 0)


def _group_norm(name: str, module: _BatchNorm, most_groups: int) -> nn.GroupNorm:
    if not module.num_features:
        raise UnsupportedModel(
            f"module {name!r} ({type(module).__name__}) is lazy; run the model on public input first"
        )
    new = nn.GroupNorm(groups_for(module, most_groups), module.num_features, module.eps, module.affine)
    if module.affine:
        with torch.no_grad():
            new.weight = nn.Parameter(module.weight.detach().clone(), module.weight.requires_grad)
            new.bias = nn.Parameter(module.bias.detach().clone(), module.bias.requires_grad)
    return new.train(module.training)
