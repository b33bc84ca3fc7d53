"""What `scripts/release` builds: the same bytes twice, every file inside, and accounting that works without torch.

The script installs into empty environments from the package index. Here the wheel is unpacked beside links to what
discreet-core requires, and Python runs without its own packages: no network, and nothing else to import.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest
from linked_environment import link, required

import discreet
from discreet.core.imports.extras import WHOLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("distributions", ROOT / "scripts" / "distributions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    found: list[Path] = script.build(tmp_path_factory.mktemp("dist"))
    return found


def test_built_twice_the_bytes_are_the_same(script: ModuleType, built: list[Path], tmp_path: Path) -> None:
    again = script.build(tmp_path)
    assert [path.name for path in again] == [path.name for path in built]
    assert [script.digest(path) for path in again] == [script.digest(path) for path in built]
    assert {path.name.split("-")[0] for path in built} == {"discreet", "discreet_core"}


def test_an_index_takes_them_and_every_file_is_inside(script: ModuleType, built: list[Path], tmp_path: Path) -> None:
    script.check(built)
    wheel = next(path for path in built if path.name.startswith("discreet_core") and path.suffix == ".whl")
    lacking = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(lacking, "w") as target:
        for name in source.namelist():
            if name != "discreet/py.typed":
                target.writestr(name, source.read(name))
    with pytest.raises(script.Failed, match=r"py\.typed"):
        script.check_contents([lacking, *(path for path in built if path != wheel)])


def test_accounting_works_with_what_the_wheel_requires_and_no_more(
    script: ModuleType, built: list[Path], tmp_path: Path
) -> None:
    packages, empty = tmp_path / "packages", tmp_path / "empty"
    empty.mkdir()
    wheel = next(path for path in built if path.name.startswith("discreet_core") and path.suffix == ".whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        stated = re.findall(r"^Requires-Dist: (.*)$", archive.read(metadata).decode(), re.MULTILINE)
    linked = link(required(stated), packages)
    assert linked >= {"numpy", "scipy", "typer"}
    assert not linked & {"torch", "scikit-learn", "matplotlib", "pyarrow", "numba"}
    arguments = ["core", script.published(tmp_path), discreet.__version__]
    done = subprocess.run(
        [sys.executable, "-S", ROOT / "scripts" / "smoke.py", *arguments],
        cwd=empty,
        env=os.environ | {"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("core: discreet ")


def test_discreet_requires_all_that_discreet_core_leaves_out(script: ModuleType, tmp_path: Path) -> None:
    text = (script.write_whole(tmp_path / "whole") / "pyproject.toml").read_text()
    assert f'dependencies = ["discreet-core[train]=={discreet.__version__}"]' in text
    extras = script.project()["optional-dependencies"]
    for name in extras.keys() - set(script.OWN):
        assert f'{name} = ["discreet-core[{name}]=={discreet.__version__}"]' in text
    named = {name for name, owners in packages_distributions().items() if set(owners) & set(required(extras["train"]))}
    assert named >= WHOLE - {"PIL"}  # Pillow's name is written in several ways


def test_the_version_stands_in_one_place(script: ModuleType) -> None:
    assert script.version() == discreet.__version__
    assert script.project()["dynamic"] == ["version"]
