"""The whole audit of a build, with one false-alarm rate for all of it."""

from __future__ import annotations

import itertools

from discreet.audit.builds.game import RUNS, game_outcomes
from discreet.audit.builds.laws.charges_check import charge_outcomes
from discreet.audit.builds.laws.draws_check import STEPS as DRAWS
from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.laws.metrics_check import metric_outcomes
from discreet.audit.builds.laws.noise_law import noise_outcomes
from discreet.audit.builds.laws.search_check import search_outcomes
from discreet.audit.builds.replay import STEPS, Replay
from discreet.audit.builds.subject import Subject
from discreet.audit.outcomes import FALSE_ALARM, Audit, timed
from discreet.plan import PartsSearch, Search


def audit_build(
    subject: Subject,
    *,
    search: Search | PartsSearch | None = None,
    false_alarm: float = FALSE_ALARM,
    effort: float = 1.0,
) -> Audit:
    """Replay neighbours, hold noise, draws, charges and private metrics against their laws, and play the game: on
    made-up rows, in folders that are gone at the end. Nothing is charged to a ledger that is kept.

    `search`: for settings, over runs of the subject; it is looked at too. `effort`: steps relative to the usual number
    of them. What is looked at does not depend on what is seen.
    """
    replays = Replay(subject, steps=max(4, round(STEPS * effort))).outcomes()
    others = itertools.chain(
        noise_outcomes(subject, steps=2 * max(10, round(20 * effort))),
        draw_outcomes(subject, steps=max(48, round(DRAWS * effort))),
        charge_outcomes(subject),
        metric_outcomes(subject),
        game_outcomes(subject, runs=max(100, round(RUNS * effort))),
        () if search is None else search_outcomes(subject, search),
    )
    return Audit((*replays, *timed(others)), false_alarm)
