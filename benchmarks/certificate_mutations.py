"""Random changes of one field of an honest certificate: none may be accepted with a claim below the truth.

    python benchmarks/certificate_mutations.py --mutations 500

Each mutation changes, removes or adds one field, at any depth, of a certificate of one of three runs (fixed plan with
metrics, under a filter, searched for). `discreet verify` and verify.py must both reject it, unless the claim is still
that of the honest certificate or a weaker one. Prints a table for RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from adaptive_runs import adaptive
from problems import blobs, certified_run, tiny_plan
from searches import tuning

from discreet import DiscreetError, publish, verify
from discreet.plan import Metric
from discreet.publication.reviewer import verify as reviewer

Facts = dict[str, Any]


def honest(folder: Path) -> dict[str, Path]:
    """Folders of three kinds of run."""
    fixed = tiny_plan(metrics=[Metric(kind="accuracy", noise=5.0, every=3)])
    runs = {
        "fixed": certified_run(folder / "a", plan=fixed),
        "filter": certified_run(folder / "b", plan=adaptive(), public_validation=blobs(9, seed=2)),
        "search": tuning(folder / "c").run(),
    }
    for name, run in runs.items():
        publish(run, folder / name)
    return {name: folder / name for name in runs}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def mutated(facts: Facts, draw: random.Random) -> tuple[str, Facts]:
    """The certificate with one field changed, and which."""
    found = copy.deepcopy(facts)
    section = draw.choice(sorted(found))  # or most changes would be to the longest one
    *outer, last = draw.choice([path for path in places(found) if path[0] == section])
    inner: Any = found
    for key in outer:
        inner = inner[key]
    way = draw.choice(["change", "change", "change", "remove", "add", "replace"])
    if way == "remove":
        del inner[last]
    elif way == "add" and isinstance(inner, dict):
        inner["note"] = draw.choice([0, "x", None, {}])
    elif way == "change":
        inner[last] = _changed(inner[last], draw)
    else:
        inner[last] = draw.choice([None, True, 0, -1, 1e-9, 0.5, 1e9, "", "zero_out", "user", [], {}])
    return f"{way} {'.'.join(map(str, (*outer, last)))}", found


def _changed(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return draw.choice([0, 1, True, False, "no"])
    if isinstance(value, int):
        return value + draw.choice([-1, 1, 1000, -value])
    if isinstance(value, float):
        return value * draw.choice([0.5, 0.9, 0.99, 1.01, 1.1, 2.0, -1.0])
    if isinstance(value, str):
        return draw.choice([value[:-1], value + "0", value.upper(), value[::-1]])
    if isinstance(value, list):
        return draw.choice([value[1:], value[::-1], value + value, []])
    return draw.choice([{}, [], {key: value[key] for key in list(value)[1:]}])


def accepted_by(folder: Path) -> list[str]:
    """Which of the two verifiers accept a folder."""
    said = []
    with contextlib.suppress(DiscreetError):
        said += ["discreet verify"] if verify(folder).accepted else []
    with contextlib.redirect_stdout(io.StringIO()):
        said += ["verify.py"] if reviewer.main([str(folder)]) == 0 else []
    return said


def weaker(claim: Facts, honest_claim: Facts) -> bool:
    """Whether a claim promises no more than the honest one."""
    same = all(claim[name] == honest_claim[name] for name in ("kind", "adjacency", "unit"))
    return same and claim["epsilon"] >= honest_claim["epsilon"] and claim["delta"] >= honest_claim["delta"]


def run(mutations: int, folder: Path, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """How many mutations were accepted by whom, and those that claim too much."""
    originals = {name: json.loads((path / "certificate.json").read_text()) for name, path in honest(folder).items()}
    draw, counts, wrong = random.Random(seed), Counter[str](), []
    for _ in range(mutations):
        name = draw.choice(sorted(originals))
        what, facts = mutated(originals[name], draw)
        if facts == originals[name] and json.dumps(facts) == json.dumps(originals[name]):
            counts["no change"] += 1
            continue
        (folder / name / "certificate.json").write_text(json.dumps(facts))
        said = accepted_by(folder / name)
        counts["rejected by both" if not said else f"accepted by {', '.join(said)}, claim not below the truth"] += 1
        if said and not weaker(facts["claim"], originals[name]["claim"]):
            wrong.append(f"{name}: {what} accepted by {', '.join(said)}")
        elif said:
            print(f"harmless: {name}: {what}", file=sys.stderr)
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=500)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = run(parser.parse_args().mutations, Path(folder))
    print("| mutations | number |\n|---|---|")
    for what, number in sorted(counts.items()):
        print(f"| {what} | {number} |")
    print(f"| accepted with a claim below the truth | {len(wrong)} |")
    print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
