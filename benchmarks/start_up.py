"""How long the command line takes to start: processor seconds of whole processes, beside what they must import.

    python benchmarks/start_up.py [--rounds 11] [--before CHECKOUT]

Every command and floor is a process of its own, in turns (A B C A B C ...), after one round that writes the compiled
files. Shown are medians of user and system time. A floor is a script that only imports what the command cannot do
without: typer with one option (which loads pydantic), its page of help (which loads Rich), and the parts of NumPy and
SciPy that pricing calls. With `--before`, `src` of another checkout is measured in the same turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PLAN = "--rate 0.01 --steps 1000 --delta 1e-5"
COMMANDS = {
    "--version": "--version",
    "--help": "--help",
    "verify --help": "verify --help",
    "epsilon --help": "epsilon --help",
    "compare --help": "compare --help",
    "calibrate --help": "calibrate --help",
    "ledger --help": "ledger --help",
    "epsilon": f"epsilon --noise 1 {PLAN}",
    "calibrate": f"calibrate --epsilon 1 {PLAN}",
    "compare": f"compare --noise 1 {PLAN}",
}
IMPORTS = {
    "import discreet": "import discreet",
    "from discreet import Plan": "from discreet import Plan",
    "from discreet import Training": "from discreet import Training",
}
ONE_OPTION = """
import sys, typer
app = typer.Typer(pretty_exceptions_enable=False)
app.command("one")(lambda: None)
@app.command("two")
def two(number: float | None = None) -> None: pass
typer.main.get_command(app).main(args=sys.argv[1:], standalone_mode=False)
"""
NUMBERS = "import numpy, scipy.special, scipy.fft"
FLOORS = {
    "bare Python": ("pass", []),
    "NumPy": ("import numpy", []),
    "NumPy, scipy.special, scipy.fft": (NUMBERS, []),
    "typer, one option": (ONE_OPTION, ["two", "--number", "1"]),
    "typer, its help": (ONE_OPTION, ["two", "--help"]),
    "typer, one option, NumPy, scipy.special, scipy.fft": (NUMBERS + ONE_OPTION, ["two", "--number", "1"]),
}
RUN = "from discreet.cli import main; main()"


def seconds(code: str, arguments: list[str], source: Path, written: str, threads: str | None) -> float:
    """Processor seconds of one process that runs `code`."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    kept |= {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": written}
    if threads:
        kept["OPENBLAS_NUM_THREADS"] = threads
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], env=kept, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


_OURS = {"PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "OPENBLAS_NUM_THREADS"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    here = Path(__file__).parent.parent / "src"
    cases = {f"floor: {name}": (*case, here, "1") for name, case in FLOORS.items()}
    cases |= {name: (code, [], here, None) for name, code in IMPORTS.items()}
    for name, arguments in COMMANDS.items():
        if given.before:
            cases[f"before: {name}"] = (RUN, arguments.split(), given.before / "src", None)
        cases[name] = (RUN, arguments.split(), here, None)
    taken: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as written:
        for turn in range(given.rounds + 1):
            for name, (code, arguments, source, threads) in cases.items():
                found = seconds(code, arguments, source, written, threads)
                if turn:
                    taken[name].append(found)
    print(f"{given.rounds} rounds\n\n| | processor seconds | least |\n|---|---|---|")
    for name, times in taken.items():
        print(f"| {name} | {statistics.median(times):.3f} | {min(times):.3f} |")


if __name__ == "__main__":
    main()
