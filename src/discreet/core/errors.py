"""The exceptions of the library: one tree, so that one `except DiscreetError` catches them all.

DiscreetError
├── InputError            bad input: says what, where and how to fix it (exit code 2)
│   ├── UnsupportedModel  a module, buffer or optimizer that cannot be trained privately as it stands
│   └── NotProved         a guarantee was asked for that no theorem of the library gives
├── BudgetExhausted       a charge was refused; nothing was read or released for it (exit code 3)
├── LedgerError           the ledger cannot be read, written or trusted
├── RandomnessReuse       a random sub-stream was asked for twice
├── PrivacyViolation      an invariant that privacy rests on does not hold; the run stops
├── Interrupted           the run was asked to stop, and did so between two steps (exit code 130 or 143)
└── VerificationFailed    a published folder does not support its claim (exit code 1)
"""

from __future__ import annotations

import shlex
from pathlib import Path


def plain(text: str) -> str:
    """Foreign text made safe to print: characters that move the cursor, hide text or reverse it become escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def typed(path: Path | str) -> str:
    """A path as it is typed in a shell, for a command that a message proposes: in quotes where it has a space, say."""
    return shlex.quote(str(path))


def first_line(error: BaseException) -> str:
    """The first line of what an error says, for a line of one's own; its type if it says nothing."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()


def kind_of(given: object) -> str:
    """The kind of what was given, never its value: "an int", "a Linear", "the class SGD"."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


CANNOT_TAKE = (RuntimeError, ValueError, LookupError, TypeError, ArithmeticError, AssertionError, AttributeError)
"""Exceptions of models, losses and transforms on rows that they cannot take."""


OTHER_ROWS = (RuntimeError, ValueError, IndexError, TypeError)
"""Exceptions by which a model or a front end refuses random rows, though it may take rows of the data."""


class DiscreetError(Exception):
    """Base class of every exception that the library raises on purpose. `told`: by another process of the run, which
    raises it too."""

    told = False


class InputError(DiscreetError, ValueError):
    """Input that cannot be used. The message is one line: what, where, and what to do."""


class UnsupportedModel(InputError):
    """A model or optimizer that cannot be trained privately as it stands; the message names the fix."""


class NotProved(InputError):
    """No theorem gives the guarantee that was asked for; the message names what can be had."""


class BudgetExhausted(DiscreetError):
    """A reservation was refused because it does not fit the budget or the plan. Nothing was charged."""


class LedgerError(DiscreetError):
    """The ledger cannot be opened, written or trusted."""


class RandomnessReuse(DiscreetError):
    """The same random sub-stream was requested twice; noise must never repeat."""


class PrivacyViolation(DiscreetError):
    """An invariant that the guarantee rests on does not hold, so the run stops without publishing."""


class Interrupted(DiscreetError):
    """A run was asked to stop and did so between two steps. It can be resumed, or published as it is.

    `happened` is the message without `how` to go on, which a command, a script and an estimator say otherwise.
    """

    told = True  # where several processes stop, all of them do, and one says so

    def __init__(self, happened: str, signal: int, how: str = "") -> None:
        super().__init__(f"{happened}; {how}" if how else happened)
        self.happened, self.signal = happened, signal


class VerificationFailed(DiscreetError):
    """A published folder does not support the claim of its certificate."""
