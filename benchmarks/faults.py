"""Odd command lines and files, thousands of them: none may hang, crash, or be answered by more than one line.

    python benchmarks/faults.py --tries 5000 [--seed 0] [--keep tests/faults/corpus]
    python benchmarks/faults.py --corpus

The grammar is in tests/support/fault_grammar.py, the rule in fault_rule.py. What breaks the rule is printed with its
seed, which repeats it; with --keep it is made smaller and written to a folder. --corpus tries what broke the rule
once, before --tries others if these are asked for: see tests/support/fault_corpus.py.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from fault_corpus import entries, kept, replay
from fault_grammar import attempt


def published(folder: Path) -> Path:
    """A model to change, made in a process of its own, as forks must not find threads."""
    fast = ["--set", "steps=2", "--set", "engine=auto", "--set", "noise=fast", "--out", "m"]
    subprocess.run([sys.executable, "-m", "discreet", "train", "digits", *fast], cwd=folder, check=True)
    return folder / "m"


def base(folder: Path) -> Path:
    """A tiny language model, made in a process of its own, too."""
    code = (
        "import sys; from pathlib import Path; from tiny_model_folder import model_folder; model_folder(Path('base'))"
    )
    support = str(Path(__file__).parents[1] / "tests" / "support")
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH")]))}
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env=variables, stderr=subprocess.DEVNULL)
    return folder / "base"


def loaded() -> None:
    """Load once what commands load, so that a try takes milliseconds."""
    import scipy.special  # noqa: F401
    import torch  # noqa: F401

    import discreet.cli.app
    import discreet.integrations.huggingface
    import discreet.jobs.language.language_run
    import discreet.jobs.source
    import discreet.jobs.train  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, help="[5000, with --corpus 0]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for what breaks the rule, made smaller")
    parser.add_argument("--corpus", action="store_true", help="try what broke the rule once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.environ |= {
            "DISCREET_FAULTS_PUBLISHED": str(published(home)),
            "DISCREET_FAULTS_BASE": str(base(home)),
            "XDG_DATA_HOME": str(home / "share"),
        }
        loaded()
        wrong = replayed(home) if options.corpus else 0
        tries = options.tries if options.tries is not None else 0 if options.corpus else 5000
        wrong += drawn(home, tries, options.seed, options.keep) if tries else 0
    sys.exit(bool(wrong))


def drawn(home: Path, tries: int, first: int, keep: Path | None) -> int:
    """Tries of the grammar, from a first seed on; how many broke the rule. `keep`: the folder for these."""
    counted: collections.Counter[str] = collections.Counter()
    wrong = 0
    for seed in range(first, first + tries):
        folder = home / str(seed % 8)
        folder.mkdir(exist_ok=True)
        found = attempt(seed, folder)
        counted[found.fault or f"exit code {found.code}"] += 1
        if found.fault:
            wrong += 1
            last = (found.stderr.strip().splitlines() or [""])[-1]
            print(f"{seed}: {found.fault}: {[one[:60] for one in found.arguments]}: {last[:160]}", flush=True)
            if keep:
                entry = kept(found, folder, home / "smaller")
                (keep / f"seed-{seed}.json").write_text(json.dumps(entry, indent=1) + "\n")
    print(f"{tries} tries, {wrong} against the rule: {dict(counted.most_common())}")
    return wrong


def replayed(home: Path) -> int:
    """What broke the rule once; how many are not answered as they must be."""
    wrong = 0
    for name, entry in entries().items():
        against = replay(entry, home / "again")
        if against:
            wrong += 1
            print(f"{name}: {against}", flush=True)
    print(f"{len(entries())} kept inputs, {wrong} against the rule")
    return wrong


if __name__ == "__main__":
    main()
