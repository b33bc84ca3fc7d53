"""The published folder: certificate, verifier, report, model card."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.publication.folder import publish
    from discreet.certificate.model_spec import ModelSpec
    from discreet.verification.verify import Check, Verification, verify

__all__ = ["Check", "ModelSpec", "Verification", "publish", "verify"]

_HOMES = {
    "publish": "folder",
    "ModelSpec": "model_spec",
    "Check": "verifier",
    "Verification": "verifier",
    "verify": "verifier",
}


def __getattr__(name: str) -> Any:
    """Load on first use: verifying must not load torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
