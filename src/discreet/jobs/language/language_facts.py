"""What the command line says about the fine-tuning of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from discreet.core import checks
from discreet.core.errors import InputError


@dataclass(frozen=True, slots=True)
class LanguageFacts:
    """`model`: a folder with a model of `transformers` and its tokenizer. `lora`: the rank of adapters; None trains all
    weights. `length`: the most tokens of a text, public. `canaries`: how many made-up texts are put among the rows;
    `canary`: what they are, with {} in the place of their numbers."""

    model: Path | None = None
    task: str | None = None
    lora: int | None = None
    length: int | None = None
    canaries: int | None = None
    canary: str | None = None

    @property
    def given(self) -> list[str]:
        """The options by which they were given."""
        return [f"--{one.name}" for one in fields(self) if getattr(self, one.name) is not None]


@dataclass(frozen=True, slots=True)
class Budget:
    """The declared facts of privacy: the budget, and how many rows or people there are, as the public may know."""

    epsilon: float | None
    delta: float | None
    population: float | None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that `--set` can change. `steps` and `batch`: by default those that `discreet suggest` names."""

    steps: int | None = None
    batch: float | None = None
    clip_norm: float = 1.0
    learning_rate: float = 5e-4
    rows_per_unit: int | None = None
    reduction: str = "mean"
    engine: str = "auto"

    @classmethod
    def of(cls, given: Sequence[str]) -> Settings:
        """Settings of the form name=value. `InputError` names those that there are."""
        found: dict[str, object] = {}
        for one in given:
            name, _, value = one.partition("=")
            if name not in _READ:
                raise InputError(f"--set {one}: of a language model there are {', '.join(_READ)}")
            try:
                found[name] = _READ[name](value)
            except ValueError:
                raise InputError(f"--set {one}: {name} must be a number") from None
        made = cls(**found)  # type: ignore[arg-type]  # read by the table below
        for name in ("steps", "rows_per_unit"):
            if (count := getattr(made, name)) is not None:
                checks.count(name, count)
        checks.positive("learning_rate", made.learning_rate)
        return made


_READ = {
    "steps": int,
    "batch": float,
    "clip_norm": float,
    "learning_rate": float,
    "rows_per_unit": int,
    "reduction": str,
    "engine": str,
}
"""How each setting is read."""
