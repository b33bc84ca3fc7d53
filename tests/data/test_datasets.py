"""Data sets by name: what they read from files of the official formats, and what they refuse."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import official_files
import pytest
import torch
from official_files import CELLS, CIFAR, GAP, PERSON, RATED, STRANGER, made
from sklearn.datasets import load_digits

from discreet import InputError
from discreet.data import DATASETS, Split
from discreet.data.hashing import hashed
from discreet.data.sets.adult_columns import COLUMNS
from discreet.data.sets.digits import shipped
from discreet.data.sets.plain_pickle import plain_pickle


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_gives_finite_rows_with_names_that_pair_up(name: str, tmp_path: Path) -> None:
    split = DATASETS[name](made(name, tmp_path))
    assert split.test is not None
    for inputs, targets in (split.train, split.test):
        assert len(inputs) == len(targets) > 0
        assert torch.isfinite(inputs).all()
        assert inputs.dtype == (torch.int64 if name == "movielens" else torch.float32)
    for names in (split.ids, split.units):
        assert names is None or len(names) == len(split.train[1])
    assert split.ids is None or len(set(split.ids.tolist())) == len(split.ids)
    assert (split.ids is None) == (name == "npz")


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_what_is_missing_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data"):
        DATASETS[name](None)
    with pytest.raises(InputError, match="--data"):
        DATASETS[name](tmp_path)


def test_cancer_scales_the_documented_range_and_leaves_incomplete_rows_out(tmp_path: Path) -> None:
    path = made("cancer", tmp_path)

    def rows(split: Split) -> dict[int, tuple[list[float], int]]:
        assert split.ids is not None
        pairs = zip(split.ids.tolist(), split.train[0].tolist(), split.train[1].tolist(), strict=True)
        return {name: (x, y) for name, x, y in pairs}

    seen = {name: row for split in range(10) for name, row in rows(DATASETS["cancer"](path, split=split)).items()}
    assert set(seen) == {0, 2, 3, 4}
    assert seen[0] == (pytest.approx([4 / 9, 0, 0, 0, 1 / 9, 0, 2 / 9, 0, 0]), 0)
    assert seen[2] == ([1] * 9, 1)
    filled = {name: row for i in range(10) for name, row in rows(DATASETS["cancer"](path, split=i, missing=4)).items()}
    assert filled[1] == (pytest.approx([7 / 9, 3 / 9, 4 / 9, 0, 1 / 9, 3 / 9, 6 / 9, 2 / 9, 0]), 1)
    assert len({tuple(sorted(rows(DATASETS["cancer"](path, split=split)))) for split in range(10)}) > 1


def test_adult_has_one_code_for_each_column_and_cross(tmp_path: Path) -> None:
    path = made("adult", tmp_path)
    columns, crosses = ["workclass", "occupation", "age", "capital_gain"], [["sex", "relationship"]]
    split = DATASETS["adult"](path, columns=columns, crosses=crosses)
    sizes = [9, 15, COLUMNS["age"].size, COLUMNS["capital_gain"].size, 3 * 7]
    parts = [part.tolist() for part in split.train[0].split(sizes, dim=1)]
    codes = [[row.index(1) for row in part] for part in parts]
    assert all(sum(row) == 1 for part in parts for row in part)
    assert codes[0] == [5, 8]  # State-gov; ?
    assert codes[1] == [8, 14]  # Adm-clerical; an occupation that is not documented
    assert codes[2] == [7, 0]  # 38 to 40; below 20
    assert codes[3] == [4, 0]  # 2000 to 2499; below 1
    assert codes[4] == [1 * 7 + 3, 0 * 7 + 0]  # Male, Not-in-family; Female, Wife
    assert split.train[1].tolist() == [0, 1]
    assert split.test is not None
    assert split.test[1].tolist() == [1]
    assert torch.equal(split.test[0][0], split.train[0][0])


def test_a9a_and_its_random_tenth(tmp_path: Path) -> None:
    path = made("a9a", tmp_path)
    whole, tenth = DATASETS["a9a"](path), DATASETS["a9a"](path, split=3)
    assert whole.test is not None
    assert whole.train[0][0].nonzero().flatten().tolist() == [2, 122]
    assert whole.test[0][0].tolist() == [0, 0.5, *[0] * 121]
    assert whole.train[1].tolist() == [0] * 15 + [1] * 5
    assert tenth.test is not None
    assert tenth.ids is not None
    assert (len(tenth.train[1]), len(tenth.test[1])) == (18, 2)
    assert torch.equal(tenth.train[0], whole.train[0][tenth.ids])


@pytest.mark.parametrize("version", ["cifar10", "cifar10_binary", "cifar10_subset"])
def test_the_versions_of_cifar10_say_the_same(version: str, tmp_path: Path) -> None:
    split = DATASETS["cifar10"](made("cifar10", tmp_path, getattr(official_files, version)))
    assert split.test is not None
    assert torch.equal((split.train[0][3] * 255).round().byte(), torch.from_numpy(CIFAR["data_batch_2"][0][1]))
    assert split.train[1].tolist() == [label for i in range(1, 6) for label in CIFAR[f"data_batch_{i}"][1]]
    assert torch.equal((split.test[0] * 255).round().byte(), torch.from_numpy(CIFAR["test_batch"][0]))


class Calls:
    """A pickle of this would run a command."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch ran",)


def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for content in (Calls(), {b"data": Calls()}, np.dtype("O"), np.ones(2), {"a": np.array([1, "b"], object)}):
        with pytest.raises(InputError, match=r"refused: it (calls|has)"):
            plain_pickle(pickle.dumps(content), Path("batch"))
    assert not Path("ran").exists()
    with pytest.raises(InputError, match="not a pickle"):
        plain_pickle(b"not a pickle", Path("batch"))
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for protocol in range(2, 5):
        for array in (image, np.asfortranarray(image)):
            assert (plain_pickle(pickle.dumps([array, b"\xff", "a"], protocol), Path("batch"))[0] == image).all()


@pytest.mark.parametrize("version", ["movielens", "movielens_1m"])
def test_ratings_are_split_by_a_hash_of_user_and_film(version: str, tmp_path: Path) -> None:
    path = made("movielens", tmp_path, getattr(official_files, version))
    split, classes = DATASETS["movielens"](path), DATASETS["movielens"](path, classes=True)
    assert split.test is not None
    assert split.ids is not None
    assert split.units is not None
    kept = [row for row in RATED if hashed(f"{row[0]}-{row[1]}") % 5 != 0]
    assert 0 < len(kept) < len(RATED)
    assert split.ids.tolist() == [f"{user}-{film}" for user, film, _ in kept]
    assert split.units.tolist() == [user for user, _, _ in kept]
    assert split.train[0].tolist() == [[user - 1, film - 1] for user, film, _ in kept]
    assert split.train[1].flatten().tolist() == [stars for _, _, stars in kept]
    assert classes.train[1].tolist() == [stars - 1 for _, _, stars in kept]
    assert (split.values, classes.values) == (None, (1, 2, 3, 4, 5))
    assert len(split.test[1]) == len(RATED) - len(kept)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_public_images_are_not_trained_on(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    whole, cut = DATASETS[name](path), DATASETS[name](path, public=1)
    assert whole.validation is None
    assert cut.validation is not None
    assert cut.ids is not None
    assert torch.equal(torch.cat([cut.train[0], cut.validation[0]]), whole.train[0])
    assert torch.equal(torch.cat([cut.train[1], cut.validation[1]]), whole.train[1])
    assert len(cut.validation[1]) == 1
    assert len(cut.ids) == len(cut.train[1])
    chosen = DATASETS[name](path, public=1, held_out=1)
    assert chosen.test is not None
    assert chosen.validation is not None
    assert torch.equal(chosen.test[0], whole.train[0][-1:])
    assert torch.equal(chosen.validation[0], whole.train[0][-2:-1])
    assert torch.equal(chosen.train[0], whole.train[0][:-2])
    with pytest.raises(InputError, match="must leave some of the"):
        DATASETS[name](path, held_out=len(whole.train[1]))


def test_digits_are_those_of_scikit_learn() -> None:
    images, labels = shipped()
    theirs, their_labels = load_digits(return_X_y=True)
    assert np.array_equal(images, theirs)
    assert np.array_equal(labels, their_labels)
    assert labels.dtype == their_labels.dtype == np.int64


def test_digits_are_read_without_scikit_learn() -> None:
    code = "import sys; from discreet.data.sets.digits import digits; digits(); sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_digits_that_are_held_out_are_not_trained_on() -> None:
    whole, cut = DATASETS["digits"](None), DATASETS["digits"](None, held_out=300)
    assert whole.ids is not None
    assert cut.ids is not None
    assert cut.test is not None
    assert torch.equal(torch.cat([cut.train[0], cut.test[0]]), whole.train[0])
    assert torch.equal(torch.cat([cut.train[1], cut.test[1]]), whole.train[1])
    assert cut.ids.tolist() == whole.ids[:-300].tolist()


BAD = {
    "cancer": [
        ("breast-cancer-wisconsin.data", f"{CELLS}\n{CELLS[:-1]}3\n", "line 2"),
        ("breast-cancer-wisconsin.data", f"{CELLS}\n{CELLS}\n1,11,1,1,1,2,1,3,1,1,2\n", "line 3: .*1 to 10"),
        ("breast-cancer-wisconsin.data", f"{GAP}\n", "no rows"),
    ],
    "adult": [
        ("adult.data", f"{STRANGER}, >60K\n", "line 1"),
        ("adult.data", f"{PERSON}Peru, >50K\n{PERSON.replace('39', 'old')}Peru, >50K\n", "line 2: age"),
        ("adult.test", "|1x3 Cross validator\n", "no rows"),
    ],
    "a9a": [("a9a", "-1 3:1\n-1 0:1\n", "line 2"), ("a9a", "-1 124:1\n", "line 1"), ("a9a.t", "", "no rows")],
    "cifar10": [
        ("test_batch", "not a pickle", "not a pickle"),
        ("test_batch", pickle.dumps({"data": 1}).decode("latin1"), "lacks data or labels"),
    ],
    "imdb": [("imdb_test.csv", "label,text\n1,fine\n", "line 2"), ("imdb_train.csv", "label,text\n", "lacks")],
    "movielens": [
        ("u.data", "1\t2\t3\t4\n1\t2\t6\t4\n", "line 2"),
        ("u.data", "944\t1\t3\t4\n", "line 1"),
        ("u.data", "1 2 3 4\n", "line 1"),
    ],
    "mnist": [("train-images-idx3-ubyte", "four", "not an idx file")],
}


@pytest.mark.parametrize(
    ("name", "file", "content", "said"), [(name, *fault) for name, faults in BAD.items() for fault in faults]
)
def test_a_bad_file_is_one_clear_error(name: str, file: str, content: str, said: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    (path / name.replace("a9a", "adult") / file).write_bytes(content.encode("latin1"))
    with pytest.raises(InputError, match=said) as caught:
        DATASETS[name](path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cancer", {"split": 10}),
        ("cancer", {"split": True}),
        ("cancer", {"missing": 0}),
        ("adult", {"columns": ["income"]}),
        ("adult", {"columns": []}),
        ("adult", {"crosses": [["native_country", "occupation", "education", "age", "race"]]}),
        ("a9a", {"split": -1}),
        ("mnist", {"public": -1}),
        ("cifar10", {"public": 50_000}),
        ("imdb", {"form": "poem"}),
        ("imdb", {"take": "nouns"}),
        ("imdb", {"buckets": 0}),
    ],
)
def test_bad_arguments(name: str, arguments: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        DATASETS[name](made(name, tmp_path), **arguments)


COUNTS = {"cancer": (560, 123), "adult": (32561, 16281), "movielens": (80127, 19873)}


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files(name: str) -> None:
    folder = os.environ.get("DISCREET_DATA")
    if not folder:
        pytest.skip("needs the data sets: set DISCREET_DATA to the folder that has them")
    split = DATASETS[name](Path(folder))
    assert split.test is not None
    assert (len(split.train[1]), len(split.test[1])) == COUNTS[name]
    if name == "adult":  # as many as UCI says: 24.08 % and 23.62 %
        assert (int(split.train[1].sum()), int(split.test[1].sum())) == (7841, 3846)
