"""The options for the fine-tuning of a language model."""

from __future__ import annotations

import typer

from discreet.cli.options.shared import with_options
from discreet.jobs.language.language_facts import LanguageFacts

_PANEL = "Language models, from a file with a column of texts"

NO_MODEL = LanguageFacts()

with_language = with_options(
    LanguageFacts,
    {
        "model": typer.Option(
            "--model", help="Folder with a model of transformers and its tokenizer.", rich_help_panel=_PANEL
        ),
        "task": typer.Option("--task", help="causal-lm or classification [causal-lm].", rich_help_panel=_PANEL),
        "lora": typer.Option(
            "--lora", help="Train adapters of this rank only [all weights].", rich_help_panel=_PANEL, min=1
        ),
        "length": typer.Option(
            "--length",
            help="The most tokens of a text, public [128, or what the model reads].",
            rich_help_panel=_PANEL,
            min=2,
        ),
        "canaries": typer.Option(
            "--canaries",
            help="Put so many made-up texts among the rows, and see how well the model knows them afterwards.",
            rich_help_panel=_PANEL,
            min=1,
            max=1000,
        ),
        "canary": typer.Option(
            "--canary", help="These texts, with {} for a number [My secret number is {}.].", rich_help_panel=_PANEL
        ),
    },
)
"""Gives `command(..., language: LanguageFacts, ...)` an option for each of these facts in its place."""
