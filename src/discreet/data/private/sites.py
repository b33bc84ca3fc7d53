"""Rows that lie at several sites, each read by one process alone: a file of a machine, a table of a hospital."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, TensorDataset

from discreet.core import checks
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.private.gathering import gathers, is_pair, reading_of
from discreet.data.private.groups import Groups, group, identifiers_of


@dataclass(frozen=True, slots=True)
class Sites:
    """The rows of the sites that this process holds, for `Training(shard=...)` (docs/distributed.md).

    - `rows`: the rows of each of these sites, by its number from 0 to `of` - 1; each as `Training` takes them. Every
      site is held by one process of the run.
    - `of`: how many sites there are, over all processes. It is public, and a run keeps it.

    `Training` then takes `units` and `ids` in the same way, by the numbers of the sites.

    A unit lies at one site, with all of its rows: nobody compares the rows of two sites, so a unit at two of them would
    be protected as two units.
    """

    rows: Mapping[int, object]
    of: int

    @property
    def held(self) -> tuple[object, ...]:
        """The rows of each site that this process holds."""
        return tuple(self.rows.values())

    def checked(self) -> list[int]:
        """The numbers of the sites that this process holds, in order. `InputError` if one is no number of a site."""
        count = checks.count("of, the number of sites,", self.of)
        if not isinstance(self.rows, Mapping):
            raise InputError("rows must be named by their sites: Sites({number of the site: rows}, of=...)")
        numbers = [checks.count("the number of a site", one, least=0) for one in self.rows]
        if any(one >= count for one in numbers):
            raise InputError(f"site {max(numbers)}: of {count} sites the last is {count - 1}; they are counted from 0")
        return sorted(numbers)


@dataclass(frozen=True, slots=True)
class HeldSites:
    """Which units of a data set lie at which site: those of site numbers[i] are starts[i] .. starts[i + 1] - 1.

    `of`: how many sites there are, those of other processes included.
    """

    of: int
    numbers: tuple[int, ...]
    starts: tuple[int, ...]

    @classmethod
    def with_sizes(cls, of: int, sizes: Mapping[int, int]) -> HeldSites:
        """Sites with so many units each, in the order of their numbers."""
        return cls(of, tuple(sizes), tuple(accumulate(sizes.values(), initial=0)))

    @property
    def ranges(self) -> dict[int, range]:
        """The units of each site."""
        return {number: range(*ends) for number, ends in zip(self.numbers, pairwise(self.starts), strict=True)}

    def only(self, units: IntArray) -> HeldSites:
        """The sites of these units alone, which are in ascending order and counted anew from 0."""
        return HeldSites(self.of, self.numbers, tuple(np.searchsorted(units, self.starts).tolist()))

    def named(self, identifiers: object) -> dict[int, list[int | str]]:
        """The identifiers of the rows of each site, from those given by its number; errors as in `identifiers_of`."""
        if not isinstance(identifiers, Mapping) or set(identifiers) != set(self.numbers):
            raise InputError(
                "units and ids must be given site by site, {number of the site: identifiers of its rows}, for exactly "
                "the sites that this process holds"
            )
        return {number: identifiers_of(identifiers[number], len(rows)) for number, rows in self.ranges.items()}

    def grouped(self, identifiers: object) -> tuple[Groups, HeldSites]:
        """The units, and where they are, if the rows of one site with the same identifier are a unit.

        `identifiers`: those of the rows of each site, by its number. `InputError` as in `group`, and for an identifier
        that occurs at two of these sites.
        """
        names, ranges = self.named(identifiers), self.ranges
        found = {number: group(names[number], len(rows)) for number, rows in ranges.items()}
        users = {number: set(names[number]) for number in self.numbers}
        for one, other in combinations(self.numbers, 2):
            if users[one] & users[other]:
                raise InputError(
                    f"a user has rows at site {one} and at site {other}; put all rows of a user at one site, or, where "
                    "sites give names of their own, let no two give the same one"
                )
        order = np.concatenate([found[number].order + rows.start for number, rows in ranges.items()])
        ends = [found[number].starts[1:] + rows.start for number, rows in ranges.items()]
        groups = Groups(order, np.concatenate([np.zeros(1, np.int64), *ends]))
        return groups, HeldSites.with_sizes(self.of, {number: len(one) for number, one in found.items()})


class Gathered(Dataset[Any]):
    """The data sets of several sites, `sets`, one after the other; each is `Gathering`."""

    def __init__(self, sets: list[Any]) -> None:
        self.sets, self._ends = sets, np.cumsum([len(one) for one in sets])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def gather(self, indices: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these rows."""
        owner = np.searchsorted(self._ends, indices, side="right")
        pairs, places = [], []
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            start = self._ends[number] - len(self.sets[number])
            pairs.append(self.sets[number].gather(indices[mine] - start))
            places.append(mine)
        back = torch.from_numpy(np.argsort(np.concatenate(places), kind="stable"))
        inputs, targets = (together(list(parts))[back] for parts in zip(*pairs, strict=True))
        return inputs, targets

    def taken(self, chosen: IntArray) -> Dataset[Any]:
        """A data set of these rows, in ascending order."""
        cuts = np.searchsorted(chosen, [0, *self._ends])
        starts = [0, *self._ends]
        parts = enumerate(pairwise(cuts.tolist()))
        return Gathered([self.sets[i].taken(chosen[first:last] - starts[i]) for i, (first, last) in parts])


def joined(sets: Mapping[int, Dataset[Any]]) -> Dataset[Any]:
    """The rows of several sites, one after the other. `InputError` unless all of them give their rows in the same way.

    Rows lie in memory in the same way whatever other sites there are: a model may round by that.
    """
    every, kinds = [*sets.values()], {number: reading_of(one) for number, one in sets.items()}
    if len(set(kinds.values())) > 1:
        said = ", ".join(f"site {number} {kind}" for number, kind in kinds.items())
        raise InputError(f"the sites give their rows in different ways ({said}); give the rows of all in one form")
    pairs = [one.tensors for one in every if is_pair(one)]
    if pairs:
        return TensorDataset(*(together(list(parts)) for parts in zip(*pairs, strict=True)))
    return Gathered(every) if gathers(every[0]) else ConcatDataset(every)


def together(parts: list[Tensor]) -> Tensor:
    """Rows of several sites in one tensor; `InputError` unless they have one type and shape, as torch would convert."""
    if len({(part.dtype, part.shape[1:]) for part in parts}) > 1:
        kinds = ", ".join(f"{part.dtype} of shape {tuple(part.shape[1:])}" for part in parts)
        raise InputError(f"the sites have rows of different types or shapes ({kinds}); convert them to one")
    return torch.cat(parts).contiguous()
