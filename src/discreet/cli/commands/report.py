"""`discreet report`: a privacy statement and a registry's record of a published folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.core.disk import write_output
from discreet.core.errors import InputError, typed


def report(
    folder: Annotated[Path, typer.Argument(help="A published folder.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="The file to write: .html a privacy statement, .yaml a record for OpenDP's registry."
        ),
    ] = Path("statement.html"),
    fill: Annotated[
        Path | None, typer.Option("--fill", help="Your answers to what no certificate can know: a YAML file.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", help="Write the questions to this YAML file, and nothing else.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it is there.")] = False,
) -> None:
    """Write a privacy statement of a published model, by the questions of NIST SP 800-226, once it is verified."""
    from discreet.publication.disclosure import facts_in_words, holder, registry_record, statement

    if questions is not None:
        again = "answers there are kept: name another file with --questions"
        write_output(questions, holder.questions().encode(), replace=False, advice=again)
        typer.echo(f"{questions}: questions to answer; then: discreet report {typed(folder)} --fill {typed(questions)}")
        return
    if out.suffix not in (".html", ".yaml"):
        raise InputError(f"--out {out}: the statement is a .html file, the record of a registry a .yaml file")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; name another file with --out, or give --overwrite")
    answers = holder.Holder() if fill is None else holder.read_answers(fill)
    certified = facts_in_words.certified(folder)
    if out.suffix == ".html":
        text = statement.statement_page(certified, answers)
    else:
        text = registry_record.as_yaml(registry_record.record(certified, answers))
    write_output(out, text.encode(), replace=overwrite, advice="name another file with --out")
    if out.suffix == ".html":
        left = holder.unanswered(answers)
        more = f"; not answered: {', '.join(left)}" if left else ""
        typer.echo(f"{out}: the privacy statement of {folder}{more}")
        return
    typer.echo(f"{out}: a record for the registry, tier {registry_record.tier(answers)} of 3")
