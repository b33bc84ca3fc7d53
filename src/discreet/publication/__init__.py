"""The published folder: certificate, report, model card, and the check of what was published.

Names are loaded on first use: verifying must not load torch.
"""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.publication.pages.again import verify
    from discreet.publication.publishing import publish

__all__ = ["publish", "verify"]

_HOMES = {"publish": ".publishing", "verify": ".pages.again"}

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
