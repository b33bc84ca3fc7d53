"""Mutation testing: change one thing of a file, run the tests that run it, see whether they notice.

python -m pip install pytest-cov
python -m pytest -n 2 --cov=src/discreet --cov-context=test --cov-report= --junitxml=tests.xml tests
python benchmarks/mutation.py mechanism sampling training/step.py --share 0.05 --out results.jsonl      (resumable)
python benchmarks/mutation.py mechanism sampling --out results.jsonl --again 300    (survivors, by more tests)
python benchmarks/mutation.py mechanism sampling --out results.jsonl --show         (score and survivors)

The second line records which tests run which lines (`.coverage`) and how long each takes; it takes three times as long
as the tests. A mutant meets the quickest tests of its statement that take `--seconds` together, and where these are
fewer (a result may be kept, a line may run as a file is loaded) others of its file. What other processes run is not in
that record. A name is a folder or a file of src/discreet.

Works in a copy of the tree in a temporary folder. Packages that the tests import are loaded once; each mutant is a fork
of that process, with a limit on its processor time. A mutant counts as killed when a test fails, when the files cannot
be imported, or when the limit is reached.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mutants import ROOT, Mutant, sample

PACKAGE = "src/discreet/"
LOADED = ("torch", "torch.func", "numpy", "scipy.stats", "sklearn", "numba", "pydantic", "sqlalchemy", "pytest")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".coverage*", "*.egg-info", "discreet-runs")
LIMIT, TIMES = 60, 3
"""Processor seconds of a mutant: LIMIT, and TIMES as many as its tests took."""


class Tests:
    """Which tests run which lines, and how long they take."""

    def __init__(self, record: Path, times: Path) -> None:
        from coverage import CoverageData

        self._data = CoverageData(str(record))
        self._data.read()
        cases = [one for one in ElementTree.parse(times).getroot().iter("testcase") if not len(one)]
        self._seconds = {(one.get("classname"), one.get("name")): float(one.get("time", 0)) for one in cases}

    def of(self, mutant: Mutant, seconds: float) -> list[str]:
        """The quickest tests that run the statement of a mutant, then those of its file, as many as take `seconds`."""
        by_line = self._data.contexts_by_lineno(str(ROOT / mutant.file))
        first, last = _statement(mutant)
        of_statement = {name for line in range(first, last + 1) for name in by_line.get(line, ())}
        chosen: dict[str, None] = {}
        total = 0.0
        for names in (of_statement, {name for some in by_line.values() for name in some}):
            for time, test in self._in_turn(names):
                if test not in chosen and total + time <= seconds:
                    chosen[test] = None
                    total += time
        return [*chosen]

    def _in_turn(self, names: set[str]) -> list[tuple[float, str]]:
        """Tests that passed, with their time: the quickest first, but two cases of each function before other cases."""
        tests = {name.rsplit("|", 1)[0] for name in names}  # without the phase: setup, run or teardown
        timed = sorted((time, test) for test in tests if (time := self._time(test)))
        cases: Counter[str] = Counter()
        few: list[tuple[float, str]] = []
        others: list[tuple[float, str]] = []
        for time, test in timed:
            function = test.split("[")[0]
            cases[function] += 1
            (few if cases[function] <= 2 else others).append((time, test))
        return few + others

    def _time(self, test: str) -> float:
        """The seconds that a test took; 0 for one that did not pass."""
        path, _, name = test.partition("::")
        return self._seconds.get((path.removesuffix(".py").replace("/", "."), name), -0.02) + 0.02


def _statement(mutant: Mutant) -> tuple[int, int]:
    """The first and last line of the innermost statement around a mutant, without what it holds in its body."""
    found = (mutant.line, mutant.line)
    for node in ast.walk(ast.parse((ROOT / mutant.file).read_text())):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno
            if node.lineno <= mutant.line <= last:
                found = (node.lineno, last)  # `walk` comes to the innermost one last
    return found


def verdict(tests: list[str]) -> str:
    """Run in a child: the first test that fails, or "survived"."""
    import pytest

    class First:
        failed = ""

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.failed = self.failed or (report.nodeid if report.failed else "")

    plugin = First()
    arguments = ["--all", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--rootdir={os.getcwd()}"]
    code = pytest.main([*arguments, "-W", "ignore::pytest.PytestAssertRewriteWarning", *tests], plugins=[plugin])
    return "survived" if code == pytest.ExitCode.OK else plugin.failed or f"the tests cannot run ({code})"


def run(tree: Path, mutant: Mutant, tests: list[str], seconds: float) -> str:
    """Fork, mutate, test, restore."""
    target, answer = tree / mutant.file, tree / "answer"
    original = target.read_bytes()
    target.write_bytes(original[: mutant.begin] + mutant.text.encode() + original[mutant.end :])
    answer.unlink(missing_ok=True)
    limit = LIMIT + int(TIMES * seconds)
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            os.chdir(tree)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            signal.alarm(4 * limit)  # one that waits for ever
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            answer.write_text(verdict(tests))
        except BaseException as error:  # the child must not run the parent's clean-up
            answer.write_text(f"the tests ended with {error!r}")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    target.write_bytes(original)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that a test started
    if os.WIFSIGNALED(status):
        timeout = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM)
        return "time limit" if timeout else f"signal {os.WTERMSIG(status)}"
    return answer.read_text() if answer.exists() else f"the tests ended with status {status}"


def show(rows: list[dict[str, Any]]) -> None:
    """Print score and survivors."""
    left = [row for row in rows if row["verdict"] in ("survived", "no test")]
    print(f"{len(rows)} mutants, {len(rows) - len(left)} killed, {len(left)} not")
    for row in sorted(left, key=lambda row: (row["file"], row["line"])):
        name = row["file"].removeprefix(PACKAGE)
        print(f"{name}:{row['line']} {row['verdict']}, {row['operator']}: {row['old']!r} -> {row['text']!r}")


def files_of(names: list[str]) -> list[str]:
    """The files of folders, and files, of src/discreet."""
    places = [ROOT / PACKAGE / name for name in names]
    found = [one for place in places for one in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    if not found or not all(one.exists() for one in found):
        raise SystemExit(f"no files of {PACKAGE}: {' '.join(names)}")
    return [str(one.relative_to(ROOT)) for one in found]


def main() -> None:
    """Sample, or repeat the survivors; append to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="folders or files of src/discreet")
    parser.add_argument("--share", type=float, default=0.05, help="of the mutants of each file")
    parser.add_argument("--operators", nargs="*", default=[], help="such as 'call removed'; by default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30, help="of tests for each mutant")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--again", type=float, metavar="SECONDS", help="the survivors, by tests of so many seconds")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--record", type=Path, default=ROOT / ".coverage")
    parser.add_argument("--times", type=Path, default=ROOT / "tests.xml")
    options = parser.parse_args()
    files = files_of(options.names)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    latest = {Mutant(**{key: row[key] for key in Mutant.__annotations__}): row for row in rows if row["file"] in files}
    if options.show:
        show([*latest.values()])
        return
    if options.again:
        chosen = [mutant for mutant, row in latest.items() if row["verdict"] == "survived"]
    else:
        drawn = [one for file in files for one in sample(file, options.share, options.seed, options.operators)]
        chosen = [one for one in drawn if one not in latest]
    random.Random(options.seed).shuffle(chosen)
    tests, seconds = Tests(options.record, options.times), options.again or options.seconds
    sys.dont_write_bytecode = True
    for name in LOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder, options.out.open("a") as out:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        sys.path.insert(0, str(tree / "src"))
        os.environ["PYTHONPATH"] = str(tree / "src")
        for mutant in chosen:
            some = tests.of(mutant, seconds)
            row = {**asdict(mutant), "verdict": run(tree, mutant, some, seconds) if some else "no test"}
            out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
