"""Data as training sees it, and the data sets that recipes name. Names are loaded on first use."""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.data.private.augmented import AUGMENTATIONS, Augmented, flip, shift
    from discreet.data.private.groups import Groups, group
    from discreet.data.private.held_out import Parts, hold_out
    from discreet.data.private.named_columns import Columns
    from discreet.data.private.parts import Portion, in_parts
    from discreet.data.private.private import PrivateData, as_private, as_public, check_rows
    from discreet.data.private.sites import Sites
    from discreet.data.sets.named_sets import DATASETS
    from discreet.data.sets.splits import Split

_HOMES = {
    **dict.fromkeys(("AUGMENTATIONS", "Augmented", "flip", "shift"), ".private.augmented"),
    **dict.fromkeys(("Groups", "group"), ".private.groups"),
    **dict.fromkeys(("Parts", "hold_out"), ".private.held_out"),
    "Columns": ".private.named_columns",
    **dict.fromkeys(("Portion", "in_parts"), ".private.parts"),
    **dict.fromkeys(("PrivateData", "as_private", "as_public", "check_rows"), ".private.private"),
    "Sites": ".private.sites",
    "Split": ".sets.splits",
    "DATASETS": ".sets.named_sets",
}

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Augmented",
    "Columns",
    "Groups",
    "Parts",
    "Portion",
    "PrivateData",
    "Sites",
    "Split",
    "as_private",
    "as_public",
    "check_rows",
    "flip",
    "group",
    "hold_out",
    "in_parts",
    "shift",
]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
