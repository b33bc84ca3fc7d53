"""Build, check and try what is published: python scripts/distributions.py [--out dist] [--whole] [PYTHON ...]

1. builds sdist and wheel of discreet-core (the code, and what accounting needs) and of discreet (discreet-core with
   what training needs) twice, and compares the bytes;
2. checks names, metadata and contents (twine, check-wheel-contents);
3. installs the wheel into an empty environment of each PYTHON and tries it there; with --whole, discreet as well;
4. writes the software bill of materials (CycloneDX) and SHA256SUMS.

Needs the extra `release`; steps 3 and 4 need the package index, too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OWN = ("train", "dev", "docs", "release")
"""Extras that discreet does not pass on: the first is what it is for, the others are for those who change it."""


class Failed(Exception):
    """A step that did not end well; what is published is not to be used."""


def version() -> str:
    """From the one place where it stands."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/discreet/_version.py").read_text(), re.MULTILINE)
    return str(found)


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return found["project"]


def run(*command: str | Path, where: Path = ROOT, **variables: str) -> str:
    """Run a command and return what it prints; `Failed` shows it where the command fails."""
    done = subprocess.run(
        [str(one) for one in command],
        cwd=where,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}\nexit code {done.returncode}")
    return done.stdout


def write_whole(folder: Path) -> Path:
    """The project of discreet: no code, and as its requirement discreet-core with the extra train."""
    facts, now = project(), version()
    extras = [name for name in facts["optional-dependencies"] if name not in OWN]
    folder.mkdir(parents=True)
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    lines = [
        '[build-system]\nrequires = ["hatchling>=1.25"]\nbuild-backend = "hatchling.build"\n',
        f'[project]\nname = "discreet"\nversion = "{now}"\ndescription = "{facts["description"]}"',
        f'readme = "README.md"\nrequires-python = "{facts["requires-python"]}"\nlicense = "{facts["license"]}"',
        'license-files = ["LICENSE"]\nauthors = [{ name = "The discreet authors" }]',
        f"keywords = {facts['keywords']!r}\nclassifiers = {facts['classifiers']!r}",
        f'dependencies = ["discreet-core[train]=={now}"]\n',
        "[project.optional-dependencies]",
        *(f'{name} = ["discreet-core[{name}]=={now}"]' for name in extras),
        "\n[tool.hatch.build.targets.wheel]\nbypass-selection = true\n",
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines))
    return folder


def build(out: Path) -> list[Path]:
    """Both distributions, as wheel and sdist, in `out`. The same commit gives the same bytes."""
    if shutil.which("git") and (ROOT / ".git").exists():
        os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct").strip())
    os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # the first that a zip file can state
    with tempfile.TemporaryDirectory() as folder:
        for source in (ROOT, write_whole(Path(folder) / "discreet")):
            run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source)
    return sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_contents(built: list[Path]) -> None:
    """Wheel and sdist have every file of the source, and the wheel no other."""
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for package in ("discreet", "discreet_papers")
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    sdist, wheel = sorted((one for one in built if one.name.startswith("discreet_core")), key=lambda one: one.suffix)
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    if found != wanted:
        raise Failed(f"{wheel.name}: not the files of src: {sorted(found ^ wanted)}")
    with tarfile.open(sdist) as archive:
        lost = {f"src/{name}" for name in wanted} - {name.partition("/")[2] for name in archive.getnames()}
    if lost:
        raise Failed(f"{sdist.name}: lacks {sorted(lost)}")


def check(built: list[Path]) -> None:
    """Metadata that an index takes, and contents without mistakes."""
    check_contents(built)
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    for wheel in (one for one in built if one.suffix == ".whl"):
        whole = not wheel.name.startswith("discreet_core")
        empty = ["--no-config", "--ignore", "W007,W008"] if whole else []  # discreet has no code of its own
        run(sys.executable, "-m", "check_wheel_contents", *empty, wheel)


def published(folder: Path) -> Path:
    """A folder with a certificate, from those that every version must accept."""
    with tarfile.open(ROOT / "tests/golden/folders.tar.xz") as archive:
        members = [one for one in archive.getmembers() if one.name.startswith("poisson/")]
        archive.extractall(folder, members, filter="data")
    return folder / "poisson"


def try_installed(kind: str, out: Path, python: str, folder: Path) -> Path:
    """Install a wheel into an empty environment of `python` and try it from an empty folder; its interpreter."""
    name = {"core": "discreet-core", "whole": "discreet"}[kind]
    run(python, "-m", "venv", folder / "environment")
    inside = folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
    options = ["--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt"]
    run(inside, "-m", "pip", "install", *options, "--find-links", out, f"{name}=={version()}")
    run(inside, "-m", "pip", "check")
    empty = folder / "empty"
    empty.mkdir()
    print(
        run(inside, ROOT / "scripts/smoke.py", kind, published(folder), version(), where=empty, PYTHONPATH="").strip()
    )
    return inside


def write_bill(inside: Path, out: Path, kind: str) -> None:
    """What is installed beside the library, as CycloneDX."""
    name = {"core": "discreet-core", "whole": "discreet"}[kind]
    target = out / f"{name}-{version()}.cdx.json"
    options = ["--output-reproducible", "--of", "JSON", "--output-file", target]
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, inside)


def write_sums(out: Path) -> None:
    """SHA-256 of all that is published, as `sha256sum --check` reads it."""
    names = sorted(path.name for path in out.iterdir() if path.name != "SHA256SUMS")
    (out / "SHA256SUMS").write_text("".join(f"{digest(out / name)}  {name}\n" for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--whole", action="store_true", help="install and try discreet too, with torch")
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    built = build(out)
    with tempfile.TemporaryDirectory() as folder:
        again = build(Path(folder))
        if [*map(digest, built)] != [*map(digest, again)]:
            raise Failed("built twice, the bytes differ")
    print(f"built twice, the same bytes: {', '.join(one.name for one in built)}")
    check(built)
    print("twine and check-wheel-contents find no fault; every file of src is inside")
    for kind in ("core", "whole") if given.whole else ("core",):
        for position, python in enumerate(given.pythons):
            with tempfile.TemporaryDirectory() as folder:
                inside = try_installed(kind, out, python, Path(folder))
                if position == 0:
                    write_bill(inside, out, kind)
    write_sums(out)
    print((out / "SHA256SUMS").read_text(), end="")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"scripts/release: {error}")
