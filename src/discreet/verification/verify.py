"""`verify`: does the certificate of a published folder support its claim?

Written to be read by a reviewer who trusts nobody: it reads the files itself and recomputes epsilon with
`discreet.verification.recompute`, which shares no accounting code with the trainer. It imports neither torch nor
the plan. What it proves is that the claim follows from the stated events and belongs to this model; that
training did what the events say is for audits and tests to show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from discreet.certificate.canonical import canonical, digest
from discreet.certificate.earlier_runs import EarlierRun
from discreet.certificate.equal_blocks import written_out
from discreet.certificate.files import (
    FILES,
    check_certificate,
    check_files,
    check_model,
    check_plain,
    check_public_tensors,
    read,
    read_certificate,
)
from discreet.certificate.signature import check_signature, public_key
from discreet.certificate.tensorfile import tensor_digests, tensor_sizes
from discreet.core import assumptions
from discreet.core.adjacency import Unit
from discreet.core.errors import DiscreetError, plain
from discreet.core.rounding import delta_up, places_up
from discreet.verification.checks import (
    adaptive_run,
    fixed_plan,
    ledger_record,
    odometer,
    pre_queries,
    private_metrics,
    public_rows,
    shown_canaries,
    tuning,
)
from discreet.verification.checks.plan_events import stated, steps_in
from discreet.verification.checks.released_tensors import check_released
from discreet.verification.checks.sensitivity import check_clipping
from discreet.verification.checks.uncovered import Pages, check_others, check_pages
from discreet.verification.verdict import Check, Verification

_GRID_BITS = range(20, 51)
"""The bits that the grid may lie below the noise: rounding is nothing beside it, and no sum leaves 64-bit integers."""

_INDEPENDENT = ("poisson", "allocation", "cyclic_poisson", "none")
"""The samplers that draw each unit independently of the others, so that sites may draw their units by themselves."""

_NONE: Pages = {}

Question = Callable[[dict[str, Any], Path], tuple[bool, str]]

METHODS = ("pld", "rdp", "gaussian")
"""Names of theorems. Estimates have other names."""


def verify(
    folder: str | Path, key: str | None = None, *, signed: bool = True, pages: Pages = _NONE, strict: bool = False
) -> Verification:
    """Check a published folder. Unreadable files are an `InputError`; a claim that fails is a failed check.

    `key`: the required signer, as 64 hexadecimal digits or the path of a .pub file. Without it a signature may be
    missing, but an existing one must be valid (unless `signed` is false: then it is ignored). `pages`: the pages to
    write again and compare. `strict`: files that the certificate does not cover fail a check, instead of only being
    named. Nothing in the folder is run.
    """
    folder = Path(folder)
    for name in FILES:
        check_plain(folder / name)
    wanted = None if key is None else public_key(key)
    facts = read_certificate(folder)
    checks = [_answered("certificate", check_certificate, facts, folder)]
    if checks[0].passed:  # else its fields may be anything
        facts = facts | {"ledger": facts["ledger"] | {"entries": written_out(facts["ledger"]["entries"])}}
        checks += [_answered(name, question, facts, folder) for name, question in _QUESTIONS]
        if signed:
            checks.append(_answered("signature", lambda _, where: check_signature(where, wanted), facts, folder))
        if pages and all(check.passed for check in checks):
            checks.append(Check("pages", *check_pages(facts, folder, pages)))
        checks.append(Check("other files", *check_others(facts, folder, strict=strict)))
    claim = _claim(facts) if all(check.passed for check in checks) else None
    return Verification(tuple(checks), _summary(facts, checks), claim)


def _answered(name: str, question: Question, facts: dict[str, Any], folder: Path) -> Check:
    """The answer to one question; a question that cannot be answered fails."""
    try:
        passed, detail = question(facts, folder)
    except (
        DiscreetError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        passed, detail = False, f"cannot be followed here: {type(error).__name__} {error}"
    return Check(name, passed, plain(detail))


def _kind(facts: dict[str, Any]) -> tuple[bool, str]:
    claim = facts["claim"]
    adaptive = adaptive_run.is_adaptive(facts)
    methods = (
        (adaptive_run.method(facts),) if adaptive else (tuning.method(facts),) if tuning.is_search(facts) else METHODS
    )
    proved = claim["kind"] == "guarantee" and claim["method"] in methods
    one_part = facts["plan"].get("holdout") is None  # else the claim may be one of all who are held out
    if claim["method"] == "gaussian" and one_part and any(_sampled(event) for event, _ in stated(facts["events"])):
        return False, "the theorem is one of releases on everybody, and batches were sampled"
    rows = facts["plan"].get("rows_per_unit", 1)
    known = claim["unit"] in set(Unit) and type(rows) is int and rows >= 1
    known = known and (claim["unit"] == Unit.EXAMPLE or not adaptive)
    known = known and (claim["unit"] != Unit.EXAMPLE or rows == 1)
    known = known and not (adaptive and tuning.is_search(facts))
    return proved and known, f"a {claim['kind']} ({claim['method']}) about one {claim['unit']}"


def _sampled(event: dict[str, Any]) -> bool:
    """Whether a unit may be left out of a draw, by chance, so that a single Gaussian does not say what it costs."""
    if event["event"] == "fixed_size":
        return bool(event["batch"] < event["population"])
    return event["event"] in ("poisson", "truncated_poisson") and event["rate"] < 1


def _mechanism(facts: dict[str, Any]) -> tuple[bool, str]:
    mechanism, individual = facts["mechanism"], facts["plan"]["sampling"]["kind"] == "individual"
    known = mechanism["noise"] in ("fast", "exact")
    known = known and assumptions.known_engine(mechanism["engine"], mechanism["float_bits"])
    known = known and mechanism["grid_bits"] in _GRID_BITS
    assumed = not known or facts["assumptions"] == [
        *assumptions.general(Unit(facts["claim"]["unit"])),
        *assumptions.of_run(
            adaptive=adaptive_run.is_adaptive(facts),
            metrics=bool(private_metrics.metrics_of(facts["plan"])),
            holdout=facts["plan"].get("holdout") is not None,
            odometer=facts["plan"].get("odometer") is not None,
            before=bool(pre_queries.queries_of(facts["plan"])),
            search=tuning.kind(facts),
            individual=individual,
        ),
        *assumptions.public_rows(facts.get("public_batches")),
        *assumptions.canaries(facts.get("canaries")),
        *assumptions.base_model(facts.get("base")),
        *assumptions.warm_start(facts.get("warm_start")),
        *assumptions.clipping(facts["plan"]["clipping"], mechanism["float_bits"]),
        *assumptions.choices(adaptive_run.searches(facts["plan"]), mechanism["float_bits"]),
        assumptions.NOISE[mechanism["noise"]],
        assumptions.engine(mechanism["engine"], mechanism["float_bits"]),
        *assumptions.lanes(mechanism.get("lanes"), mechanism.get("sites")),
    ]
    if "sites" in mechanism:  # each draws for itself
        known = known and mechanism["sites"] == mechanism.get("lanes") and mechanism["sampler"] in _INDEPENDENT
    known = known and (mechanism["engine"] == "exact" or not individual)  # else a filter may depend on other rows
    said = f"{mechanism['randomness']!r} randomness, {mechanism['noise']!r} noise, {mechanism['engine']!r} engine"
    if not assumed:
        said = f"{said}; the assumptions are not those that this needs"
    return known and assumed and mechanism["randomness"] == "system", said


def _public_tensors(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Everything in the model but the private parameters is as declared before training."""
    return check_public_tensors(tuning.one_run(facts), folder)


def _plan(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    plan = facts["plan"]
    if facts["plan_fingerprint"] != "sha256:" + digest(canonical(plan)):
        return False, "the fingerprint is not that of the plan"
    if read(folder / "plan.yaml") != yaml.safe_dump(plan, sort_keys=False).encode():
        return False, "plan.yaml differs from the plan in the certificate"
    claim = facts["claim"]
    if (plan["delta"], plan["adjacency"], plan["unit"]) != (claim["delta"], claim["adjacency"], claim["unit"]):
        return False, "the claim has another delta, adjacency or unit than the plan"
    return True, "plan, plan.yaml, fingerprint and claim agree"


def _events(facts: dict[str, Any]) -> tuple[bool, str]:
    """The events are those that the plan produces, step by step, or those that were charged in an adaptive run."""
    plan = facts["plan"]
    if facts["mechanism"]["sampler"] != plan["sampling"]["kind"]:
        return False, "the sampler is not that of the plan"
    if adaptive_run.is_adaptive(facts):
        return adaptive_run.check_events(facts)
    if tuning.is_search(facts):
        return tuning.check_events(facts)
    events = private_metrics.all_events(plan)
    if events != stated(facts["events"]):
        return False, "the events are not those of the plan"
    return True, f"those of the plan, {steps_in(events)} steps"


def _clipping(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Multipliers are relative to a sensitivity: the stated one is that of the plan's clipping and of this model."""
    content = read(folder / "model.safetensors")
    return check_clipping(tuning.one_run(facts), tensor_sizes(content), tensor_digests(content))


def _epsilon(facts: dict[str, Any]) -> tuple[bool, str]:
    if adaptive_run.is_adaptive(facts):
        return adaptive_run.check_epsilon(facts)
    return tuning.check_epsilon(facts) if tuning.is_search(facts) else fixed_plan.check_epsilon(facts)


def _metrics(facts: dict[str, Any]) -> tuple[bool, str]:
    """Every figure of private rows was paid for."""
    return private_metrics.check_bought(tuning.one_run(facts))


def _ex_post(facts: dict[str, Any]) -> tuple[bool, str]:
    """The claim ex post is the reading of the plan's odometer for the charged blocks."""
    blocks = [entry["body"] for entry in facts["ledger"]["entries"] if entry["kind"] == "reservation"]
    return odometer.check_ex_post(facts, {"event": "compose", "of": blocks})


def _of_facts(check: Callable[[dict[str, Any]], tuple[bool, str]]) -> Question:
    """A question about the certificate alone."""
    return lambda facts, _folder: check(facts)


_QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("claim", _of_facts(_kind)),
    ("mechanism", _of_facts(_mechanism)),
    ("public rows", _of_facts(public_rows.check)),
    ("model", check_model),
    ("files", check_files),
    ("canaries", shown_canaries.check),
    ("released", check_released),
    ("public tensors", _public_tensors),
    ("plan", _plan),
    ("events", _of_facts(_events)),
    ("clipping", _clipping),
    ("ledger", _of_facts(ledger_record.check)),
    ("metrics", _of_facts(_metrics)),
    ("search", _of_facts(tuning.check_search)),
    ("epsilon", _of_facts(_epsilon)),
    ("ex post", _of_facts(_ex_post)),
)


def _claim(facts: dict[str, Any]) -> dict[str, Any]:
    """What an accepted folder claims, and the earlier private runs that come on top of it, in words."""
    named = {name: facts["claim"][name] for name in ("epsilon", "delta", "adjacency", "unit")}
    return named | {"on_top": [one.line for one in EarlierRun.named(facts.get("warm_start"))]}


def _summary(facts: dict[str, Any], checks: list[Check]) -> str:
    failed, notes = {check.name for check in checks if not check.passed}, [one.detail for one in checks if one.noted]
    if failed and failed <= {"pages", "other files"}:
        return "; ".join(["REJECTED: the certificate supports its claim, but not all that is in the folder", *notes])
    if failed and failed <= {"pages", "other files", "files"}:
        said = "REJECTED: the certificate supports its claim, but files beside it are not those that were certified"
        return "; ".join([said, *notes])
    if failed == {"signature"}:
        detail = next(check.detail for check in checks if not check.passed)
        return f"REJECTED: the certificate supports its claim, but nothing shows who vouches for it: {detail}"
    if failed:
        return "REJECTED: the certificate does not support its claim"
    claim = facts["claim"]
    accepted = (
        f"ACCEPTED: (epsilon {places_up(claim['epsilon'])}, delta {delta_up(claim['delta'])})-differentially private, "
        f"{claim['adjacency']}, unit {claim['unit']}, if training released what the events say"
    )
    if earlier := EarlierRun.named(facts.get("warm_start")):
        lines = ", ".join(one.line for one in earlier)
        notes = [f"it started from weights that other private runs released, which come on top: {lines}", *notes]
    return "; ".join([accepted, *notes])
