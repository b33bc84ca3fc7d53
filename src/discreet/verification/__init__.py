"""Checks whether a published folder supports its claim, without the code that made it."""

from discreet.verification.verdict import Check, Verification
from discreet.verification.verify import verify

__all__ = ["Check", "Verification", "verify"]
