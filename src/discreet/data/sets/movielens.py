"""Ratings of films: MovieLens 100K (u.data) and 1M (ratings.dat)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.data.hashing import hashed
from discreet.data.sets.set_files import folder_of, malformed, present, text_of
from discreet.data.sets.splits import Split

RATINGS = (1.0, 2.0, 3.0, 4.0, 5.0)
_FIFTH = 5


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of the data, with the numbers of users and films that its documentation gives."""

    separator: str
    users: int
    films: int


_VERSIONS: Mapping[str, _Version] = {"u.data": _Version("\t", 943, 1682), "ratings.dat": _Version("::", 6040, 3952)}


def movielens(path: Path | None, classes: bool = False) -> Split:
    """Ratings, each with its user: inputs (n, 2), the numbers of user and film from 0, whole; targets 1 to 5.

    `path` is the folder of u.data (MovieLens 100K, also gzipped) or of ratings.dat (1M), or one that has a folder
    `movielens` (or of the name that the archive has). Targets are numbers, or with `classes` the classes 0 to 4, which
    stand for 1 to 5. A fifth of all ratings, chosen by a public hash of user and film, is the test set. Units are
    users; a rating's identifier is its user and film.
    """
    folder = folder_of(path, "movielens", "u.data or ratings.dat of MovieLens", ("ml-100k", "ml-1m"))
    for name, version in _VERSIONS.items():
        file = present(folder, name) or present(folder, f"ml-100k_{name}")
        if file is not None:
            return _split(_rows(file, version), classes)
    raise InputError(f"{folder} lacks u.data (100K) and ratings.dat (1M) of MovieLens; give --data DIR")


def _rows(file: Path, version: _Version) -> IntArray:
    """(n, 3): user, film and rating."""
    rows = []
    for number, line in enumerate(text_of(file).splitlines()):
        fields = line.split(version.separator)
        if len(fields) != 4 or not all(field.isdecimal() for field in fields):
            malformed(file, number + 1, "expected user, film, rating and time")
        user, film, rating = (int(field) for field in fields[:3])
        if not (1 <= user <= version.users and 1 <= film <= version.films and 1 <= rating <= 5):
            malformed(file, number + 1, f"user, film or rating beyond {version.users}, {version.films} and 5")
        rows.append((user, film, rating))
    if not rows:
        raise InputError(f"{file} has no ratings; get the original file again")
    return np.array(rows, np.int64)


def _split(rows: IntArray, classes: bool) -> Split:
    names = np.array([f"{user}-{film}" for user, film, _ in rows.tolist()])
    tested = np.array([hashed(name) % _FIFTH == 0 for name in names.tolist()])
    inputs = torch.from_numpy(rows[:, :2] - 1)
    ratings = torch.from_numpy(rows[:, 2])
    targets = ratings - 1 if classes else ratings.float().unsqueeze(1)
    train, test = (torch.from_numpy(np.flatnonzero(part)) for part in (~tested, tested))
    return Split(
        train=(inputs[train], targets[train]),
        test=(inputs[test], targets[test]),
        units=rows[~tested, 0],
        ids=names[~tested],
        values=RATINGS if classes else None,
    )
