"""Formats of figures and texts for people: rounded to the safe side, escaped."""

from __future__ import annotations

import html
import math
import re
from decimal import Decimal
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from discreet.core.metric_names import CLIPPED
from discreet.core.rounding import places_down, places_up

_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|~$])")


def percent_up(probability: float) -> str:
    """A probability in percent, never below it: two digits after the point under 1 %, one above."""
    return f"{places_up(Decimal(probability) * 100, 2 if probability < 0.01 else 1)}%"


def number(value: float) -> str:
    """A public figure for reading: whole numbers in full, others to six digits."""
    return f"{int(value):,}" if math.isfinite(value) and value == int(value) else f"{value:,.6g}"


def plain(value: float) -> str:
    """Every digit of a figure, without an exponent unless it is tiny."""
    return format(Decimal(repr(value)), "f") if value >= 1e-9 else repr(value)


def metric(value: float, name: str) -> str:
    """A metric: accuracy in percent, a count as a whole number, anything else to four digits."""
    if name.endswith(CLIPPED):
        return f"{value:,.0f}"
    share = name.endswith("accuracy") or "sensitivity (" in name or "specificity (" in name
    return f"{value:.1%}" if share else f"{value:.4g}"


def sentence(text: str) -> str:
    """A text as a sentence: a capital letter, unless its first word is a name in code, and a full stop."""
    first, _, _ = text.partition(" ")
    begun = text if "_" in first or "=" in first else text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."


def markdown(value: object) -> object:
    """Escape a value for running Markdown text and tables; `Markup` is left as it is."""
    if isinstance(value, Markup):
        return value
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(str(value).split()), quote=False))


def code(value: object) -> Markup:
    """A value as a Markdown code span that it cannot leave."""
    return Markup("`" + " ".join(str(value).split()).replace("`", "'").replace("|", "\\|") + "`")


FILTERS = {
    "up": places_up,
    "down": places_down,
    "percent_up": percent_up,
    "number": number,
    "plain": plain,
    "metric": metric,
    "sentence": sentence,
    "code": code,
}
"""The filters of all templates."""


@cache
def template(name: str, *, escaped: bool, **settings: Any) -> Template:
    """A template of a page, in which an unknown name is an error. `escaped`: whether every value is, as HTML has it;
    `settings`: others of the environment."""
    environment = Environment(
        loader=PackageLoader("discreet.publication.pages"),
        undefined=StrictUndefined,
        autoescape=escaped,
        **settings,
    )
    environment.filters.update(FILTERS)
    return environment.get_template(name)


def html_template(name: str) -> Template:
    """A template of an HTML page; every value is escaped."""
    return template(name, escaped=True, trim_blocks=True, lstrip_blocks=True)
