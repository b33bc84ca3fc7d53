"""Small files in the formats in which data sets are distributed, for every data set that recipes name."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np

PERSON = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
STRANGER = "17, ?, 1, Bachelors, 13, Divorced, Wizard, Wife, Black, Female, 0, 0, 99, ?"
CELLS = "1000025,5,1,1,1,2,1,3,1,1,2"
GAP = "1057013,8,4,5,1,2,?,7,3,1,4"


def cancer(folder: Path) -> None:
    rows = [CELLS, GAP, "1,10,10,10,10,10,10,10,10,10,4", CELLS, CELLS]
    (folder / "breast-cancer-wisconsin.data").write_text("\n".join(rows) + "\n\n")


def adult(folder: Path) -> None:
    (folder / "adult.data").write_text(f"{PERSON}United-States, <=50K\n{STRANGER}, >50K\n\n")
    (folder / "adult.test").write_text(f"|1x3 Cross validator\n{PERSON}United-States, >50K.\n\n")


def a9a(folder: Path) -> None:
    (folder / "a9a").write_text("-1 3:1 123:1 \n" * 15 + "+1 1:1 \n" * 5)
    (folder / "a9a.t").write_text("+1 2:0.5\n")


def digits(_folder: Path) -> None:
    """They come with scikit-learn."""


def images(count: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """(count, 3, 32, 32) of bytes, with labels."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return generator.integers(0, 256, (count, 3, 32, 32), np.uint8), [int(i) % 10 for i in range(seed, seed + count)]


CIFAR = {f"data_batch_{i}": images(2, i) for i in range(1, 6)} | {"test_batch": images(3, 6)}


def cifar10(folder: Path) -> None:
    """The Python version, as Python 2 wrote it: protocol 2, with bytes for names."""
    for name, (pixels, labels) in CIFAR.items():
        content = {b"data": pixels.reshape(len(pixels), -1), b"labels": labels, b"batch_label": name.encode()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def cifar10_binary(folder: Path) -> None:
    for name, (pixels, labels) in CIFAR.items():
        records = [bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True)]
        (folder / f"{name}.bin").write_bytes(b"".join(records))


def cifar10_subset(folder: Path) -> None:
    train = [CIFAR[f"data_batch_{i}"] for i in range(1, 6)]
    pixels, labels = np.concatenate([part[0] for part in train]), [label for part in train for label in part[1]]
    test = CIFAR["test_batch"]
    np.savez(
        folder / "cifar10_subset.npz",
        x_train=pixels.transpose(0, 2, 3, 1),
        y_train=np.array(labels, np.uint8),
        x_test=test[0].transpose(0, 2, 3, 1),
        y_test=np.array(test[1], np.uint8),
    )


REVIEWS = [
    ("1", "9", "0", 'A "fine" film,<br />a FINE film!'),
    ("0", "2", "7", "Dull.\nNot a film, it's dull"),
    ("0", "1", "8", "..."),
]


def imdb(folder: Path) -> None:
    for part in ("train", "test"):
        text = io.StringIO(newline="")
        csv.writer(text).writerows([("label", "rating", "file_id", "text"), *REVIEWS])
        (folder / f"imdb_{part}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))


def imdb_original(folder: Path) -> None:
    for part in ("train", "test"):
        for label, rating, number, text in REVIEWS:
            file = folder / part / ("neg", "pos")[int(label)] / f"{number}_{rating}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def mnist(folder: Path) -> None:
    for part, count in (("train", 4), ("t10k", 2)):
        pixels, labels = bytes(range(count)) * 784, bytes(range(count))
        header = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + labels)


RATED = [(user, film, 1 + (user + film) % 5) for user in (1, 7, 943) for film in (1, 5, 9, 1682)]


def movielens(folder: Path) -> None:
    lines = "".join(f"{user}\t{film}\t{stars}\t881250949\n" for user, film, stars in RATED)
    (folder / "u.data.gz").write_bytes(gzip.compress(lines.encode()))


def movielens_1m(folder: Path) -> None:
    (folder / "ratings.dat").write_text("".join(f"{u}::{film}::{stars}::978300760\n" for u, film, stars in RATED))


def npz(folder: Path) -> None:
    np.savez(folder / "mine.npz", x_train=np.ones((3, 2)), y_train=np.arange(3), x_test=np.ones((1, 2)), y_test=[0])


FILES = {made.__name__: made for made in (a9a, adult, cancer, cifar10, digits, imdb, mnist, movielens, npz)}
"""How the files of each data set are written."""


def made(name: str, tmp_path: Path, write: Callable[[Path], None] | None = None) -> Path:
    """The folder that has the data set in a folder of its own, as `--data` names it."""
    folder = tmp_path / name.replace("a9a", "adult")
    folder.mkdir()
    (write or FILES[name])(folder)
    return tmp_path / "npz" / "mine.npz" if name == "npz" else tmp_path
