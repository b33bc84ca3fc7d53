"""Packages that are not installed by default, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from discreet.core.errors import InputError


def extra(module: str, name: str, what: str) -> Any:
    """Import `module`; if it is missing, `InputError` says that `what` needs the extra `name` and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} needs the package {(error.name or module).split('.')[0]}; install it with pip install "
            f'"discreet[{name}]"'
        ) from None
