"""A small table for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def fact_table(title: str, facts: Mapping[str, object]) -> str:
    """HTML of names and values under a title, everything escaped; values that are None are left out."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
        if value is not None
    )
    return f'<table><caption style="text-align:left"><b>{escape(title)}</b></caption>{rows}</table>'


def fact_lines(title: str, facts: Mapping[str, object]) -> str:
    """The same as text, a line each, for a terminal."""
    return "\n".join([title, *(f"  {name}: {value}" for name, value in facts.items() if value is not None)])
