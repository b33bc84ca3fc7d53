"""Structured forgeries of every kind of certificate, told consistently: none may be accepted if it claims too little.

    python benchmarks/forgeries.py --forgeries 20000 --folder build/forgeries

A forgery begins with an honest folder of one of the kinds of tests/support/every_kind.py. One to three changes
(forgery_grammar.py) are made to its certificate, and everything that follows from something else is made to follow:
fingerprint, ledger, digests, hashes, counts, sentences. Some are changed as text, or as files. Both verifiers look at
the folder (pages for people apart, which a forger writes again as well), first believing every epsilon: what they then
reject is rejected for something else. The others are judged by the library's own plans and accounting: could a run have
written this certificate, and is its claim not below the truth? Where not, both verifiers look again and recompute
epsilon; one that accepts is wrong. Forgery number n is the same for the same honest folders; what was done is kept in
the folder, and a later call goes on from there. Prints a table for RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import math
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import torch
import yaml
from every_kind import KINDS, Tied, published
from forgery_grammar import Facts, canonical, changed, resealed
from forging import facts_of
from problems import WithPublicTensors, linear
from torch import nn

from discreet import DiscreetError, verify
from discreet.accounting.adaptive import filter_decision
from discreet.certificate.files import SCHEMA
from discreet.certificate.json_schema import fault
from discreet.core.events import Event, Repeat, flatten, steps_of, tally
from discreet.core.events.event_json import from_json
from discreet.core.guarantee import Guarantee
from discreet.ledger.meter import share
from discreet.plan import AdaptivePlan, Plan
from discreet.publication.sensitivity import sensitivity_record
from discreet.verification.checks import disjoint_parts, fixed_plan, private_metrics, random_stopping, tuning
from discreet.verification.checks.adaptive_run import LOOSENED
from discreet.verification.recompute import Bounds, Decision
from discreet.verification.standalone import verify as reviewer

_SCHEMA = json.loads(resources.files("discreet.certificate").joinpath(SCHEMA).read_text("utf-8"))
_SECONDS = 120
"""For one folder and one verifier; more is a fault by itself."""


class Untrue(Exception):
    """Why no run could have written this certificate, or why it promises too much."""


def true(holds: bool, why: str) -> None:
    if not holds:
        raise Untrue(why)


def judged(facts: Facts, kind: str) -> str:
    """What is wrong with a certificate that was accepted, by the library's plans and accounting; "" if nothing is."""
    try:
        found = fault(facts, _SCHEMA)
        true(found is None, f"the schema has no such certificate: {found}")
        plan = _plan(canonical(facts["plan"]))
        free = {"policy": 0, "noise": 0} if isinstance(plan, AdaptivePlan) else {}
        true(plan.model_dump(mode="json") | free == facts["plan"] | free, "the library reads another plan")
        claim = facts["claim"]
        whose = (plan.delta, plan.adjacency.value, plan.unit.value)
        true(
            (claim["delta"], claim["adjacency"], claim["unit"]) == whose,
            "the claim is not about what the plan is about",
        )
        guarantee = _guarantee(canonical(facts["plan"]))
        least = guarantee.epsilon * (1 - 2e-3) if guarantee.lower is None else guarantee.lower
        true(claim["epsilon"] >= least, f"epsilon {claim['epsilon']} is claimed, the truth is {least} at least")
        true(claim["lower"] is None or claim["lower"] <= guarantee.epsilon, "the lower bound is above epsilon")
        true(facts["mechanism"]["randomness"] == "system", "the noise can be repeated")
        _check_events(facts, plan)
        _check_clipping(facts, plan, kind)
        if plan.odometer is not None:
            rule = plan.odometer
            reading = rule.read(rule.after(rule.start(), _charged(facts))).epsilon
            stated = facts["ex_post"]["reading"]
            true(stated is None or stated >= reading * (1 - 1e-6), "the odometer reads more")
    except (DiscreetError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        return f"{type(error).__name__} {error}"
    except Untrue as untrue:
        return str(untrue)
    return ""


@cache
def _plan(text: bytes) -> Plan | AdaptivePlan:
    """The plan of the library. Of an adaptive run, no guarantee depends on the policy, nor on where it starts."""
    data = json.loads(text)
    if data.get("kind") != "adaptive":
        return Plan.model_validate(data)
    with contextlib.suppress(DiscreetError, ValueError):
        return AdaptivePlan.model_validate(data)
    data["policy"] = data["policy"] if data["policy"]["kind"] == "line_search" else {"kind": "constant"}
    with contextlib.suppress(DiscreetError, ValueError):
        return AdaptivePlan.model_validate(data)
    return AdaptivePlan.model_validate(data | {"noise": 1e3})


@cache
def _guarantee(text: bytes) -> Guarantee:
    return _plan(text).guarantee()


def _charged(facts: Facts) -> Event:
    blocks = [one["body"] for one in facts["ledger"]["entries"] if one["kind"] == "reservation"]
    return from_json({"event": "compose", "of": [part for block in blocks for part in block["of"]]})


def _check_events(facts: Facts, plan: Plan | AdaptivePlan) -> None:
    """What was released is what the plan releases, or what its filter admits; charged, and what is shown was bought."""
    events, charged = tally(from_json(facts["events"])), tally(_charged(facts))
    true(all(events.get(event, 0) >= count for event, count in charged.items()), "more was charged than released")
    if isinstance(plan, Plan):
        true(events == tally(plan.event()), "the events are not those of the plan")
    else:
        spent, steps = filter_decision.start(plan.filter), 0
        for event, count in flatten(from_json(facts["events"])):
            spent = filter_decision.propose(plan.filter, spent, Repeat(event, count)).spent
            steps += count * len(steps_of(event))
        true(events == charged, "the events are not those that were charged")
        true(share(plan.filter, spent) <= LOOSENED and steps <= plan.most_steps, "the filter does not admit this")
    run = tuning.one_run(facts)
    paid = Counter(json.dumps(private_metrics.event_of(metric)) for metric in run["plan"]["metrics"])
    shown = Counter(one["metric"] for one in facts["bought_metrics"])
    names = {f"{metric['rows']}_{metric['kind']}": metric for metric in run["plan"]["metrics"]}
    inner = tally(from_json(run["events"]))
    for name, times in shown.items():
        true(name in names, f"{name} was never for sale")
        event = private_metrics.event_of(names[name])
        true(inner.get(from_json(event), 0) >= times and json.dumps(event) in paid, f"{name} was not paid for")


def _check_clipping(facts: Facts, plan: Plan | AdaptivePlan, kind: str) -> None:
    """The stated sensitivity is that of the plan's clipping, of this model."""
    run = plan
    if isinstance(plan, Plan) and plan.search is not None:
        run = plan.search.one_trial(plan, facts["search"]["winner"])
    events = run.event() if isinstance(run, Plan) else _charged(facts)
    record, stated = sensitivity_record(run.clipping, events, _model(kind)), json.loads(json.dumps(facts["clipping"]))
    for group in (*record.get("groups", {}).values(), *stated.get("groups", {}).values()):
        group["parameters"] = sorted(group["parameters"])  # their order says nothing
    true(_close(record, stated), f"the sensitivity is {record}, not {facts['clipping']}")


def _model(kind: str) -> nn.Module:
    if kind.endswith("clipping"):
        return Tied()
    return linear() if kind in ("queries", "filter, queries", "line search") else WithPublicTensors()


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_close(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    return math.isclose(one, other, rel_tol=1e-8) if isinstance(one, float) else bool(one == other)


def as_text(facts: Facts, draw: random.Random) -> tuple[str, bytes]:
    """A certificate as bytes: as it should be, or so that readers could differ; "" says that they cannot."""
    text = json.dumps(facts)
    ways: dict[str, Callable[[], bytes]] = {
        "UTF-16": lambda: text.encode("utf-16"),
        "UTF-16 without a mark": lambda: text.encode("utf-16-le"),
        "UTF-32": lambda: text.encode("utf-32"),
        "a mark before UTF-8": lambda: b"\xef\xbb\xbf" + text.encode(),
        "a claim twice": lambda: text.replace('"epsilon":', '"epsilon": 0.1, "epsilon":', 1).encode(),
        "a section twice": lambda: text.replace('"claim":', '"claim": {}, "claim":', 1).encode(),
        "1e999": lambda: text.replace(
            '"public_evaluations": [', '"public_evaluations": [{"step": 1, "x": 1e999}, '
        ).encode(),
        "NaN": lambda: text.replace('"step": 7', '"step": 7, "x": NaN').encode() if '"step": 7' in text else b"NaN",
        "half a pair": lambda: text.replace('"software": {', '"software": {"a": "\\ud800", ').encode(),
        "escape": lambda: text.replace('"software": {', '"software": {"a": "\\u001b[2J", ').encode(),
        "turned": lambda: text.replace('"assumptions": [', '"assumptions": ["\\u202eACCEPTED", ').encode(),
        "more behind": lambda: text.encode() + b"{}",
        "a comment": lambda: b"/* */" + text.encode(),
    }
    if draw.random() < 0.97:
        return "", text.encode()
    way = draw.choice(sorted(ways))
    return way, ways[way]()


def on_disk(folder: Path, draw: random.Random) -> str:
    """A change to the folder itself; "" if there is none, which is most often."""
    if draw.random() < 0.98:
        return ""
    way = draw.choice(["link", "pipe", "folder", "header", "bytes behind", "link of signature", "page"])
    model = folder / "model.safetensors"
    name = draw.choice(["model.safetensors", "certificate.json", "report.html", "verify.py", "plan.yaml"])
    if way == "link":
        shutil.move(folder / name, folder.with_name("elsewhere"))
        (folder / name).symlink_to(folder.with_name("elsewhere"))
    elif way == "pipe":
        (folder / name).unlink()
        os.mkfifo(folder / name)
    elif way == "folder":
        (folder / name).unlink()
        (folder / name).mkdir()
    elif way == "header":
        content = model.read_bytes()
        model.write_bytes(content.replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    elif way == "bytes behind":
        model.write_bytes(model.read_bytes() + b"\0" * 8)
    elif way == "link of signature":
        (folder / "signature.json").symlink_to("nowhere")
    else:
        (folder / "report.html").write_text("epsilon 0.1")
    return f"{way} {name}"


def write(folder: Path, original: Path, facts: Facts, draw: random.Random) -> str:
    """The forged folder, hashes resealed. Returns how it was changed beside the certificate's facts."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    if isinstance(facts.get("files"), dict):
        with contextlib.suppress(yaml.YAMLError, RecursionError, KeyError, UnicodeError, ValueError):
            plan = yaml.safe_dump(facts["plan"], sort_keys=False).encode()
            (folder / "plan.yaml").write_bytes(plan)
            if "plan.yaml" in facts["files"]:
                facts["files"]["plan.yaml"] = hashlib.sha256(plan).hexdigest()
    said, content = as_text(facts, draw)
    (folder / "certificate.json").write_bytes(content)
    return "; ".join(filter(None, [said, on_disk(folder, draw)]))


class Late(Exception):
    """A verifier took too long."""


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def accepted_by(folder: Path, single: ModuleType = reviewer) -> tuple[dict[str, bool | str], str]:
    """Whether each verifier accepts a folder, text for one that failed to answer; and why not, in a few words."""
    said: dict[str, bool | str] = {}
    why = "reading"

    def by_the_library() -> bool:
        nonlocal why
        verification = verify(folder, pages=False)
        why = ", ".join(check.name for check in verification.checks if not check.passed)
        return verification.accepted

    for name, ask in (("discreet verify", by_the_library), ("verify.py", lambda: single.main([str(folder)]) == 0)):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), _in_time():
                said[name] = ask()
        except DiscreetError:
            said[name] = False
        except (Late, MemoryError, Exception) as error:
            said[name] = f"{type(error).__name__} {error}"
        if not all(char.isprintable() or char == "\n" for char in out.getvalue()):
            said[name] = "text that moves the cursor was printed"
    return said, why


@contextlib.contextmanager
def believing(single: ModuleType) -> Iterator[None]:
    """Inside, every epsilon is believed: what is rejected all the same is rejected for something else."""
    sure = Decision(True, Bounds(0.0, math.inf, 0.0), "believed")
    places = [
        (module, name) for module in (fixed_plan, tuning, random_stopping, disjoint_parts) for name in dir(module)
    ]
    asked = [(module, name) for module, name in places if name in ("decide", "decide_search", "decide_choice")]
    kept = [(module, name, getattr(module, name)) for module, name in [*asked, (single, "epsilon_of")]]
    for module, name in asked:
        setattr(module, name, lambda *_: sure)
    single.epsilon_of = lambda *given: given[-1]  # type: ignore[attr-defined]  # what is claimed
    try:
        yield
    finally:
        for module, name, real in kept:
            setattr(module, name, real)


def honest(folder: Path, kinds: Mapping[str, Any] = KINDS) -> dict[str, Path]:
    """Honest folders by kind, made where they are not there yet."""
    found = {}
    for number, name in enumerate(kinds):
        place = folder / "honest" / str(list(KINDS).index(name))
        found[name] = place / "out"
        if not found[name].exists():
            shutil.rmtree(place, ignore_errors=True)
            published(place, name)
        if number % 8 == 7:
            print(f"{number + 1} honest folders", file=sys.stderr)
    return found


def forgery(
    number: int, originals: Mapping[str, Path], facts: Mapping[str, Facts], place: Path
) -> tuple[str, str, str, Facts]:
    """Forgery `number` written to `place`: its kind, what was done to the facts and beside them, and the facts."""
    draw, names = random.Random(number), sorted(originals)
    kind = draw.choices(names, [0.2 if name in ("search", "parts") else 1.0 for name in names])[0]  # these take long
    said, made = changed(facts[kind], draw, facts)
    made = resealed(made, draw)
    beside = write(place, originals[kind], made, draw)
    return kind, said, beside, made


def run(
    numbers: Iterable[int], folder: Path, kinds: Mapping[str, Any] = KINDS, single: ModuleType = reviewer
) -> Iterator[Facts]:
    """What became of each forgery."""
    originals = honest(folder, kinds)
    facts = {name: facts_of(path) for name, path in originals.items()}
    for number in numbers:
        kind, what, beside, made = forgery(number, originals, facts, folder / "forged")
        same = json.dumps(made) == json.dumps(facts[kind]) and not beside
        with believing(single):
            said, why = accepted_by(folder / "forged", single)
        reason = (
            "no more than the truth" if beside else "" if same else judged(made, kind) if any(said.values()) else ""
        )
        if reason and any(said.values()):
            said, why = accepted_by(folder / "forged", single)  # now epsilon is recomputed as well
        wrong = [f"{name}: {answer}" for name, answer in said.items() if isinstance(answer, str)]
        accepting = ", ".join(name for name, answer in said.items() if answer is True)
        if accepting and reason:
            wrong.append(f"accepted by {accepting}: {beside or reason}")
        told = "no change" if same else f"nothing false, for {accepting}" if accepting else "rejected by both"
        yield {"number": number, "kind": kind, "what": what, "beside": beside, "told": told, "by": why, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forgeries", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=Path("build/forgeries"))
    parser.add_argument("--reviewer", type=Path, help="another verify.py, to see what this finds in it")
    given = parser.parse_args()
    torch.set_num_threads(1)
    single = reviewer
    if given.reviewer is not None:
        spec = importlib.util.spec_from_file_location("other_reviewer", given.reviewer)
        assert spec is not None
        assert spec.loader is not None
        single = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(single)
    given.folder.mkdir(parents=True, exist_ok=True)
    record = given.folder / ("told.jsonl" if single is reviewer else "told-other.jsonl")
    told = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {one["number"]: one for one in told}  # the last answer counts; what was wrong is asked again
    numbers = [n for n in range(given.forgeries) if n not in done or done[n]["wrong"]]
    with record.open("a") as file:
        for one in run(numbers, given.folder, single=single):
            done[one["number"]] = one
            file.write(json.dumps(one) + "\n")
            file.flush()
            if one["wrong"]:
                print(json.dumps(one), file=sys.stderr)
    every = [done[n] for n in range(given.forgeries)]
    print(f"| forgeries of {len(KINDS)} kinds of certificates | {len(every)} |\n|---|---|")
    for what, number in sorted(Counter(one["told"] for one in every).items()):
        print(f"| {what} | {number} |")
    print(
        f"| accepted with a claim below the truth, or by what cannot be | {sum(bool(one['wrong']) for one in every)} |"
    )


if __name__ == "__main__":
    main()
