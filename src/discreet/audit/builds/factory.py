"""The subject of an audit, from a function that makes a training."""

from __future__ import annotations

import inspect

from discreet.audit.builds.made_up import MadeUp
from discreet.audit.builds.subject import Pipeline, Subject
from discreet.core.errors import InputError
from discreet.training import Training


def subject_from(factory: object, what: str) -> Subject:
    """The training that a function makes, which is called `what` in errors.

    If the function has a parameter `data`, it is called again with made-up rows as a pair of tensors (and, where users
    are protected, `units`), so that its own code for data is audited too.
    """
    assert callable(factory)
    taken = inspect.signature(factory).parameters
    for name, one in taken.items():
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise InputError(f"{what} is called without arguments first; give {name!r} a default, such as {name}=None")
    made = factory()
    if not isinstance(made, Training):
        raise InputError(f"{what} returns {type(made).__name__}; it must return a discreet.Training that was not run")

    def pipeline(rows: MadeUp) -> object:
        given: dict[str, object] = {"data": (rows.inputs, rows.targets)}
        if "units" in taken:
            given["units"] = None if rows.users is None else list(rows.users)
        return factory(**given).made_of.data

    own: Pipeline | None = pipeline if "data" in taken else None
    return Subject.of(made, own)
