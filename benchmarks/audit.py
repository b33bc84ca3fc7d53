"""Audits of builds, measured: which broken builds are found, and how often a sound one is blamed.

    python benchmarks/audit.py honest [--runs 200]
    python benchmarks/audit.py caught [--families numbers images texts language] [--only NAME ...]
    python benchmarks/audit.py tables

Both write a line for each run to build/audit/ and go on where they stopped; `tables` prints what is there. Beside this
file: `audit_calibration.py` (bounds of one-run audits: how rarely wrong, how tight) and `audit_one_run.py` (whole
trainings with canaries).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from audit_findings import found
from audited_builds import FAMILIES, build
from audited_samplers import SAMPLERS, UNITS
from broken_builds import Broken, all_broken
from broken_clip_rules import ADAPTIVE, uneven

from discreet.audit import FALSE_ALARM, Audit, Subject
from discreet.audit.builds.game import game_outcomes
from discreet.audit.builds.laws.charges_check import charge_outcomes
from discreet.audit.builds.laws.draws_check import draw_outcomes
from discreet.audit.builds.laws.metrics_check import metric_outcomes
from discreet.audit.builds.laws.noise_law import noise_outcomes
from discreet.plan import EllipsoidClipping, Metric, PerLayerClipping

KEPT = Path(__file__).parents[1] / "build" / "audit"

ENGINES = ("bookkeeping", "ghost", "vmap", "reference", "exact")
RULES: dict[str, dict[str, Any]] = {
    "flat": {},
    "per layer": {"clipping": PerLayerClipping(norm=0.7)},
    "adaptive": {"clipping": ADAPTIVE},
    "ellipsoid": {"clipping": EllipsoidClipping(norm=0.7), "geometry": uneven},
}
METRICS = {"metrics": [Metric(kind="accuracy", noise=3.0, every=4, rate=0.5)]}


def sound(seed: int) -> tuple[dict[str, str], Subject]:
    """An honest build of all kinds in turn, by number."""
    families, samplers, rules = list(FAMILIES), list(SAMPLERS), list(RULES)
    chosen = {
        "family": families[seed % 4],
        "sampler": samplers[seed % 7],
        "engine": ENGINES[seed % 5],
        "unit": list(UNITS)[seed % 2] if seed % 3 else "example",
        "rule": rules[seed // 2 % 4],
    }
    if chosen["sampler"] == "cyclic" and chosen["rule"] in ("adaptive", "ellipsoid"):
        chosen["rule"] = "flat"
    more = METRICS if chosen["sampler"] == "poisson" and chosen["family"] != "language" else {}
    made = build(
        chosen["family"],
        engine=chosen["engine"],
        seed=seed,
        **SAMPLERS[chosen["sampler"]],
        **UNITS[chosen["unit"]],
        **RULES[chosen["rule"]],
        **more,
    )
    return chosen, made


def honest(runs: int) -> None:
    """Checks that chance enters; the game, which takes longest, every fourth time. Nothing of a replay is chance."""

    def audited(seed: int) -> dict[str, Any]:
        chosen, subject = sound(seed)
        outcomes = [*noise_outcomes(subject, steps=20), *draw_outcomes(subject, steps=48)]
        outcomes += [*charge_outcomes(subject), *metric_outcomes(subject)]
        outcomes += game_outcomes(subject, runs=200) if seed % 4 == 0 else []
        found = Audit(tuple(outcomes))
        p = {one.name: one.p for one in outcomes if one.p is not None}
        said = [f"{one.name}: {one.said}" for one in found.findings]
        return chosen | {"found": said, "p": p, "notices": [one.name for one in outcomes if one.notice]}

    carried_out("honest.jsonl", ((str(seed), lambda seed=seed: audited(seed)) for seed in range(runs)))


def caught(families: list[str], only: list[str]) -> None:
    """Each broken build, by the kind of check that is made for it, until it finds something."""

    def audited(one: Broken, family: str) -> dict[str, Any]:
        by = found(one, family)
        return {"name": one.name, "family": family, "found": by is not None, "expected": by is not None, "by": [by]}

    def tasks() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        for family in families:
            for name, one in all_broken().items():
                if family in (one.families or FAMILIES) and (not only or name in only):
                    yield f"{family} {name}", lambda one=one, family=family: audited(one, family)

    carried_out("caught.jsonl", tasks())


def carried_out(name: str, tasks: Iterator[tuple[str, Callable[[], dict[str, Any]]]]) -> None:
    """Carry out what is not there yet, one line each, with processor seconds."""
    KEPT.mkdir(parents=True, exist_ok=True)
    done = {one["key"] for one in lines(name)}
    for key, task in tasks:
        if key in done:
            continue
        start = time.process_time()
        try:
            made = task()
        except Exception as error:  # the next ones go on; the table shows it
            made = {"error": f"{type(error).__name__}: {error}"}
        line = {"key": key, "seconds": round(time.process_time() - start, 1)} | made
        with (KEPT / name).open("a") as file:
            file.write(json.dumps(line) + "\n")
        if made.get("error") or (name == "honest.jsonl" and made["found"]) or made.get("expected") is False:
            print(line, flush=True)


def lines(name: str) -> list[dict[str, Any]]:
    path = KEPT / name
    return [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []


def tables() -> None:
    made = lines("honest.jsonl")
    runs = [one for one in made if "error" not in one]
    p = np.array([value for one in runs for value in one["p"].values()])
    spent, wrong = np.median([one["seconds"] for one in runs]), sum(bool(one["found"]) for one in runs)
    below = ", ".join(f"{at:g}: {np.mean(p < at):.3%}" for at in (0.05, 0.01, 0.001))
    print(f"{len(runs)} sound builds, {wrong} with a finding; {FALSE_ALARM:g} a run is stated; {spent:.1f} CPU s each")
    print(f"{len(p):,} p-values, shares below {below}")
    for one in made:
        if "error" in one or one["found"]:
            print(one["key"], one)
    broken, tried = all_broken(), lines("caught.jsonl")
    families = [family for family in FAMILIES if any(one.get("family") == family for one in tried)]
    print("\n| broken build | " + " | ".join(families) + " | found by | CPU s |\n|---|" + "---|" * (len(families) + 2))
    by_name: dict[str, dict[str, Any]] = {}
    for one in tried:
        by_name.setdefault(one["key"].partition(" ")[2], {})[one["key"].partition(" ")[0]] = one
    for name, here in by_name.items():
        cells = [_cell(here.get(family)) for family in families]
        by = sorted({by.partition(",")[0].partition("/")[0] for one in here.values() for by in one.get("by", ()) if by})
        spent = max(one["seconds"] for one in here.values())
        print(f"| {broken[name].wrong} | " + " | ".join(cells) + f" | {', '.join(by)} | {spent:.0f} |")


def _cell(one: dict[str, Any] | None) -> str:
    if one is None:
        return ""
    return "error" if "error" in one else "yes" if one["found"] else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["honest", "caught", "tables"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    os.nice(1)
    if chosen.what == "honest":
        honest(chosen.runs)
    elif chosen.what == "caught":
        caught(chosen.families, chosen.only)
    else:
        tables()


if __name__ == "__main__":
    main()
