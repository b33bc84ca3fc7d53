"""Writes the pages of a published folder again from its certificate; and `verify`, which compares them.

The claim does not rest on them, and the verifier does not import the code that writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from discreet.certificate.model_spec import ModelSpec
from discreet.verification.checks.uncovered import Pages
from discreet.verification.standalone import verifier_file
from discreet.verification.verdict import Verification
from discreet.verification.verify import verify as verified


def verify(
    folder: str | Path, key: str | None = None, *, signed: bool = True, pages: bool = True, strict: bool = False
) -> Verification:
    """Check a published folder. Unreadable files are an `InputError`; a claim that fails is a failed check.

    `key`: the required signer, as 64 hexadecimal digits or the path of a .pub file. Without it a signature may be
    missing, but an existing one must be valid (unless `signed` is false: then it is ignored). `pages`: whether report
    and model card are written again and compared. `strict`: files that the certificate does not cover fail a check,
    instead of only being named. Nothing in the folder is run.
    """
    return verified(folder, key, signed=signed, pages=PAGES if pages else {}, strict=strict)


def _report(facts: dict[str, Any], spec: ModelSpec) -> bytes:
    from discreet.publication.pages.certificate_facts import plan_of
    from discreet.publication.pages.report import report_page

    return _rendered(lambda: report_page(facts, plan_of(facts), spec))


def _card(facts: dict[str, Any], spec: ModelSpec) -> bytes:
    from discreet.publication.pages.card import model_card

    return _rendered(lambda: model_card(facts, spec))


def _rendered(page: Callable[[], str]) -> bytes:
    """The page in UTF-8; `LookupError` if the certificate lacks what its template names."""
    from jinja2 import TemplateError

    try:
        return page().encode()
    except TemplateError as error:
        raise LookupError(str(error)) from error


def _reviewer(_facts: dict[str, Any], _spec: ModelSpec) -> bytes:
    return verifier_file()


PAGES: Pages = {
    "report.html": _report,
    "README.md": _card,
    "verify.py": _reviewer,
}
"""The pages are written after the verifier has recomputed the claim, with the code that published them; the claim does
not rest on them."""
