"""Odd command lines and files, thousands of them: none may hang, crash, or be answered by more than one line.

    python benchmarks/faults.py --tries 5000 [--seed 0]

The grammar and the rule are in tests/support/fault_grammar.py. What breaks the rule is printed with its seed, which
repeats it.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from fault_grammar import attempt


def published(folder: Path) -> Path:
    """A model to change, made in a process of its own, as forks must not find threads."""
    fast = ["--set", "steps=2", "--set", "engine=auto", "--set", "noise=fast", "--out", "m"]
    subprocess.run([sys.executable, "-m", "discreet", "train", "digits", *fast], cwd=folder, check=True)
    return folder / "m"


def loaded() -> None:
    """Load once what commands load, so that a try takes milliseconds."""
    import scipy.special  # noqa: F401
    import torch  # noqa: F401

    import discreet.cli.app
    import discreet.jobs.source
    import discreet.jobs.train  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counted: collections.Counter[str] = collections.Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.environ |= {"DISCREET_FAULTS_PUBLISHED": str(published(home)), "XDG_DATA_HOME": str(home / "share")}
        loaded()
        for seed in range(options.seed, options.seed + options.tries):
            folder = home / str(seed % 8)
            folder.mkdir(exist_ok=True)
            found = attempt(seed, folder)
            counted[found.fault or f"exit code {found.code}"] += 1
            if found.fault:
                wrong += 1
                last = (found.stderr.strip().splitlines() or [""])[-1]
                print(f"{seed}: {found.fault}: {[one[:60] for one in found.arguments]}: {last[:160]}", flush=True)
    print(f"{options.tries} tries, {wrong} against the rule: {dict(counted.most_common())}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
