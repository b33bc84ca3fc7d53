"""The picture of `discreet audit model`: true positives over false positives, beside the most that the claim allows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discreet.cli.show.picture_files import blank, save
from discreet.core.rounding import rounded_up

if TYPE_CHECKING:
    from discreet.jobs.audits.audit_model import ModelAudit

_COLOURS = {"loss": "#0b5394", "LiRA": "#b45f06", "RMIA": "#38761d"}
_MUTED, _LIMIT = "#55606d", "#990000"


def draw(path: Path, audit: ModelAudit) -> None:
    """Write the picture, both axes logarithmic."""
    figure = blank(6.4, 6.0)
    axes = figure.subplots()
    least = 0.5 / max(len(one.others) for one in audit.attacks)
    least = min(least, 5e-4)
    at = np.geomspace(least, 1, 200)
    allowed = [audit.most(float(one)) for one in at]
    axes.plot(at, allowed, color=_LIMIT, linewidth=2, label="the most that the certificate allows")
    axes.fill_between(at, allowed, 1, color=_LIMIT, alpha=0.06, linewidth=0)
    axes.plot(at, at, color=_MUTED, linewidth=1, linestyle=(0, (4, 3)), label="guessing")
    for one in audit.attacks:
        wrong, right = one.curve()
        wrong = np.maximum(wrong, 1 / len(one.others))  # fewer false positives than one cannot be told apart
        axes.step(wrong, right, where="post", color=_COLOURS[one.name], linewidth=1.6, label=one.name)
    shifts = dict(zip((one.name for one in audit.attacks), (0.93, 1.0, 1.075), strict=False))
    for rate in audit.rates:
        at_x, at_y = rate.rate * shifts[rate.attack], max(rate.found, least)
        up = [[max(at_y - max(rate.low, least), 0)], [max(rate.high - at_y, 0)]]
        across = [[0.0], [max(rate.rate_high - at_x, 0)]]
        colour = _COLOURS[rate.attack]
        axes.errorbar([at_x], [at_y], up, across, "o", markersize=4, capsize=2, linewidth=0.9, color=colour, alpha=0.85)
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.05))
    axes.set_xlabel("false-positive rate: others that are taken for members")
    axes.set_ylabel("true-positive rate: members that are recognised")
    title = f"Membership attacks on a model of epsilon {rounded_up(audit.epsilon, 3)}; for its holder alone"
    axes.set_title(title, fontsize=11)
    axes.grid(color="#d9dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="upper left", title="bars: 95 % intervals")
    save(figure, path, dpi=150)
