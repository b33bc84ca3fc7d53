"""How gradients were clipped, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.publication.pages.formats import number


@dataclass(frozen=True, slots=True)
class HowClipped:
    """What follows "Each row's gradient" in a sentence, what follows "the noise multiplier times", and one cell of a
    table."""

    gradient: str
    unit: str
    cell: str


def how_clipped(clipping: Mapping[str, Any], record: Mapping[str, Any]) -> HowClipped:
    """What a plan's clipping does; `record` is what the certificate states of its sensitivity."""
    match clipping:
        case {"kind": "flat", "norm": norm}:
            return HowClipped(f"is scaled down to length at most {number(norm)}", number(norm), number(norm))
        case {"kind": "scheduled", "phases": phases}:
            norms = [phase["norm"] for phase in phases]
            span = f"{number(min(norms))} to {number(max(norms))}"
            return HowClipped(
                f"is scaled down to a length that was fixed for each step beforehand ({span})",
                "the length of the step",
                f"{span}, {number(len(phases))} phases",
            )
        case {"kind": "automatic", "norm": norm, "gamma": gamma}:
            return HowClipped(
                f"is multiplied by {number(norm)} / (its length + {number(gamma)}), which makes it shorter than "
                f"{number(norm)}",
                number(norm),
                f"{number(norm)}, automatic with gamma {number(gamma)}",
            )
        case {"kind": "per_layer" | "groups" as kind}:
            whole = number(record["sensitivity"])
            what = "module by module" if kind == "per_layer" else "in groups of parameters"
            return HowClipped(
                f"is scaled down {what}, to length at most {whole} in all",
                whole,
                f"{whole} in all, {number(len(record['groups']))} groups",
            )
        case {"kind": "adaptive", "initial": initial, "quantile": quantile}:
            return HowClipped(
                f"is scaled down to length at most C, which starts at {number(initial)} and follows the "
                f"{number(quantile)} quantile of lengths. For that, each release has one more number: how many "
                "gradients were shorter than C, with noise",
                "what one gradient and its part of that number come to together",
                f"adaptive, from {number(initial)}, quantile {number(quantile)}",
            )
        case {"kind": "ellipsoid", "norm": norm}:
            return HowClipped(
                f"is divided by public scales, number by number, and then scaled down to length at most {number(norm)}",
                f"{number(norm)} and the scales",
                f"{number(norm)}, in public scales",
            )
        case _:
            return HowClipped(
                "is divided by public scales, number by number, and every number is then cut to the range from -1 to 1",
                f"{number(record['sensitivity'])} and the scales",
                "every number to its public scale",
            )
