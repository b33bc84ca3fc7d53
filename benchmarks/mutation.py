"""Mutation testing of the formula files: change one thing, run the tests that matter, see whether they notice.

python benchmarks/mutation.py GROUP --share 0.08 --out results.jsonl      (resumable; theories, contour or grid)
python benchmarks/mutation.py GROUP --out results.jsonl --again           (the survivors once more, after new tests)
python benchmarks/mutation.py GROUP --out results.jsonl --show            (score and survivors)

Works in a copy of the tree in a temporary folder. Packages that the tests import are loaded once; each mutant is a fork
of that process, with a limit on its processor time. A mutant counts as killed when a test fails, when the files cannot
be imported, or when the limit is reached. Docstrings, annotations and texts are not mutated.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = "src/discreet/accounting/"
LAWS = "tests/laws/test_accounting_laws.py"
HERE = "tests/accounting/"
QUICK = "theories -k not fractional"
CLOSED = "pld_bounds -k closed_form or few_steps or without or hundreds or nothing"
CONTOUR = ["pld_contour -k not agrees", CLOSED, "pld_contour -k agrees", "extremes -k corners or reach or rdp"]
GRID = ["pld_bounds -k not one_step and not dp", "tradeoff -k not hardly", "pld_bounds -k one_step", *CONTOUR[2:]]
GROUPS: dict[str, dict[str, list[str]]] = {
    "theories": {
        PACKAGE + "theories/gdp.py": ["formulas", QUICK, "meaning", "published_numbers", "pld_bounds -k closed"],
        PACKAGE + "theories/rdp.py": ["formulas", QUICK, "published_numbers", "extremes -k rdp or floating"],
        PACKAGE + "theories/poisson_moments.py": [
            "formulas",
            "theories -k two_ways or fractional",
            QUICK,
            "extremes -k rdp or floating",
        ],
        PACKAGE + "theories/zcdp.py": ["formulas", QUICK, "published_numbers"],
        PACKAGE + "theories/basic_and_advanced.py": ["formulas_published", QUICK, "published_numbers"],
        PACKAGE + "theories/paper_figures.py": [
            "formulas_published",
            "published_numbers",
            "fixed_size -k printed",
            "tests/methods/test_dropout.py",
            QUICK,
        ],
        PACKAGE + "schedules.py": ["formulas_published", "schedules", "published_numbers"],
        PACKAGE + "answers/attack_risk.py": ["formulas", "meaning"],
        "src/discreet/core/adjacency.py": ["theories -k laplace"],
    },
    "contour": {
        PACKAGE + f"pld/{name}.py": CONTOUR
        for name in ("characteristic", "closed_form", "epsilon_interval", "inversion")
    },
    "grid": {
        PACKAGE + f"pld/{name}.py": GRID
        for name in ("compose", "discretise", "poisson_pair", "query", "spectrum", "window")
    },
}
CPU_SECONDS = 25

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
}
COMPARISON: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
NAMES = {"min": "max", "minimum": "maximum", "fmin": "fmax", "floor": "ceil", "argmin": "argmax", "any": "all"}
COMMUTATIVE = {"min", "max", "minimum", "maximum", "fmin", "fmax", "logaddexp"}
NAMES |= {other: name for name, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """`text` put in place of characters `begin` to `end` of a file."""

    file: str
    line: int
    begin: int
    end: int
    operator: str
    old: str
    text: str


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(operator, new text) of the mutants of one node."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield "arithmetic", ast.unparse(ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Compare(left, [op], [right]):
            for other in COMPARISON[type(op)]:
                yield "comparison", ast.unparse(ast.Compare(left, [other()], [right]))
        case ast.BoolOp(op, values):
            yield "boolean", ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(ast.Not(), operand):
            yield "boolean", ast.unparse(operand)
        case ast.UnaryOp(ast.USub(), operand):
            yield "minus", ast.unparse(operand)
        case ast.Constant(value) if isinstance(value, bool):
            yield "constant", repr(not value)
        case ast.Constant(value) if isinstance(value, int):
            yield "constant", repr(value + 1)
        case ast.Constant(value) if isinstance(value, float):
            yield "constant", repr(value * 1.5 if value else 1.0)
        case ast.Call(ast.Name(name), _, _) if name in NAMES:
            yield "extreme", ast.unparse(ast.Call(ast.Name(NAMES[name]), node.args, node.keywords))
        case ast.Call(ast.Attribute(value, name), _, _) if name in NAMES:
            yield "extreme", ast.unparse(ast.Call(ast.Attribute(value, NAMES[name]), node.args, node.keywords))
        case ast.IfExp(test, body, orelse):
            yield "condition", ast.unparse(ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse))
        case ast.Return(value) if value is not None:
            yield "return", "return None"
    if isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(arg, ast.Starred) for arg in node.args):
        if ast.unparse(node.func).split(".")[-1] in COMMUTATIVE:
            return
        first, second, *rest = node.args
        yield "swapped", ast.unparse(ast.Call(node.func, [second, first, *rest], node.keywords))


def mutants(file: str) -> list[Mutant]:
    """All mutants of a file."""
    text = (ROOT / file).read_text()
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):  # annotations, decorators and subscripts of types are no formulas
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            roots = [node.returns, *(argument.annotation for argument in arguments), *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            roots = [*node.bases, *node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            roots = [node.annotation]
        elif isinstance(node, ast.Raise):
            roots = [node]
        else:
            continue
        skipped.update(child for root in roots if root is not None for child in ast.walk(root))
    found = []
    for node in ast.walk(tree):
        if node in skipped or not isinstance(node, ast.expr | ast.stmt):
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = text.encode()[begin:end].decode()
        for operator, new in changes(node):
            new = new if isinstance(node, ast.stmt) else f"({new})"
            if new.strip("()") != old.strip("()"):
                found.append(Mutant(file, node.lineno, begin, end, operator, old, new))
    return found


def sample(file: str, share: float, seed: int) -> list[Mutant]:
    """A share of the mutants of a file; what is drawn does not depend on other files."""
    everything = mutants(file)
    return random.Random(f"{seed} {file}").sample(everything, math.ceil(share * len(everything)))


def verdict(tree: Path, tests: list[str]) -> str:
    """Run in a child: the first test that fails, or "survived"."""
    import pytest

    class First:
        failed = ""

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.failed = self.failed or (report.nodeid if report.failed else "")

    for test in tests:
        name, _, expression = test.partition(" -k ")
        path = name if "/" in name else f"{HERE}test_{name}.py"
        if not (tree / path).exists():
            continue
        plugin = First()
        arguments = ["--all", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--rootdir={tree}"]
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning", path]
        code = pytest.main(arguments + (["-k", expression] if expression else []), plugins=[plugin])
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            continue
        if code != pytest.ExitCode.OK:
            return plugin.failed or f"{path} cannot be collected"
    return "survived"


def run(tree: Path, mutant: Mutant, tests: list[str]) -> str:
    """Fork, mutate, test, restore."""
    target = tree / mutant.file
    original = target.read_bytes()
    target.write_bytes(original[: mutant.begin] + mutant.text.encode() + original[mutant.end :])
    answer = tree / "answer"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(tree)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            answer.write_text(verdict(tree, tests))
        except BaseException as error:  # the child must not run the parent's clean-up
            answer.write_text(f"crash: {error!r}")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    target.write_bytes(original)
    if os.WIFSIGNALED(status):
        timeout = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return "time limit" if timeout else f"signal {os.WTERMSIG(status)}"
    text = answer.read_text() if answer.exists() else "crash"
    if text.startswith("crash"):
        raise RuntimeError(f"{mutant}: {text}")
    return text


def show(rows: list[dict[str, Any]]) -> None:
    """Print score and survivors."""
    survivors = [row for row in rows if row["verdict"] == "survived"]
    print(f"{len(rows)} mutants, {len(rows) - len(survivors)} killed, {len(survivors)} survived")
    for row in sorted(survivors, key=lambda row: (row["file"], row["line"])):
        print(f"{row['file'].removeprefix(PACKAGE)}:{row['line']} {row['operator']}: {row['old']!r} -> {row['text']!r}")


def main() -> None:
    """Sample, or repeat the survivors; append or rewrite the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--share", type=float, default=0.08, help="of the mutants of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--baseline", action="store_true", help="first run all tests without any change")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    files = GROUPS[options.group]
    laws = [LAWS] if options.group == "theories" else []  # of compositions: they do not see digits of the PLD
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    latest = {json.dumps({key: row[key] for key in row if key != "verdict"}): row for row in known}
    known = [row for row in latest.values() if row["file"] in files]
    if options.show:
        show(known)
        return
    chosen = [mutant for file in files for mutant in sample(file, options.share, options.seed)]
    random.Random(options.seed).shuffle(chosen)
    if options.again:
        alive = {(row["file"], row["old"], row["text"]) for row in known if row["verdict"] == "survived"}
        chosen = [mutant for mutant in chosen if (mutant.file, mutant.old, mutant.text) in alive]
        known = [row for row in known if row["verdict"] != "survived"]
    done = {json.dumps({key: row[key] for key in row if key != "verdict"}) for row in known}
    sys.dont_write_bytecode = True
    for name in ("dp_accounting.pld.pld_privacy_accountant", "hypothesis", "mpmath", "pytest", "scipy.stats"):
        importlib.import_module(name)

    with tempfile.TemporaryDirectory() as folder, options.out.open("a") as out:
        tree = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        sys.path.insert(0, str(tree / "src"))
        if options.baseline:  # without any change everything must pass
            tests = list(dict.fromkeys(test for names in files.values() for test in [*names, *laws]))
            found = run(tree, Mutant(next(iter(files)), 0, 0, 0, "", "", ""), tests)
            if found != "survived":
                raise RuntimeError(f"without any change: {found}")
        for mutant in chosen:
            if json.dumps(asdict(mutant)) in done:
                continue
            row = {**asdict(mutant), "verdict": run(tree, mutant, [*files[mutant.file], *laws])}
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
