"""What a forger may do to a certificate: changes to any field, and stories that are told alike in several places.

Every change is drawn from a generator, so that a forgery has a number. `resealed` then makes all agree that can be made
to agree without a secret: fingerprint, ledger, digests, hashes, counts, sentences. What is false in itself is left.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from discreet import DiscreetError
from discreet.accounting.account import guarantee
from discreet.core import assumptions
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.events.event_json import from_json
from discreet.randomness import NOISE_SAMPLERS
from discreet.verification.checks import adaptive_run, pre_queries, private_metrics, tuning
from discreet.verification.checks.plan_events import places
from discreet.verification.checks.sensitivity import RULES

Facts = dict[str, Any]
Change = Callable[[Facts, random.Random, Mapping[str, Facts]], str]

STRANGE = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1e-9,
    0.5,
    1.0,
    5.5,
    20,
    10**9,
    10**13,
    10**400,
    1e308,
    "",
    "x",
    "zero_out",
    "none",
    "user",
    "epoch",
    "gaussian",
    "adaptive",
    "system",
    "*",
    [],
    {},
    [[]],
    "\ud800",
    "\x1b[2J",
    "\u202e",
]
_FAILURES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
FACTORS = [0.1, 0.5, 0.9, 0.98, 1.02, 1.1, 2.0, 10.0]
STORIES = (
    "noise_multiplier",
    "multiplier",
    "rate",
    "count",
    "steps",
    "chosen",
    "period",
    "batch",
    "population",
    "capacity",
    "threshold",
    "epsilon",
    "noise",
    "norm",
    "query",
    "sensitivity",
    "every",
    "bound",
    "share",
    "rho",
    "limit",
    "limits",
    "orders",
    "order",
    "most_steps",
    "success",
    "mean",
    "rows_per_unit",
)
_NAMES = {
    "noise_multiplier": {"noise_multiplier", "multiplier", "noise"},
    "chosen": {"chosen"},
    "steps": {"steps", "period"},
    "norm": {"norm", "sensitivity"},
}


def changed(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> tuple[str, Facts]:
    """One to three changes to a copy; what they were, and the copy."""
    found, said = copy.deepcopy(facts), list[str]()
    wanted = draw.choice([1, 1, 1, 2, 2, 3])
    for _ in range(8):
        change = draw.choices(list(CHANGES), list(CHANGES.values()))[0]
        with contextlib.suppress(*_FAILURES):  # it does not apply
            said.append(change(found, draw, others))
        if len(said) == wanted and json.dumps(found) != json.dumps(facts):
            break
    if draw.random() < 0.3:
        with contextlib.suppress(*_FAILURES, DiscreetError):
            said.append(cheapest(found))
    return "; ".join(said), found


def cheapest(facts: Facts) -> str:
    """What a forger is after: the price of the events that are stated, whatever the plan would cost."""
    price = _price(canonical(facts["events"]), facts["claim"]["delta"], facts["claim"]["adjacency"])
    facts["claim"] |= {"epsilon": price * (1 + 1e-3), "lower": None}
    return f"claim: the price of the events, {price:.4g}"


@cache
def _price(event: bytes, delta: float, adjacency: str) -> float:
    return guarantee(from_json(json.loads(event)), delta, Adjacency(adjacency)).epsilon


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from spots(inner, (*path, key))


def at(facts: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        facts = facts[key]
    return facts


def _spot(facts: Facts, draw: random.Random) -> tuple[Any, Any, tuple[Any, ...]]:
    """Where one field is: what holds it, its name or place there, and its path; sections equally often."""
    section = draw.choice(["plan", "plan", "events", "ledger", *sorted(facts)])
    paths = list(spots({section: facts[section]}))
    *outer, last = draw.choice(paths)
    return at(facts, tuple(outer)), last, (*outer, last)


def _where(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def one_value(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """Another value of the same type, or a strange one."""
    inner, last, path = _spot(facts, draw)
    old = inner[last]
    if isinstance(old, bool) or old is None or draw.random() < 0.3:
        inner[last] = draw.choice(STRANGE)
    elif isinstance(old, int):
        inner[last] = draw.choice([old + 1, old - 1, old + 1000, -old, 2 * old, float(old), old + 0.5])
    elif isinstance(old, float):
        inner[last] = old * draw.choice([*FACTORS, -1.0, 1e300])
    elif isinstance(old, str):
        inner[last] = draw.choice([old[:-1], old + "0", old + "\n", old.upper(), old[::-1], " " + old])
    else:
        inner[last] = draw.choice([type(old)(), list(old) * 2, list(old)[::-1], [old], {"of": old}])
    return f"value of {_where(path)}"


def other_type(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """The same value as another type, or nested."""
    inner, last, path = _spot(facts, draw)
    old = inner[last]
    wraps = [str(old), [old], [old, old], {"of": old}, {"value": old}, {str(last): old}, {"0": old}, None, bool(old)]
    wraps += [float(old), str(float(old)), {"event": "repeat", "count": 1, "of": old}] if type(old) is int else []
    wraps += [int(old), f"{old:.3f}"] if type(old) is float else []
    inner[last] = draw.choice(wraps)
    return f"type of {_where(path)}"


def removed(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    inner, last, path = _spot(facts, draw)
    del inner[last]
    return f"{_where(path)} removed"


def added(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """A field that this kind of object does not have: often one that another kind has, with its value there."""
    inner, _, path = _spot(facts, draw)
    if isinstance(inner, list):
        inner.insert(draw.randrange(len(inner) + 1), copy.deepcopy(draw.choice([*inner, *STRANGE])))
        return f"one more in {_where(path[:-1])}"
    other = others[draw.choice(sorted(others))]
    lender = at(
        other, draw.choice([one for one in spots(other) if isinstance(at(other, one), dict) and at(other, one)])
    )
    name = draw.choice(sorted(lender))
    lent = draw.choice([lender[name], *STRANGE, 20, 5.5])
    inner[draw.choice([name, name, name, "period", "note", "period?", "*", name.upper()])] = copy.deepcopy(lent)
    return f"field {name} added in {_where(path[:-1])}"


def renamed(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    inner, last, path = _spot(facts, draw)
    if isinstance(inner, list):
        inner[last], inner[0] = inner[0], inner[last]
        return f"order of {_where(path[:-1])}"
    names = [f"{last}?", last.upper(), f"{last} ", f"{last}s", draw.choice(sorted(facts)), draw.choice(sorted(inner))]
    inner[draw.choice(names)] = inner.pop(last)
    return f"{_where(path)} renamed"


def doubled(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """Something in a list once more, or less, or in another order."""
    lists = [path for path in spots(facts) if isinstance(at(facts, path), list) and at(facts, path)]
    path = draw.choice(lists)
    inner = at(facts, path)
    which = draw.randrange(len(inner))
    way = draw.choice(["twice", "gone", "turned", "nested"])
    if way == "twice":
        inner.insert(which, copy.deepcopy(inner[which]))
    elif way == "gone":
        del inner[which]
    elif way == "turned":
        inner.reverse()
    else:
        inner[which] = {"event": "compose", "of": [inner[which]]} if "of" in path else [inner[which]]
    return f"{way}: {_where(path)}.{which}"


def of_another_kind(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """A part as another kind of run has it: sampling, clipping, noise, events, filter, search, a whole section."""
    other = copy.deepcopy(others[draw.choice(sorted(others))])
    if draw.random() < 0.6:
        name = draw.choice(sorted(set(other["plan"]) | {"kind"}))
        facts["plan"][name] = other["plan"].get(name, "adaptive")
        if draw.random() < 0.5:
            _same_events(facts, draw, other)
        return f"plan.{name} of another kind"
    name = draw.choice(sorted(other))
    facts[name] = other[name]
    return f"{name} of another kind"


def _same_events(facts: Facts, draw: random.Random, other: Facts) -> None:
    """The events of another run, told in the events and in the ledger."""
    facts["events"] = copy.deepcopy(other["events"])
    blocks = [copy.deepcopy(one) for one in other["ledger"]["entries"] if one["kind"] == "reservation"]
    record = [one for one in facts["ledger"]["entries"] if one["kind"] != "reservation"]
    facts["ledger"]["entries"] = record + blocks


def story(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """A figure changed wherever it stands under this name with this value, in some sections or in all."""
    wanted = draw.choice(STORIES)
    names = _NAMES.get(wanted, {wanted})
    everywhere = [path for path in spots(facts) if path[-1] in names]
    value = at(facts, draw.choice(everywhere))
    told = draw.choice(
        [
            ("plan",),
            ("events",),
            ("ledger",),
            ("events", "ledger"),
            ("plan", "events", "ledger"),
            ("plan", "events", "ledger", "clipping", "search", "claim", "bought_metrics"),
        ]
    )
    if isinstance(value, str):
        new: Any = draw.choice(["count", "clipped_sum", "histogram", "centred_bit", "loss"])
    elif isinstance(value, int):
        new = max(0, draw.choice([value + 1, value - 1, 2 * value, value // 2, 1, 10**6]))
    elif isinstance(value, list):
        new = [one * draw.choice(FACTORS) if isinstance(one, float) else one for one in value]
    else:
        new = value * draw.choice(FACTORS)
    for path in everywhere:
        if path[0] in told and at(facts, path) == value:
            at(facts, path[:-1])[path[-1]] = copy.deepcopy(new)
    return f"{wanted} {value!r} told as {new!r} in {'+'.join(told)}"


def fewer_events(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """Fewer events than there were, in the events and in the ledger alike, or events in another form."""
    way = draw.choice(["one of each", "fewer", "first only", "half", "wrapped", "flat", "no metrics", "in an epoch"])
    blocks = [one["body"] for one in facts["ledger"]["entries"] if one["kind"] == "reservation"]
    for body in [facts["events"], *blocks]:
        parts = body["of"]
        if way == "one of each":
            for part in parts:
                part["count"] = 1
        elif way == "fewer":
            parts[-1]["count"] = max(1, parts[-1]["count"] - 1)
        elif way == "first only":
            del parts[1:]
        elif way == "half":
            for part in parts:
                part["count"] = max(1, part["count"] // 2)
        elif way == "wrapped":
            body["of"] = [{"event": "repeat", "count": 1, "of": {"event": "compose", "of": parts}}]
        elif way == "flat":
            body["of"] = [part["of"] for part in parts]
        elif way == "no metrics":
            body["of"] = [part for part in parts if "clipped_sum" in json.dumps(part)] or parts[:1]
        else:
            body["of"] = [
                {"event": "repeat", "count": 1, "of": {"event": "epoch", "of": {"event": "compose", "of": parts}}}
            ]
    if way in ("one of each", "first only") and draw.random() < 0.7:  # a single block is left
        record = [one for one in facts["ledger"]["entries"] if one["kind"] != "reservation"]
        one, *_ = [one for one in facts["ledger"]["entries"] if one["kind"] == "reservation"]
        facts["ledger"]["entries"] = [*record, one]
    return f"events: {way}"


def of_another_sampler(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """A setting of another sampler, which would make periods or epochs of the steps, and events by it."""
    sampling = facts["plan"]["sampling"]
    steps = sum(phase["steps"] for phase in facts["plan"].get("noise", [])) or 7
    name = draw.choice(["period", "period", "batch", "chosen", "capacity", "rate", "kind"])
    sampling[name] = draw.choice([steps, steps, 1, 20, 5.5, 24, 0.5, "epoch", "allocation", "shuffle", "fixed_size"])
    fewer_events(facts, random.Random(draw.choice([0, 1, 2, 3])), others)
    return f"sampling.{name} {sampling[name]}, and fewer events"


def whom(facts: Facts, draw: random.Random, _others: Mapping[str, Facts]) -> str:
    """Another adjacency or unit, in all places or in some."""
    name, value = draw.choice(
        [
            ("adjacency", "zero_out"),
            ("adjacency", "replace_one"),
            ("adjacency", "add_remove"),
            ("unit", "user"),
            ("unit", "example"),
        ]
    )
    sections = draw.choice([("claim", "plan", "ledger", "ex_post"), ("plan",), ("claim", "plan")])
    for path in list(spots(facts)):
        if path[-1] == name and path[0] in sections:
            at(facts, path[:-1])[name] = value
    if draw.random() < 0.5 and name == "unit":
        facts["plan"]["rows_per_unit"] = draw.choice([1, 3])
    return f"{name} {value} in {'+'.join(sections)}"


def clipping(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """Another way to clip, with what the certificate says of it."""
    other = copy.deepcopy(others[draw.choice(sorted(others))])
    facts["plan"]["clipping"] = other["plan"]["clipping"]
    if draw.random() < 0.7:
        facts["clipping"] = other["clipping"]
    if draw.random() < 0.3:
        facts["clipping"]["sensitivity"] = draw.choice([0.5, 1.0, [[1.5, 1.0]], [[1.0, 7]]])
    return f"{facts['plan']['clipping']['kind']} clipping"


def claim(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """Less promised, or by another theorem, or at another delta."""
    way = draw.choice(["epsilon", "epsilon", "epsilon", "method", "delta", "lower", "winner"])
    if way == "epsilon":
        other = others[draw.choice(sorted(others))]["claim"]["epsilon"]
        old = facts["claim"]["epsilon"]
        facts["claim"]["epsilon"] = draw.choice(
            [*(old * x for x in (0.3, 0.5, 0.9, 0.98, 0.9994, 1.1)), other, 0.1, 0.0]
        )
    elif way == "method":
        facts["claim"]["method"] = draw.choice(["pld", "rdp", "gaussian", "moments", "zcdp-filter", "disjoint-parts"])
    elif way == "delta":
        delta = draw.choice([1e-3, 1e-4, 1e-6, 0.9, 1e-20])
        for path in list(spots(facts)):
            if path[-1] == "delta":
                at(facts, path[:-1])["delta"] = delta
    elif way == "lower":
        facts["claim"]["lower"] = draw.choice([None, 0.0, 50.0])
    else:
        facts["search"] = draw.choice([None, {"winner": {}, "epsilon_of_one_run": 0.1}, others["search"]["search"]])
    return f"claim: {way}"


def kind(facts: Facts, draw: random.Random, others: Mapping[str, Facts]) -> str:
    """A plan of another kind around the same run."""
    other = copy.deepcopy(others[draw.choice(sorted(others))])
    if draw.random() < 0.5:
        for name in ("adjacency", "unit", "sampling", "population", "clipping", "delta", "initial_state"):
            other["plan"][name] = facts["plan"][name]
    facts["plan"], facts["claim"]["method"] = other["plan"], other["claim"]["method"]
    facts["search"], facts["ex_post"] = other["search"], other["ex_post"]
    return "the plan of another kind of run"


CHANGES: Mapping[Change, int] = {
    one_value: 4,
    other_type: 3,
    removed: 2,
    added: 4,
    renamed: 2,
    doubled: 2,
    of_another_kind: 3,
    story: 6,
    fewer_events: 3,
    of_another_sampler: 2,
    whom: 2,
    clipping: 2,
    claim: 3,
    kind: 1,
}
"""And how often each is drawn."""


def resealed(facts: Facts, draw: random.Random) -> Facts:
    """All that follows from something else made to follow; now and then a step of it is left out."""
    for step in _SEALS:
        if draw.random() < 0.95:
            try:
                step(facts)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
                continue
    return facts


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _sampler(facts: Facts) -> None:
    facts["mechanism"]["sampler"] = facts["plan"]["sampling"]["kind"]


def _clipped(facts: Facts) -> None:
    spec = facts["plan"]["clipping"]
    facts["clipping"]["rule"] = RULES[spec["kind"]]
    if "norm" in spec and spec["kind"] != "per_layer":
        facts["clipping"]["sensitivity"] = spec["norm"]
    if spec["kind"] == "scheduled":
        facts["clipping"]["sensitivity"] = [[phase["norm"], phase["steps"]] for phase in spec["phases"]]


def _blocks(facts: Facts) -> None:
    position = 0
    for entry in facts["ledger"]["entries"]:
        if entry["kind"] == "reservation":
            steps = sum(part["count"] * places(part["of"]) for part in entry["body"]["of"])
            entry["position"], entry["steps"], position = position, steps, position + steps
    facts["charged_steps"] = position


def _state(facts: Facts) -> None:
    initial = facts["model"]["initial"]
    if facts["plan"]["initial_state"] is not None:
        text = "\n".join(f"{name} {initial[name]}" for name in sorted(initial))
        facts["plan"]["initial_state"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _opened(facts: Facts) -> None:
    facts["plan_fingerprint"] = "sha256:" + hashlib.sha256(canonical(facts["plan"])).hexdigest()
    opened, *_ = [one["body"] for one in facts["ledger"]["entries"] if one["kind"] == "run"]
    opened["plan"] = facts["plan_fingerprint"]
    opened |= {name: facts["claim"][name] for name in ("epsilon", "delta", "adjacency", "unit")}
    if "filter" in facts["plan"]:
        opened["filter"] = facts["plan"]["filter"]
    else:
        opened.pop("filter", None)


def _started(facts: Facts) -> None:
    wanted = {name: facts["mechanism"][name] for name in ("engine", "float_bits", "noise", "randomness")}
    attempts = [one for one in facts["ledger"]["entries"] if one["kind"] == "attempt"]
    for number, entry in enumerate(attempts):
        asked = {"engine": "queries", "noise": wanted["noise"], "randomness": wanted["randomness"]}
        entry["body"] = asked if number == 0 and facts["plan"]["before"] else dict(wanted)


def _sentences(facts: Facts) -> None:
    plan, mechanism = facts["plan"], facts["mechanism"]
    facts["assumptions"] = [
        *assumptions.general(Unit(facts["claim"]["unit"])),
        *assumptions.of_run(
            adaptive=adaptive_run.is_adaptive(facts),
            metrics=bool(private_metrics.metrics_of(plan)),
            holdout=plan.get("holdout") is not None,
            odometer=plan.get("odometer") is not None,
            before=bool(pre_queries.queries_of(plan)),
            search=tuning.kind(facts),
        ),
        *assumptions.public_rows(facts.get("public_batches")),
        *assumptions.clipping(plan["clipping"], mechanism["float_bits"]),
        *assumptions.choices(adaptive_run.searches(plan), mechanism["float_bits"]),
        NOISE_SAMPLERS[mechanism["noise"]].assumption,
        assumptions.engine(mechanism["engine"], mechanism["float_bits"]),
    ]


def _digest(facts: Facts) -> None:
    facts["ledger"]["digest"] = hashlib.sha256(canonical(facts["ledger"]["entries"])).hexdigest()


_SEALS = (_sampler, _clipped, _blocks, _state, _opened, _started, _sentences, _digest)
