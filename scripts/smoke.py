"""Try an installed discreet, from an empty folder: python smoke.py {core|whole} PUBLISHED VERSION

Run by the Python whose installation is tried; it needs nothing but that. PUBLISHED is a folder with a certificate,
VERSION what must be installed. `core`: the distribution discreet-core, without torch; `whole`: discreet.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

SITE = ["-S"] if sys.flags.no_site else []
PLAN = ["--rate", "0.01", "--noise", "6", "--steps", "40000", "--delta", "1e-5"]
TEMPLATES = ("card.md.j2", "check.html.j2", "report.css", "report.html.j2", "verdict.html.j2")


def discreet(*arguments: str, code: int = 0) -> str:
    """What a command prints; `AssertionError` if it does not end with `code`."""
    command = [sys.executable, *SITE, "-m", "discreet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def holds(text: str, *expected: str) -> None:
    for one in expected:
        assert one in text, f"{one!r} is not in:\n{text}"


def files(version: str) -> None:
    """The code is the installed one, and has its data files."""
    import discreet as library

    assert library.__version__ == version, library.__version__
    root = Path(library.__file__).parent
    assert not (root.parents[1] / "pyproject.toml").exists(), f"{root} is a checkout"
    assert (root / "py.typed").is_file()
    templates = resources.files("discreet.publication.pages") / "templates"
    assert all((templates / name).is_file() for name in TEMPLATES)
    for package, name in (("certificate", "certificate.schema.json"), ("recipes", "digits.yaml")):
        assert (root / package / name).is_file()
    assert (root / "cli" / "starts" / "schema.yaml.txt").is_file()


def accounting(published: str, version: str) -> None:
    """Everything that needs no torch."""
    assert discreet("--version").strip() == f"discreet {version}"
    holds(discreet("epsilon", *PLAN), "epsilon 1.2829 (at least 1.28")
    holds(discreet("calibrate", "--rate", "0.01", "--steps", "2000", "--epsilon", "1", "--delta", "1e-4"), "1.61")
    holds(discreet("compare", *PLAN), "pld", "moments", "Holds")
    holds(discreet("suggest", "--population", "60000", "--epsilon", "1", "--parameters", "26000"), "noise")
    budget = ["--ledger", "here.sqlite", "--dataset-id", "people"]
    holds(discreet("ledger", "budget", *budget, "--epsilon", "3", "--delta", "1e-3"), "of epsilon 3")
    holds(discreet("ledger", "show", "--ledger", "here.sqlite"), "people")
    holds(discreet("ledger", "verify", "--ledger", "here.sqlite"), "entries")
    holds(discreet("verify", published), "ACCEPTED")
    from discreet import Plan

    plan = Plan.poisson(population=1000, batch=100, steps=50, clip_norm=1.0, delta=1e-5).calibrate(epsilon=2.0)
    assert 1.99 < plan.guarantee().epsilon <= 2.0
    assert "torch" not in sys.modules


def without_torch(published: str) -> None:
    """What needs more says so."""
    for package in ("torch", "sklearn", "matplotlib", "pyarrow"):
        try:
            import_module(package)
        except ModuleNotFoundError:
            continue
        raise AssertionError(f"{package} is installed")
    import discreet as library

    for arguments in (["train", "digits"], ["predict", published, "x.csv"]):
        holds(discreet(*arguments, code=2), "pip install discreet")
    try:
        _ = library.Training
    except ModuleNotFoundError as error:
        holds(str(error), "discreet.Training needs", "pip install discreet")
    else:
        raise AssertionError("discreet.Training was found")


def training() -> None:
    """A first model, and its check."""
    holds(discreet("train", "digits", "--epsilon", "1", "--delta", "1e-4", "--out", "first"), "certified epsilon")
    holds(discreet("verify", "first"), "ACCEPTED")
    assert Path("first/report.html").stat().st_size > 10_000


def main() -> None:
    kind, published, version = sys.argv[1:]
    files(version)
    accounting(published, version)
    if kind == "core":
        without_torch(published)
    else:
        training()
    print(f"{kind}: discreet {version} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
