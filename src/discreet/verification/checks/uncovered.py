"""Parts of a folder that the claim does not cover: pages for people, which are written again and compared, and further
files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from discreet.certificate.files import CERTIFICATE, MODEL, RELEASED, hashed, read, software
from discreet.certificate.model_spec import ModelSpec
from discreet.certificate.signature import NAME as SIGNATURE
from discreet.core.errors import DiscreetError

_SHOWN = 5


Pages = Mapping[str, Callable[[dict[str, Any], ModelSpec], bytes]]
"""The function that writes each page from a certificate."""


def check_pages(facts: dict[str, Any], folder: Path, pages: Pages) -> tuple[bool, str, bool]:
    """Whether this library writes the same pages from the certificate, why not, and whether the verdict must say so.

    A page that differs fails if the certificate names the present software. Other versions may word a page differently,
    or round a figure: then nothing is known of the page, and neither where a package is missing that draws it.
    """
    spec, here = ModelSpec.from_json(read(folder / "model.json")), software()
    wrong, lacking = [], {}
    for name, write in pages.items():
        try:
            if _written(write, facts, spec) != read(folder / name):
                wrong.append(name)
        except ModuleNotFoundError as error:
            lacking[name] = error.name
    if not wrong and lacking:
        said = f"{', '.join(lacking)} not checked: that needs {', '.join(set(map(str, lacking.values())))}"
        return True, f"{said}, which is not installed here", True
    if not wrong:
        return True, f"{', '.join(pages)} are what the certificate gives", False
    if facts["software"] == here:
        return False, f"{', '.join(wrong)}: not what this software writes from the certificate", True
    return (
        True,
        f"{', '.join([*wrong, *lacking])} not checked: the certificate names other software than there is here",
        True,
    )


def check_others(facts: Mapping[str, Any], folder: Path, *, strict: bool) -> tuple[bool, str, bool]:
    """Files that the certificate does not cover: named in the verdict, and a fault if `strict`."""
    covered = {CERTIFICATE, MODEL, *hashed(facts), SIGNATURE, *([RELEASED] if "released" in facts else [])}
    found = sorted(set(os.listdir(folder)) - covered)
    if not found:
        return True, "none", False
    names = ", ".join(ascii(name[:40]) for name in found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    said = "1 file here is" if len(found) == 1 else f"{len(found)} files here are"
    return not strict, f"{said} not covered by the certificate ({names})", True


def _written(write: Callable[[dict[str, Any], ModelSpec], bytes], facts: dict[str, Any], spec: ModelSpec) -> bytes:
    """A page written again; None if that fails."""
    try:
        return write(facts, spec)
    except (DiscreetError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return b""
