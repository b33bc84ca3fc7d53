"""Names of data sets: names that look alike get one form, so that a budget holds however its name was stored."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher

from discreet.core.errors import InputError

_LONGEST = 200

_SHOWN = 3
"""The number of other names that a warning shows."""

_UNSEEN = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0} | {
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
"""Characters (fillers, joiners, variation selectors) that fonts show as nothing or a blank, Python as printable."""


def checked_name(dataset: str) -> str:
    """The name in normal form NFC; `InputError` for invisible characters, outer blanks or more than 200 characters."""
    if not isinstance(dataset, str):
        raise InputError(f"a data set's name is a text, got {dataset!r:.80}; leave it out for none")
    for place, character in enumerate(dataset, start=1):
        if _unseen(character):
            called = unicodedata.name(character, "a control character")
            raise InputError(
                f"a data set's name must be printable, and {dataset!a:.80} has U+{ord(character):04X} ({called}) at "
                f"place {place}, which nobody sees; leave it out"
            )
    name = unicodedata.normalize("NFC", dataset)
    if name != name.strip():
        raise InputError(f"a data set's name must be printable: {dataset!a:.80} begins or ends with a blank")
    if len(name) > _LONGEST:
        raise InputError(f"a data set's name must be printable and at most {_LONGEST} characters: {dataset!a:.80}")
    return name


def compared(stored: str) -> str:
    """The form in which names are compared: earlier versions stored any form, even with some invisible characters."""
    seen = "".join(character for character in stored if not _unseen(character)).strip()
    return unicodedata.normalize("NFC", seen or stored)


def without_budget(dataset: str, names: Iterable[str]) -> str:
    """The warning that `dataset` has no budget while `names` have one; it lists the most similar names first."""
    wanted = compared(dataset).casefold()
    alike = {name: SequenceMatcher(None, wanted, compared(name).casefold()).ratio() for name in names}
    found = sorted(alike, key=lambda name: (-alike[name], name))
    more = f" and {len(found) - _SHOWN} more" * (len(found) > _SHOWN)
    said = f"the data set {dataset!r} has no budget" if dataset else "no data set is named"
    return f"{said}, so nothing limits its runs; the ledger has one for {', '.join(map(repr, found[:_SHOWN]))}{more}"


def _unseen(character: str) -> bool:
    return not character.isprintable() or ord(character) in _UNSEEN
