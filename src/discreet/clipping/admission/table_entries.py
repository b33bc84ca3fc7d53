"""Numbers that a table of embeddings has no entry for, found before torch fails on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError


class NoEntry(InputError, IndexError):
    """A row has a number that a table of the model has no entry for. It is torch's IndexError too, for models that
    catch that."""


@contextmanager
def entries_checked(model: nn.Module, rows: IntArray) -> Iterator[None]:
    """A context in which a number beyond a table of embeddings is a `NoEntry`. `rows`: the numbers of the rows that the
    model is run on. Torch would name neither row nor table, and on a card nothing could be computed after it."""

    def checks(name: str) -> Callable[[nn.Module, tuple[Any, ...], Mapping[str, Any]], None]:
        def check(module: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
            numbers = given[0] if given else named.get("input")
            if isinstance(numbers, Tensor) and not numbers.is_floating_point():
                _check(numbers, int(module.num_embeddings), name, rows)  # type: ignore[arg-type]

        return check

    # A type with a forward of its own may be given something else than its entries.
    tables = [
        one for one in model.named_modules() if type(one[1]).forward in (nn.Embedding.forward, nn.EmbeddingBag.forward)
    ]
    handles = [table.register_forward_pre_hook(checks(name), with_kwargs=True) for name, table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check(numbers: Tensor, size: int, name: str, rows: IntArray) -> None:
    bad = ((numbers < 0) | (numbers >= size)).nonzero()
    if not len(bad):
        return
    place = tuple(bad[0].tolist())
    counted = torch.arange(numbers.shape[-1], device=numbers.device, dtype=numbers.dtype)
    of_places = "position" in name or torch.equal(numbers, counted.expand_as(numbers))
    where = f"rows {rows[0]} to {rows[-1]} of the data" if len(rows) > 1 else f"row {rows[0]} of the data"
    if len(numbers) == len(rows) and not of_places:
        where = f"row {rows[place[0]]} of the data"
    mend = (
        "rows are longer than the table has places: shorten them, or build the model with more places"
        if of_places
        else "make the row by the vocabulary of this model (its own tokenizer), or give the table more entries"
    )
    raise NoEntry(
        f"{where}: a number has no entry in the model's table {name!r}, which has {size} (0 to {size - 1}); {mend}"
    )
