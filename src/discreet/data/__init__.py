"""Data as training sees it, and the data sets that recipes name."""

from collections.abc import Callable
from pathlib import Path

from discreet.data.arrays import npz
from discreet.data.augmented import AUGMENTATIONS, Augmented, flip, shift
from discreet.data.digits import digits
from discreet.data.groups import Groups, group
from discreet.data.holdout import Parts, hold_out
from discreet.data.mnist import mnist
from discreet.data.private import PrivateData, as_private, check_rows
from discreet.data.splits import Split, table

DATASETS: dict[str, Callable[[Path | None], Split]] = {"digits": digits, "mnist": mnist, "npz": npz, "table": table}
"""Data sets by the name that recipes give them; each takes the path of `--data`."""

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Augmented",
    "Groups",
    "Parts",
    "PrivateData",
    "Split",
    "as_private",
    "check_rows",
    "flip",
    "group",
    "hold_out",
    "shift",
]
