"""Packages that are not always installed, imported where they are used; plug-ins; and versions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from discreet.core.errors import InputError

WHOLE = frozenset({"torch", "safetensors", "sklearn", "matplotlib", "numba", "pyarrow", "PIL"})
"""What the distribution discreet installs and discreet-core does not, by the names that are imported."""


def needs_whole(error: ModuleNotFoundError) -> str | None:
    """The advice where a package is missing that only discreet-core leaves out; None if the error is another."""
    name = (error.name or "").partition(".")[0]
    if name not in WHOLE:
        return None
    return f"needs {name}, which discreet-core leaves out; install everything with pip install discreet"


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
            package = "a package" if point.dist is None else f"the package {point.dist.name}"
            raise InputError(
                f"the plug-in {point.name!r} of {package} cannot be loaded ({type(error).__name__}: {error}); mend or "
                "uninstall it"
            ) from error


def read(*tables: str) -> None:
    """Note that plans have read these tables; what is registered later would be known to none."""
    _READ.update(tables)


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


def versions(*names: str) -> dict[str, str]:
    """The versions of those distributions that are installed; of discreet, that of the code that runs."""
    from importlib.metadata import PackageNotFoundError, version  # slow to load, and few commands ask

    from discreet._version import __version__

    found = {}
    for name in names:
        try:
            found[name] = __version__ if name == "discreet" else version(name)
        except PackageNotFoundError:
            continue
    return found


def extra(module: str, name: str, what: str) -> Any:
    """Import `module`; if it is missing, `InputError` says that `what` needs the extra `name` and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} needs the package {(error.name or module).split('.')[0]}; install it with pip install "
            f'"discreet[{name}]"'
        ) from None
