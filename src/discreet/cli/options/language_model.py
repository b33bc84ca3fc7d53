"""The options for the fine-tuning of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from discreet.jobs.language.language_facts import LanguageFacts

_PANEL = "Language models, from a file with a column of texts"

ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Folder with a model of transformers and its tokenizer.", rich_help_panel=_PANEL),
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", help="causal-lm or classification [causal-lm].", rich_help_panel=_PANEL),
]
LoraOption = Annotated[
    int | None,
    typer.Option("--lora", help="Train adapters of this rank only [all weights].", rich_help_panel=_PANEL, min=1),
]
LengthOption = Annotated[
    int | None,
    typer.Option(
        "--length",
        help="The most tokens of a text, public [128, or what the model reads].",
        rich_help_panel=_PANEL,
        min=2,
    ),
]
CanariesOption = Annotated[
    int | None,
    typer.Option(
        "--canaries",
        help="Put so many made-up texts among the rows, and see how well the model knows them afterwards.",
        rich_help_panel=_PANEL,
        min=1,
        max=1000,
    ),
]
CanaryOption = Annotated[
    str | None,
    typer.Option(
        "--canary", help="These texts, with {} for a number [My secret number is {}.].", rich_help_panel=_PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class LanguageOptions(LanguageFacts):
    """The options about a language model; each field is an option."""

    model: ModelOption = None
    task: TaskOption = None
    lora: LoraOption = None
    length: LengthOption = None
    canaries: CanariesOption = None
    canary: CanaryOption = None


NO_MODEL = LanguageOptions()
