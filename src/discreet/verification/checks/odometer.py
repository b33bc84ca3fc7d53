"""Checks of the ex-post reading of an odometer in a certificate, without the code that trains.

The reading is no claim: it was not known before the run, it is no (epsilon, delta), and it does not compose with
others.
"""

from __future__ import annotations

import math
from typing import Any

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.guarantee import ExPost
from discreet.verification.recompute import odometers

FIELDS = {"kind", "reading", "delta", "adjacency", "unit", "method", "charged_steps", "sentence"}


def check_ex_post(facts: dict[str, Any], charged: dict[str, Any]) -> tuple[bool, str]:
    """Check that the section exists exactly if the plan has an odometer, and holds its reading of charged events."""
    rule, section = facts["plan"].get("odometer"), facts["ex_post"]
    if rule is None or section is None:
        return rule is section, "no odometer" if rule is section else "an odometer without its reading, or the reverse"
    if set(section) != FIELDS or section["kind"] != "ex_post":
        return False, "what an odometer reads is ex post, and nothing else"
    odometer, stated = rule["odometer"], section["reading"]
    whose = tuple(section[name] for name in ("delta", "adjacency", "unit", "method"))
    known = (odometer["delta"], odometer["adjacency"], odometer["unit"], f"{odometer['odometer']}-odometer")
    if whose != known or known[1:3] != (facts["plan"]["adjacency"], facts["plan"]["unit"]):
        return False, "the reading is of another odometer than the plan's"
    if section["charged_steps"] != facts["charged_steps"]:
        return False, "the reading is of another number of steps than were charged"
    found = odometers.reading(odometer, charged)
    value = math.inf if stated is None else stated
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= found:
        return False, f"the odometer reads {found:.6g}, not {str(stated)[:20]}"
    said = ExPost(value, odometer["delta"], Adjacency(known[1]), known[3], Unit(known[2]))
    if section["sentence"] not in (said.sentence, said.earlier_sentence):
        return False, "the sentence is not that of an ex-post reading"
    if rule["most"] is not None and not value <= rule["most"]:
        return False, f"the run went on beyond the reading at which it ends, {rule['most']:g}"
    return True, f"ex post, no guarantee: the odometer reads {value:.6g}, and {found:.6g} is recomputed"
