"""Plug-ins: modules of other packages that add to the tables of the library."""

from __future__ import annotations

from discreet.core.errors import InputError

TABLES = ("samplers", "clip_rules", "schedules", "optimizers")
"""The tables that take plug-ins."""

_PLUGGED_IN: set[str] = set()
_READ: set[str] = set()


def plug_in(table: str) -> None:
    """Import the plug-ins of a table, once: modules that installed packages name as entry points of the group
    `discreet.TABLE`, TABLE one of `TABLES`, and that register themselves when they are imported.

    `InputError` names the package of one that cannot be imported.
    """
    if table in _PLUGGED_IN:
        return
    _PLUGGED_IN.add(table)
    from importlib.metadata import entry_points

    for point in entry_points(group=f"discreet.{table}"):
        try:
            point.load()
        except Exception as error:
            _PLUGGED_IN.discard(table)  # whoever asks again is told again
            package = "a package" if point.dist is None else f"the package {point.dist.name}"
            raise InputError(
                f"the plug-in {point.name!r} of {package} cannot be loaded ({type(error).__name__}: {error}); mend or "
                "uninstall it"
            ) from error


def note_read(table: str) -> None:
    """Note that plans have read a table; what is registered later would be known to none."""
    _READ.add(table)


def refuse_late(table: str, kind: str) -> None:
    """`InputError` where plans have read the table that `kind` is to be put into."""
    if table in _READ:
        raise InputError(
            f"{kind!r} is registered after Plan was imported, which knows the {table.replace('_', ' ')} of that moment "
            "alone; import the file that registers it first, before `from discreet import Plan`"
        )


def without_plug_ins() -> None:
    """Import no plug-in from here on, so that a verifier runs no code but its own."""
    _PLUGGED_IN.update(TABLES)
