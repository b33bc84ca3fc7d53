"""Per-layer clipping: the parameters of each module together, to one norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from discreet.plan.clip_rules.base import ClipNorm
from discreet.plan.clip_rules.grouped import Parted


class PerLayerClipping(Parted):
    """The parameters of each module that owns some are scaled down together to L2 norm at most `norm`."""

    GRADIENT = "is scaled down module by module, to length at most {sensitivity} in all"
    SHORT_FOR = "norm"
    kind: Literal["per_layer"] = "per_layer"
    norm: ClipNorm

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """For each module its norm and the names of its parameters."""
        found: dict[str, tuple[float, list[str]]] = {}
        for name in names:
            found.setdefault(name.rpartition(".")[0], (self.norm, []))[1].append(name)
        return found
