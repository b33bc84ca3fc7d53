"""Rows that are declared public: they are not protected, and computations on them cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor
from torch.utils.data import Dataset

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.core.errors import InputError, kind_of
from discreet.data import as_public
from discreet.training.public.extra_rows import PublicBatches

Rows = tuple[Tensor, Tensor]
"""Inputs and targets: tensors or arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicData:
    """Rows declared public: a pair of tensors, arrays or frames, or a map-style data set of pairs, which is read once.

    - `test`, `validation`: metrics on them are shown and published; the latter is what policies and early stopping look
      at.
    - `beside`: rows whose exact mean gradient joins every step, with a weight. They may be given alone.
    - `canaries`: made-up texts that you have put among the training rows, a row and a unit each, counted in the plan's
      population (`discreet.language.Canaries.declared`). The certificate says so.
    """

    test: Rows | Dataset[Any] | None = None
    validation: Rows | Dataset[Any] | None = None
    beside: PublicBatches | None = None
    canaries: DeclaredCanaries | None = None

    @classmethod
    def of(cls, public: Self | PublicBatches | None) -> Self:
        """The record, from one given as it is, from `beside` alone, or from None."""
        if public is None or isinstance(public, PublicBatches):
            return cls(beside=public)
        if not isinstance(public, cls):
            raise InputError(
                f"public cannot be {kind_of(public)}; say what the rows are for: "
                "public=PublicData(test=(inputs, targets)), or validation=..., or PublicBatches(inputs, targets)"
            )
        return public

    @property
    def named(self) -> dict[str, Rows | Dataset[Any] | None]:
        """All of them, as messages name them."""
        beside = None if self.beside is None else (self.beside.inputs, self.beside.targets)
        return {"public test": self.test, "public validation": self.validation, "public beside": beside}

    @property
    def tensors(self) -> tuple[Rows | None, Rows | None]:
        """`test` and `validation` as tensors."""
        return as_public(self.test), as_public(self.validation)
