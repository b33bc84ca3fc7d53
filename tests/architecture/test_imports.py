"""Imports between packages point one way as the table below says."""

import ast
from collections.abc import Iterator
from pathlib import Path

import discreet

ROOT = Path(discreet.__file__).parent

TORCH = {
    "jobs",
    "audit",
    "testing",
    "distributed",
    "features",
    "language",
    "clipping",
    "methods",
    "training",
    "data",
    "publication",
    "prediction",
    "recipes",
    "estimators",
    "integrations",
    "cli",
}

# package -> the packages it may import, itself and core apart: the order of rooms in ARCHITECTURE.md, and no more than
# is needed. A package may also reach what its own imports reach.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "accounting": set(),
    "randomness": set(),
    "sampling": {"randomness", "accounting"},
    "mechanism": {"randomness", "accounting"},
    "queries": {
        "randomness",
        "accounting",
        "mechanism",
        "sampling",
        "ledger",
    },  # a query draws its rows and is charged, like a step
    "ledger": {"accounting"},
    "plan": {"accounting", "sampling"},
    "features": set(),  # fixed front ends, on torch alone
    "language": {"clipping", "certificate"},  # digests of the weights that are not trained, as certificates name them
    "clipping": {"mechanism", "randomness"},
    "methods": {"mechanism"},
    "distributed": {"ledger", "clipping", "mechanism", "randomness", "accounting", "sampling", "data"},
    "training": {
        "plan",
        "ledger",
        "clipping",
        "distributed",
        "methods",
        "mechanism",
        "data",
        "sampling",
        "randomness",
        "accounting",
        "queries",
        "features",
        "certificate",
    },  # queries: which of several models is best is a private choice; features: how front ends are computed once;
    # certificate: a plan that its format does not know is said before the run not to be publishable
    "data": {"queries", "plan", "randomness", "accounting"},  # plan: how files of declared facts are read
    "certificate": set(),  # the format, which who writes and who checks have in common
    "publication": {
        "certificate",
        "verification",  # pages say what the checks of a claim find
        "plan",
        "accounting",
        "ledger",
        "clipping",
        "randomness",
        "mechanism",
        "sampling",
    },  # clipping: what is private in a model; sampling: each sampler has its words
    "verification": {"certificate"},
    "recipes": {
        "plan",
        "data",
        "accounting",
        "methods",
        "features",
        "clipping",
        "training",
        "randomness",
    },  # named data sets and models with a plan, and the training that comes of them
    "prediction": {
        "certificate",
        "verification",
        "recipes",
        "features",
        "data",
    },  # what a published folder is built from again
    "estimators": {
        "recipes",
        "training",
        "plan",
        "data",
        "certificate",
        "publication",
        "prediction",
        "queries",
        "jobs",
    },  # training as scikit-learn has it, a recipe of declared facts
    "integrations": {
        "training",
        "plan",
        "language",
        "publication",
        "clipping",
        "certificate",
        "prediction",
        "verification",
    },  # other people's loops around a private one; prediction and verification: a published folder for their servers
}
# trainings, made and taken again on rows that are made up; and how a published folder says what was measured
ALLOWED["audit"] = ALLOWED["training"] | {"training", "certificate"}
ALLOWED["jobs"] = ALLOWED["prediction"] | {
    "audit",
    "training",
    "clipping",
    "distributed",
    "plan",
    "publication",
    "prediction",
    "ledger",
    "language",
    "integrations",
}
ALLOWED["testing"] = ALLOWED["audit"] | {"audit"}  # audits, as other people's tests use them
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__.py"] = {"cli"}
ALLOWED[""] = set(ALLOWED) - {"cli", "__main__.py"}  # discreet/__init__.py


def imported(path: Path) -> Iterator[str]:
    """Absolute names of everything that a file imports, at any depth."""
    package = ["discreet", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def owner(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 or parts[0] == "__main__.py" else ""


FILES = sorted(ROOT.rglob("*.py"))


def test_every_package_is_in_the_table() -> None:
    assert {owner(path) for path in FILES} <= set(ALLOWED)


def test_imports_point_one_way() -> None:
    wrong = []
    for path in FILES:
        here = owner(path)
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "discreet" or len(parts) < 2 or parts[1] not in ALLOWED:
                continue
            if parts[1] not in ALLOWED[here] | {here, "core"}:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_the_table_has_no_cycle_and_nobody_imports_the_command_line() -> None:
    assert [name for name, allowed in ALLOWED.items() if "cli" in allowed] == ["__main__.py"]
    assert "training" not in ALLOWED["publication"]
    order: list[str] = []
    while len(order) < len(ALLOWED):
        free = [name for name in ALLOWED if name not in order and ALLOWED[name] <= set(order)]
        assert free, f"a cycle among {set(ALLOWED) - set(order)}"
        order += free


def test_nothing_above_the_line_imports_torch() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in FILES
        if owner(path) not in TORCH
        for name in imported(path)
        if name.split(".")[0] == "torch"
    ]
    assert wrong == []


def test_the_verifier_shares_only_the_errors() -> None:
    """Promise 9 of the README: it shares no accounting code with the trainer."""
    folder = ROOT / "verification" / "recompute"
    allowed = ("discreet.core.errors", "discreet.verification.recompute")
    wrong = [
        f"{path.name} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name in imported(path)
        if name.split(".")[0] == "discreet" and not name.startswith(allowed)
    ]
    assert wrong == []
    assert list(folder.rglob("*.py"))


def test_checks_share_few_files_of_core() -> None:
    """Beside errors: what words mean (adjacency, assumptions, guarantee), records of trials, and how they are shown."""
    shared = ("adjacency", "assumptions", "errors", "guarantee", "html", "rounding", "trials")
    allowed = tuple(
        f"discreet.{name}" for name in (*(f"core.{name}" for name in shared), "certificate", "verification")
    )
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "verification").rglob("*.py"))
        for name in imported(path)
        if name.split(".")[0] == "discreet" and name != "discreet.core" and not name.startswith(allowed)
    ]
    assert wrong == []
