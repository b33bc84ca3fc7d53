"""`discreet audit model`: membership attacks on a published model, by the holder of its data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options.json_output import JsonOption, echo_json
from discreet.core.adjacency import Unit
from discreet.core.disk import real
from discreet.core.errors import InputError
from discreet.core.rounding import delta_up, places_up, rounded_up

if TYPE_CHECKING:
    from discreet.jobs.audits.audit_model import ModelAudit

WARNING = (
    "what follows is about private rows: it stays with their holder, and nothing of it goes into the published folder"
)


def model(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    members: Annotated[
        Path, typer.Option("--members", help="Rows that the model was trained on: a table, or .npz with x and y.")
    ],
    others: Annotated[
        Path, typer.Option("--others", help="Rows like them that it was not trained on, in the same form.")
    ],
    shadows: Annotated[
        int, typer.Option("--shadows", min=0, help="Shadow models, for LiRA and RMIA: 8 is a start, 4 the least.")
    ] = 0,
    recipe: Annotated[
        str | None, typer.Option("--recipe", help="The recipe that shadow models are trained by [that of the run].")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the attacks and the bound: .png or .svg.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Refused: no release of these figures was paid for.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Attack a published model with its private rows at hand: who was trained on? For the holder of the rows alone."""
    from discreet.cli.show.picture_files import check_target

    if publish:
        raise InputError(
            "what an attack finds is about private rows, and no release of it was paid for: it is not published. The "
            "report states the most that any attack can find, which costs nothing"
        )
    if plot is not None:
        check_target(plot)
        if real(folder) in real(plot).parents:
            raise InputError(f"--plot {plot} lies in the published folder; the picture is about private rows, keep it")
    from discreet.jobs.audits.audit_model import audit_model

    typer.echo(WARNING, err=as_json)
    found = audit_model(folder, members, others, shadows=shadows, recipe=recipe, told=_told(shadows, as_json))
    if plot is not None:
        from discreet.cli.show.attack_plot import draw

        draw(plot, found)
    if as_json:
        echo_json(_fields(found))
    else:
        for line in _lines(found):
            typer.echo(line)
    if found.beyond:
        raise typer.Exit(1)


def _told(shadows: int, as_json: bool) -> Callable[[int], None]:
    def told(number: int) -> None:
        if not as_json:
            typer.echo(f"shadow model {number} of {shadows} is trained", err=True)

    return told


def _fields(found: ModelAudit) -> dict[str, object]:
    return {
        "kind": "evidence",
        "about": WARNING,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "unit": found.unit.value,
        "shadows": found.shadows,
        "beyond": found.beyond,
        "others_like_a_member": found.shared,
        "mean_loss": {
            name: one if math.isfinite(one) else None
            for name, one in zip(("members", "others"), found.losses, strict=True)
        },
        "accuracy": {one.name: one.accuracy() for one in found.attacks},
        "rates": [asdict(one) | {"found": one.found} for one in found.rates],
    }


def _lines(found: ModelAudit) -> list[str]:
    first = found.attacks[0]
    lines = [
        f"{len(first.members):,} members, {len(first.others):,} others; claim: epsilon {rounded_up(found.epsilon)} at "
        f"delta {delta_up(found.delta)}",
        f"{'attack':<8}{'false positives':<34}{'true positives':<28}at most, by the certificate",
    ]
    for one in found.rates:
        lines.append(
            f"{one.attack:<8}"
            + f"{one.rate:>4.1%}: {one.alarms:,} of {one.others:,} (to {one.rate_high:.2%})".ljust(34)
            + f"{one.found:.2%} ({one.low:.2%} to {one.high:.2%})".ljust(28)
            + f"{places_up(100 * one.most, 2)}% (at {one.rate_high:.2%}: {places_up(100 * one.most_high, 2)}%)"
        )
    lines.append("in brackets: 95 % intervals, and what is allowed at the upper end of that of false positives")
    if found.unit is Unit.USER:
        lines.append(
            "the claim is for people: each row is attacked by itself, and where a person has several, the true "
            "intervals are wider"
        )
    best = ", ".join(f"{one.name} {one.accuracy():.1%}" for one in found.attacks)
    lines.append(f"accuracy at even odds, at the best threshold on these rows: {best}")
    lines.append("mean loss of the model: {:.4g} of members, {:.4g} of others".format(*found.losses))
    if found.shared:
        lines.append(
            f"{found.shared:,} of {len(first.others):,} others equal a member, target included: no attack can tell "
            "those apart; leave out rows that the model was trained on"
        )
    if found.beyond:
        lines.append(
            "an attack finds more than the certificate allows: others are not like members, or training did not do "
            "what the certificate says; see discreet audit build and discreet audit run"
        )
    else:
        lines.append(
            "no attack finds more than the certificate allows; this is evidence, never a guarantee: others may find "
            "more"
        )
    if not found.shadows:
        lines.append("--shadows 8 adds LiRA and RMIA, which are stronger")
    return lines
