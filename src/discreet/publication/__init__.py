"""The published folder: certificate, report, model card, and the check of what was published."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.publication.pages.again import verify
    from discreet.publication.publishing import publish

__all__ = ["publish", "verify"]

_HOMES = {"publish": "publishing", "verify": "pages.again"}


def __getattr__(name: str) -> Any:
    """Load on first use: verifying must not load torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
