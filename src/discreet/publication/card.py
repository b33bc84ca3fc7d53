"""The model card (README.md of a published folder), and the words and roundings that it shares with the report."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet.core.errors import InputError

UNITS: Mapping[str, str] = {"example": "one row"}

NEIGHBOURS: Mapping[str, str] = {
    "add_remove": "one row is added or removed",
    "zero_out": "one row is replaced by a blank that contributes nothing",
    "replace_one": "one row is replaced by any other row",
}

SIZES: Mapping[str, str] = {
    "add_remove": "The exact number of rows is private as well.",
    "zero_out": "The number of rows is taken to be public.",
    "replace_one": "The number of rows is taken to be public.",
}

THEOREMS: Mapping[str, str] = {
    "pld": "Privacy-loss distribution of Poisson-sampled Gaussian noise, both directions composed, rounded upwards",
    "rdp": "Rényi differential privacy of Poisson-sampled Gaussian noise, converted to epsilon and delta",
    "gaussian": "Exact profile of the Gaussian mechanism; steps compose exactly",
}

_FRONT_MATTER = {"library_name": "discreet", "tags": ["differential-privacy", "dp-sgd"]}

_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|~$])")


def model_card(facts: dict[str, Any]) -> str:
    """Write the model card for the certificate `facts`: Markdown with YAML front matter, as Hugging Face reads it.

    Every value is escaped, so that no text of a certificate can become markup. Epsilon is rounded up, the lower
    bound down.
    """
    epsilon = certified_epsilon(facts)
    environment = Environment(
        loader=PackageLoader("discreet.publication"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # this is Markdown: `finalize` escapes every value for it
        finalize=markdown,
    )
    environment.filters.update(FILTERS, code=code)
    return environment.get_template("card.md.j2").render(
        facts=facts,
        claim=facts["claim"],
        epsilon=epsilon,
        plan=facts["plan"],
        model=facts["model"],
        steps=sum(phase["steps"] for phase in facts["plan"]["noise"]),
        multipliers=[phase["multiplier"] for phase in facts["plan"]["noise"]],
        evaluation=final_metrics(facts),
        software=software(facts),
        tensors=trained_tensors(facts),
        front_matter=Markup(yaml.safe_dump(_FRONT_MATTER, sort_keys=False)),
        unit=UNITS.get(facts["claim"]["unit"], facts["claim"]["unit"]),
        neighbours=NEIGHBOURS.get(facts["claim"]["adjacency"], facts["claim"]["adjacency"]),
        theorem=THEOREMS.get(facts["claim"]["method"], facts["claim"]["method"]),
    )


def certified_epsilon(facts: Mapping[str, Any]) -> float:
    """The epsilon of the claim. Only a finite guarantee may be printed; estimates are refused."""
    claim = facts["claim"]
    if claim["kind"] != "guarantee":
        raise InputError(f"the claim is of kind {claim['kind']!r}; only a guarantee can be published")
    epsilon = claim["epsilon"]
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
        raise InputError(f"the certified epsilon must be finite and at least 0, got {epsilon!r}")
    return float(epsilon)


def final_metrics(facts: Mapping[str, Any]) -> dict[str, float]:
    """The last metrics on data declared public; empty if there are none."""
    evaluations = facts["public_evaluations"]
    return {name: value for name, value in evaluations[-1].items() if name != "step"} if evaluations else {}


def software(facts: Mapping[str, Any]) -> str:
    """Names and versions in one line."""
    return ", ".join(f"{name} {release}" for name, release in facts["software"].items())


def trained_tensors(facts: Mapping[str, Any]) -> str:
    """How many of the network's tensors were trained on private data, in words."""
    trained, total = len(facts["model"]["private"]), len(facts["model"]["initial"])
    if trained < total:
        return f"{trained:,} of the network's {total:,} tensors; the others are as declared before training"
    return f"all {total:,} tensors of the network" if total > 1 else "the network's only tensor"


def rounded_up(value: float | Decimal, digits: int = 4) -> str:
    """`value` with `digits` after the point, never below it; in exact decimal arithmetic."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING))


def rounded_down(value: float | Decimal, digits: int = 4) -> str:
    """`value` with `digits` after the point, never above it; in exact decimal arithmetic."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))


def percent_up(probability: float) -> str:
    """A probability in percent, never below it: two digits after the point under 1 %, one above."""
    return f"{rounded_up(Decimal(probability) * 100, 2 if probability < 0.01 else 1)}%"


def number(value: float) -> str:
    """A public figure for reading: whole numbers in full, others to six digits."""
    return f"{int(value):,}" if math.isfinite(value) and value == int(value) else f"{value:,.6g}"


def plain(value: float) -> str:
    """Every digit of a figure, without an exponent unless it is tiny."""
    return format(Decimal(repr(value)), "f") if value >= 1e-9 else repr(value)


def metric(value: float, name: str) -> str:
    """A metric: accuracy in percent, anything else to four digits."""
    return f"{value:.1%}" if name == "accuracy" else f"{value:.4g}"


def markdown(value: object) -> object:
    """Escape a value for running Markdown text and tables; `Markup` is left as it is."""
    if isinstance(value, Markup):
        return value
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(str(value).split()), quote=False))


def code(value: object) -> Markup:
    """A value as a Markdown code span that it cannot leave."""
    return Markup("`" + " ".join(str(value).split()).replace("`", "'").replace("|", "\\|") + "`")


FILTERS = {
    "up": rounded_up,
    "down": rounded_down,
    "percent_up": percent_up,
    "number": number,
    "plain": plain,
    "metric": metric,
}
"""What both templates may apply to values."""
