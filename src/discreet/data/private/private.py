"""A private data set with the one operation that training needs: fetch these examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.private import several_inputs
from discreet.data.private.augmented import Augmented, Transform
from discreet.data.private.gathering import gathers, is_pair, reading_of
from discreet.data.private.groups import Groups, group
from discreet.data.private.pairs import Frame, paired
from discreet.data.private.sites import HeldSites, Sites, joined
from discreet.randomness.host_generators import HostGenerators

_CHECKED_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class PrivateData:
    """A map-style data set of (input, target) pairs, and its units: rows, or groups of rows.

    In training, each input goes through `transform`, `views` times; `fetch` returns the original inputs.

    The number of units is used only to draw units. `sites`: where units lie, if the data is at several sites.
    """

    dataset: Dataset[Any]
    groups: Groups | None = None
    transform: Transform | None = None
    views: int = 1
    sites: HeldSites | None = None

    def __len__(self) -> int:
        """The number of units."""
        return self.rows if self.groups is None else len(self.groups)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(cast(Sized, self.dataset))

    @property
    def kind(self) -> str:
        """How rows are read from it, in words: as tensors, many at once, or one by one."""
        return reading_of(self.dataset)

    @property
    def runs_code(self) -> bool:
        """Whether code makes the rows (a data set or a transform), which may draw random numbers."""
        return self.transform is not None or not (is_pair(self.dataset) or gathers(self.dataset))

    def fetch(
        self, indices: IntArray, *, strict: bool = False, each: Callable[[], None] = lambda: None
    ) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the given rows (at least one), stacked along axis 0.

        The global generators of NumPy and Python are reset before every row. `strict`: a row that draws from them is an
        `InputError`. `each` is called before each row of a data set that makes its rows.
        """
        if is_pair(self.dataset):
            places = torch.from_numpy(indices)
            inputs, targets = (tensor[places] for tensor in self.dataset.tensors)
        elif gathers(self.dataset):
            inputs, targets = self.dataset.gather(indices)
        else:
            rows = self._one_by_one(indices, each, strict=strict)
            _refuse_mixed(rows, indices)
            pairs = _collated(rows, indices)
            if not isinstance(pairs, (tuple, list)) or len(pairs) != 2:
                raise InputError(
                    f"each example of the data set must be a pair (input, target){several_inputs.of_row(pairs)}"
                )
            inputs, targets = pairs
        if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
            several = several_inputs.of_pair(inputs, targets)
            raise InputError(f"inputs and targets must be tensors (or numbers and arrays that become tensors){several}")
        return inputs.detach(), targets.detach()  # what a row was computed from is not trained

    def first(self) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the first row, as `fetch` returns them."""
        return self.fetch(np.zeros(1, np.int64))

    def _one_by_one(self, indices: IntArray, each: Callable[[], None], *, strict: bool) -> list[Any]:
        host, rows = HostGenerators(), []
        for i in indices:
            each()
            rows.append(self.dataset[int(i)])
            if host.rewind() and strict:
                raise InputError(
                    f"row {i} of the data draws from the global generator of NumPy or Python, which would shift what "
                    "all rows after it draw; use torch's generator, which is seeded with secret bits"
                )
        return rows

    def grouped(self, identifiers: object) -> PrivateData:
        """The data whose units are the rows with one identifier; errors as in `group`. Where it lies at sites,
        `identifiers` are given for each of them."""
        if self.sites is None:
            return replace(self, groups=group(identifiers, self.rows))
        groups, sites = self.sites.grouped(identifiers)
        return replace(self, groups=groups, sites=sites)

    def only(self, rows: IntArray) -> PrivateData:
        """The data with these rows only, each as its own unit, and with the same transform; of rows at sites, which
        are in ascending order, before they are grouped."""
        if self.sites is not None:
            assert self.groups is None
            return replace(replace(self, sites=None).only(rows), sites=self.sites.only(rows))
        if is_pair(self.dataset):
            index = torch.from_numpy(rows)
            return replace(self, dataset=TensorDataset(*(one[index] for one in self.dataset.tensors)), groups=None)
        if gathers(self.dataset):
            return replace(self, dataset=self.dataset.taken(rows), groups=None)
        return replace(self, dataset=Subset(self.dataset, rows.tolist()), groups=None)

    def check(self, classes: int | None) -> None:
        """`check_size` and `check_rows` for all of it, whatever its size."""
        self.check_size(1, len(self))
        for start in range(0, self.rows, _CHECKED_AT_ONCE):
            indices = torch.arange(start, min(start + _CHECKED_AT_ONCE, self.rows)).numpy()
            check_rows(*self.fetch(indices), start, classes)

    def check_size(self, at_least: int, at_most: int, declared: float | None = None) -> None:
        """Refuse an empty data set, and a number of units that the declared population does not allow.

        Like all checks before a run's first step, the error goes to the holder of the data and is not published. It
        does not tell the number either, which is private, unless the plan takes it as public.
        """
        if len(self) == 0:
            raise InputError("the data set is empty; give at least one example")
        what = "rows" if self.groups is None else "different identifiers"
        if at_least == at_most != len(self):
            raise InputError(
                f"the data has {len(self)} {what}, but the plan declares a population of exactly {at_most}, which its "
                "sampling takes as public; declare the true number"
            )
        if len(self) > at_most:
            of = "" if declared is None else f" ({declared:,.10g}, with a quarter more as the true number is private)"
            raise InputError(
                f"the data has more {what} than the {at_most} that the declared population allows{of}; "
                "declare a population that is public and large enough"
            )


def check_rows(inputs: Tensor, targets: Tensor, start: int, classes: int | None) -> None:
    """Refuse values that cannot be trained on, and name the row (`start` is the number of the first row).

    `classes`: the number of classes, if targets are class indices.
    """
    _check_finite("feature", inputs, start)
    _check_finite("target", targets, start)
    if classes is not None:
        _check_labels(targets, classes, start)


def as_private(data: object) -> PrivateData:
    """Accept a pair of tensors or arrays (inputs, targets) or a map-style data set, augmented or not; refuse loaders.

    A loader chooses batches itself, but the guarantee holds only for batches from the plan's sampler.
    """
    if isinstance(data, PrivateData):
        return data
    if isinstance(data, Augmented):
        return replace(as_private(data.data), transform=data.transform, views=data.views)
    if isinstance(data, Sites):
        return _at_sites(data)
    if isinstance(data, DataLoader):
        raise InputError(
            "data is a DataLoader, whose batches the plan cannot vouch for; pass its data set (loader.dataset) instead"
        )
    if isinstance(data, IterableDataset):
        raise InputError(
            "data is an IterableDataset, which cannot be sampled by index; pass list(data) if it fits into memory, "
            "else a map-style data set"
        )
    if isinstance(data, Dataset) and isinstance(data, Sized):
        return PrivateData(data)
    pair = paired(data)
    if pair is not None:
        return PrivateData(TensorDataset(*pair))
    if isinstance(data, Frame) or hasattr(data, "column_names"):
        raise InputError(
            "data has named columns; say which is the target and what the model sees: "
            "discreet.Columns(data, target=NAME, inputs=NAMES)"
        )
    if not isinstance(data, Mapping | str | bytes | Tensor | np.ndarray) and _map_style(data):
        return PrivateData(cast("Dataset[Any]", data))
    raise InputError(
        "data must be a pair of tensors or arrays (inputs, targets), or a map-style data set of such pairs, got "
        f"{several_inputs.in_place_of_pair(data)}"
    )


def as_public(data: object) -> tuple[Tensor, Tensor] | None:
    """(inputs, targets) of data declared public as tensors; None without data. A data set is read once, all of it."""
    if data is None:
        return None
    if (pair := paired(data)) is not None:
        return pair
    rows = as_private(data)
    if rows.transform is not None:
        raise InputError("public data is augmented, and metrics are of rows as they are; give the data set itself")
    ends = range(0, rows.rows, _CHECKED_AT_ONCE)
    parts = [rows.fetch(np.arange(start, min(start + _CHECKED_AT_ONCE, rows.rows))) for start in ends]
    inputs, targets = (torch.cat(one) for one in zip(*parts, strict=True))
    return inputs, targets


def _at_sites(data: Sites) -> PrivateData:
    found = {number: as_private(data.rows[number]) for number in data.checked()}
    for number, one in found.items():
        if one.transform is not None or one.sites is not None:
            raise InputError(f"site {number}: give rows as they are, and augment all alike: Augmented(Sites(...), ...)")
        if one.rows == 0:
            raise InputError(f"site {number} has no row; give at least one, or count the sites without it")
    if not found:
        raise InputError("this process holds no site; start at most as many processes as there are sites")
    dataset = joined({number: one.dataset for number, one in found.items()})
    return PrivateData(dataset, sites=HeldSites.with_sizes(data.of, {n: one.rows for n, one in found.items()}))


def _refuse_mixed(rows: Sequence[Any], indices: IntArray) -> None:
    """Refuse rows of several types: torch would convert all of them to one type, so one row would change the others."""
    kinds = [[_kind(part) for part in row] if isinstance(row, tuple | list) else [] for row in rows]
    for index, kind in zip(indices, kinds, strict=True):
        if kind != kinds[0]:
            raise InputError(
                f"row {index} of the data is of types {', '.join(kind)}, row {indices[0]} of {', '.join(kinds[0])}; "
                "convert all rows to the same types: in a batch torch would, and one row would change all others"
            )


def _collated(rows: list[Any], indices: IntArray) -> Any:
    """The rows as a batch. `InputError` names a row of what is no number: a text, an image."""
    try:
        batch = default_collate(rows)
    except TypeError:
        if said := several_inputs.no_numbers(rows, indices):
            raise InputError(said) from None
        raise
    whole = isinstance(batch, tuple | list) and all(isinstance(one, Tensor) for one in batch)
    if not whole and (said := several_inputs.no_numbers(rows, indices)):
        raise InputError(said)
    return batch


def _kind(part: object) -> str:
    kind = type(part).__name__
    return f"{kind} of {part.dtype}" if isinstance(part, Tensor | np.ndarray) else kind


def _map_style(data: object) -> bool:
    """Whether `data` has a length and a row at every index. A tuple or list must hold pairs."""
    if isinstance(data, tuple | list):
        return all(isinstance(row, tuple | list) and len(row) == 2 for row in data)
    return isinstance(data, Sized) and hasattr(data, "__getitem__")


def _check_finite(what: str, values: Tensor, start: int) -> None:
    if not (values.is_floating_point() or values.is_complex()):
        return
    bad = ~torch.isfinite(values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)).all(1)
    if bool(bad.any()):
        row = start + int(bad.nonzero()[0])
        raise InputError(
            f"a {what} in row {row} of the data, counted from 0, is NaN or infinite; remove or repair the row"
        )


def _check_labels(targets: Tensor, classes: int, start: int) -> None:
    if targets.is_floating_point() or targets.dim() != 1:
        return
    bad = (targets < 0) | (targets >= classes)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        label = int(targets[row])
        advice = "leave out rows without a label" if label < 0 else "number the classes from 0, with an output for each"
        raise InputError(
            f"the label {label} in row {start + row} of the data, counted from 0, is out of range; the model has "
            f"{classes} classes, 0 to {classes - 1}; {advice}"
        )
