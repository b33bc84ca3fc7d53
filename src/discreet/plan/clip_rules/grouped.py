"""Group clipping: each group of parameters to its own norm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field

from discreet.core.errors import InputError
from discreet.plan.clip_rules.base import ClipNorm, ClipRule


class Parted(ClipRule):
    """Clip rules for separate groups of parameters. The sensitivity is the root of the sum of the squared norms."""

    UNCHANGING = True
    UNIT = "{sensitivity}"
    CELL = "{sensitivity} in all, {count} groups"

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        groups = self.groups(list(sizes))
        named = {key: {"norm": norm, "parameters": names} for key, (norm, names) in groups.items()}
        return {"groups": named, "sensitivity": math.hypot(*(norm for norm, _ in groups.values()))}

    def figures(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        return {"sensitivity": stated["sensitivity"], "count": len(stated["groups"])}


class GroupClipping(Parted):
    """Each group of parameters is scaled down to its own L2 norm. `norms` is by pattern: `{"0.*": 1.0, "2.*": 0.5}`.

    `*` in a pattern stands for anything, dots too. Every parameter must be in exactly one group.
    """

    GRADIENT = "is scaled down in groups of parameters, to length at most {sensitivity} in all"
    SHORT_FOR = "norms"
    kind: Literal["groups"] = "groups"
    norms: Annotated[dict[str, ClipNorm], Field(min_length=1)]

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.norms.items())))

    def groups(self, names: Sequence[str]) -> dict[str, tuple[float, list[str]]]:
        """For each pattern its norm and its parameters' names. `InputError` unless every parameter is in exactly one
        group."""
        for name in names:
            inside = [pattern for pattern in self.norms if fnmatchcase(name, pattern)]
            if len(inside) != 1:
                where = f"in {len(inside)} groups ({', '.join(inside)})" if inside else "in no group"
                raise InputError(f"clipping: parameter {name!r} is {where}; every parameter must be in exactly one")
        found = {
            pattern: (norm, [name for name in names if fnmatchcase(name, pattern)])
            for pattern, norm in self.norms.items()
        }
        for pattern, (_, inside) in found.items():
            if not inside:
                raise InputError(f"clipping: no parameter is in the group {pattern!r}; it would only add noise")
        return found
