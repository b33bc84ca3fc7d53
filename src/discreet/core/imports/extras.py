"""Packages that are not always installed, imported where they are used; and versions."""

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
