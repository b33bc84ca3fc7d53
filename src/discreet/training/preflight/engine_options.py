"""How clipped sums are computed. No option changes the plan or its price."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch

from discreet.clipping import ENGINES, Engine
from discreet.clipping.engines.chunk_shape import in_fixed_rows, under_autocast
from discreet.core import checks
from discreet.core.errors import InputError

AUTO = "auto"
"""The name that stands for the fastest engine that works, as measured on random data."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a `Training` computes; the name of an engine may be given alone.

    - `name`: "auto", or the name of an engine.
    - `autocast`: run the model under `torch.autocast` to this type: `torch.bfloat16`. Norms and sums stay in single
    precision at least. The effect of the model's rounding is measured before the run and stated in the certificate.
    Metrics are computed without autocast.
    - `fixed_rows`: fill every chunk up to the same number of rows, for a compiler or a graphics card that would
    otherwise meet a new shape in every step. The filled-in rows contribute nothing.
    - `features_once`: compute what stands before the first trained parameter once for each row, where that is possible
    (`training.front_end`). Chunks then hold these features.
    - `noise`: "fast", or "exact", slower, which assumes nothing but random bits.
    - `physical_batch`: examples per chunk, for memory only; a user's rows in a step are not parted.
    """

    name: str = AUTO
    autocast: torch.dtype | None = None
    fixed_rows: bool = False
    features_once: bool = True
    noise: str = "fast"
    physical_batch: int | None = None

    def __post_init__(self) -> None:
        if self.name != AUTO and self.name not in ENGINES:
            raise InputError(f"unknown engine {self.name!r}; known: {', '.join([AUTO, *ENGINES])}")
        if self.autocast not in (None, torch.bfloat16):
            why = "; gradients in float16 vanish without scaling" if self.autocast == torch.float16 else ""
            raise InputError(f"autocast must be torch.bfloat16, got {self.autocast!r}{why}")
        if self.physical_batch is not None:
            checks.count("physical_batch", self.physical_batch)

    @classmethod
    def of(cls, engine: str | EngineOptions) -> EngineOptions:
        """The options, from the name of an engine or as they are."""
        return engine if isinstance(engine, EngineOptions) else cls(engine)

    def engine(self, name: str) -> Engine:
        """The engine called `name`, in the requested precision."""
        engine = ENGINES[name]
        if self.autocast is None:
            return engine
        return replace(engine, clipped_sum=under_autocast(engine.clipped_sum, self.autocast))

    def precision(self, device: torch.device) -> AbstractContextManager[object]:
        """Inside, a model computes in the requested precision."""
        return nullcontext() if self.autocast is None else torch.autocast(device.type, self.autocast)

    def shaped(self, engine: Engine, chunk: int) -> Engine:
        """`engine`, with chunks of a fixed number of rows if requested."""
        return replace(engine, clipped_sum=in_fixed_rows(engine.clipped_sum, chunk)) if self.fixed_rows else engine
