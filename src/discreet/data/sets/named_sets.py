"""The data sets that recipes name."""

from collections.abc import Callable

from discreet.data.sets.adult import a9a, adult
from discreet.data.sets.arrays import npz
from discreet.data.sets.cancer import cancer
from discreet.data.sets.cifar10 import cifar10
from discreet.data.sets.digits import digits
from discreet.data.sets.imdb import imdb
from discreet.data.sets.mnist import mnist
from discreet.data.sets.movielens import movielens
from discreet.data.sets.splits import Split

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
