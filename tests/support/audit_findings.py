"""What the checks of builds find in a broken build, as soon as they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broken_builds import Broken, patched

from discreet.audit import FALSE_ALARM, Outcome, Subject
from discreet.audit.builds.laws import search_check
from discreet.audit.builds.laws.charges_check import charge_outcomes
from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.laws.metrics_check import metric_outcomes
from discreet.audit.builds.laws.noise_law import noise_outcomes
from discreet.audit.builds.laws.search_check import search_outcomes
from discreet.audit.builds.replay import Replay

LIMIT = FALSE_ALARM / 20
"""The p below which an outcome is a finding; a whole audit has fewer of them than twenty."""

CHECKS: dict[str, Callable[[Subject], Iterable[Outcome]]] = {
    "replay": lambda subject: Replay(subject, steps=4).each(),
    "noise": lambda subject: noise_outcomes(subject, steps=20),
    "draws": lambda subject: draw_outcomes(subject, steps=64),
    "charges": charge_outcomes,
    "metrics": metric_outcomes,
}

RUNS = {"search/runs": 1, "search/candidates": 1, "search/charges": 12, "search/noise": 12}
"""The runs that are carried out to find these: laws are counted without any, and the others show in every search."""


def findings(subject: Subject, check: str) -> Iterable[Outcome]:
    """What one kind of check finds."""
    return filter(failing, CHECKS[check](subject))


def failing(one: Outcome) -> bool:
    """Whether an outcome is a finding. A run that fails as what was planted fits it no longer is none."""
    assert "AttributeError" not in one.said, one.said
    return one.wrong or (one.p is not None and one.p < LIMIT)


def found(one: Broken, family: str | None = None) -> str | None:
    """The name of the outcome that finds a broken build, of the kind of check that is made for it; None if none does.
    Where it costs no privacy, of the one that has a notice."""
    check = one.found_by.partition("/")[0]
    with one.plant():
        subject = one.subject(family)
        if check == "search":
            with patched((search_check, "RUNS", RUNS.get(one.found_by, search_check.RUNS))):
                outcomes = search_outcomes(subject, one.settings["search"])
            return next((o.name for o in outcomes if failing(o) and o.name.startswith(one.found_by)), None)
        if one.notice:
            outcomes: Iterable[Outcome] = (o for o in CHECKS[check](subject) if o.notice)
        else:
            outcomes = findings(subject, check)
        return next((o.name for o in outcomes if family or o.name.startswith(one.found_by)), None)
