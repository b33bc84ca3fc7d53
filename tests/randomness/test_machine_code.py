"""Machine code is kept in a cache, and a cache that cannot be used costs time alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.randomness.machine_code import machine_code

PROGRAM = """
import numpy as np
from discreet.mechanism.grid import compiled
values = np.array([0.3, 1.7])
compiled().round_double(values, 0.5)
print(values.tolist())
"""


def rounded(folder: Path) -> str:
    """What a new process computes with its cache in `folder`."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that a process has filled."""
    folder = tmp_path_factory.mktemp("compiled")
    assert rounded(folder) == "[0.5, 1.5]\n"
    return folder


def test_a_second_process_finds_what_the_first_has_compiled(tmp_path: Path, compiled: Path) -> None:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) >= 3
    assert rounded(tmp_path) == "[0.5, 1.5]\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("content", [b"", b"no machine code"])
def test_a_broken_cache_is_no_error(content: bytes, tmp_path: Path, compiled: Path) -> None:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    broken = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in broken:
        path.write_bytes(content)
    assert rounded(tmp_path) == "[0.5, 1.5]\n"


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert rounded(tmp_path / "file" / "folder") == "[0.5, 1.5]\n"


def divided(values: np.ndarray, by: float) -> None:
    for place in range(len(values)):
        values[place] /= by


def divided_exactly(values: np.ndarray, by: float) -> None:
    for place in range(len(values)):
        values[place] /= by


def test_division_by_zero() -> None:
    values = np.array([1.0])
    machine_code(divided, "void(float64[::1], float64)", exact=False)(values, 0.0)
    assert values[0] == np.inf
    with pytest.raises(ZeroDivisionError):
        machine_code(divided_exactly, "void(float64[::1], float64)")(values, 0.0)
