"""Power cuts after every write of many runs: what is left goes on, or was not begun, and no half folder verifies.

python benchmarks/power_cuts.py --cuts 2000 --seed 1

Runs differ in steps and engine; every third is a search; one cut of each run is resumed to its end. The simulated disk
and the rule are in tests/support/power_cuts.py. Prints a row for RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from power_cuts import SEARCH, charged, check, recorded

from discreet import verify
from discreet.cli.app import run


def main() -> None:
    """Cut, look, until there are enough cuts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cuts = runs = resumed = 0
    against: list[str] = []
    chance = random.Random(options.seed)
    while cuts < options.cuts:
        with tempfile.TemporaryDirectory() as folder:
            found, went_on, wrong = one_run(Path(folder), chance, search=runs % 3 == 2)
        cuts, runs, resumed, against = cuts + found, runs + 1, resumed + went_on, against + wrong
        print(f"{cuts} cuts of {runs} runs, {resumed} resumed, {len(against)} against the rule", file=sys.stderr)
    print(f"| power cuts: after every write of {runs} runs, {resumed} of them resumed | {cuts} | {len(against)} |")
    print("\n".join(against[:20]))
    sys.exit(bool(against))


def one_run(folder: Path, chance: random.Random, *, search: bool) -> tuple[int, int, list[str]]:
    """Cuts of one run, how often a cut run was resumed to its end, and what broke the rule."""
    work, steps = folder / "work", chance.randint(1, 9)
    work.mkdir()
    os.chdir(work)
    settings = [f"steps={steps}", f"engine={chance.choice(['auto', 'exact', 'vmap'])}", "noise=fast"]
    given = [part for one in settings for part in ("--set", one)]
    command = ["tune", "digits", *SEARCH] if search else ["train", "digits"]
    with recorded(work, folder / "cuts") as disk, contextlib.redirect_stdout(io.StringIO()):
        code = run([*command, *given, "--out", "model"])
    wrong = [] if code == 0 else [f"{command} {settings} ended with {code}"]
    open_runs = []
    for number, cut in enumerate(disk.cuts):
        try:
            if search:
                published = (cut / "model").is_dir()
                assert charged(cut) or not published
                assert not published or verify(cut / "model").accepted
            else:
                done, published = check(cut, steps)
                open_runs += [cut] if done and not published else []
        except Exception as error:
            wrong.append(f"{command} {settings}, cut {number}: {error!r:.200}")
    went_on = 0
    if open_runs:
        cut = chance.choice(open_runs)
        os.chdir(cut)
        with contextlib.redirect_stdout(io.StringIO()):
            went_on = run(["train", "--resume", "model.run"]) == 0 and verify(cut / "model").accepted
        wrong += [] if went_on else [f"{settings}: {cut.name} cannot be resumed"]
    os.chdir(folder.parent)
    return len(disk.cuts), int(went_on), wrong


if __name__ == "__main__":
    main()
