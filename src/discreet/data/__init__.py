"""Data as training sees it, and the data sets that recipes name."""

from collections.abc import Callable

from discreet.data.adult import a9a, adult
from discreet.data.arrays import npz
from discreet.data.augmented import AUGMENTATIONS, Augmented, flip, shift
from discreet.data.cancer import cancer
from discreet.data.cifar10 import cifar10
from discreet.data.digits import digits
from discreet.data.groups import Groups, group
from discreet.data.holdout import Parts, hold_out
from discreet.data.imdb import imdb
from discreet.data.mnist import mnist
from discreet.data.movielens import movielens
from discreet.data.named_columns import Columns
from discreet.data.pairs import as_public
from discreet.data.parts import Portion, in_parts
from discreet.data.private import PrivateData, as_private, check_rows
from discreet.data.splits import Split

DATASETS: dict[str, Callable[..., Split]] = {
    "a9a": a9a,
    "adult": adult,
    "cancer": cancer,
    "cifar10": cifar10,
    "digits": digits,
    "imdb": imdb,
    "mnist": mnist,
    "movielens": movielens,
    "npz": npz,
}
"""Data sets by the name that recipes give them; each takes the path of `--data`, and arguments of its own."""

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Augmented",
    "Columns",
    "Groups",
    "Parts",
    "Portion",
    "PrivateData",
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
