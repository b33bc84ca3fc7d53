"""Facts of a certificate, read or put into words once for all pages: card, report, statement and record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan
from discreet.publication.pages.adaptive_course import course

_THEOREMS: Mapping[str, str] = {
    "pld": "Privacy-loss distribution of sampled Gaussian noise, composed over all steps, rounded upwards",
    "rdp": "Rényi differential privacy of sampled Gaussian noise, converted to epsilon and delta",
    "pld-profile": "Privacy profile of one run, from its privacy-loss distribution rounded upwards, carried over to "
    "the best of a secret number of runs",
    "disjoint-parts": "Disjoint parts of the data, of which a unit is in one: the dearer of one run, by its "
    "privacy-loss distribution rounded upwards, and one choice, by the exact profile of a release of bounded range",
    "gaussian": "Exact profile of the Gaussian mechanism; steps compose exactly",
    "rdp-curve-filter": "Privacy filter in Rényi differential privacy at several orders: its limits were fixed before "
    "the run and hold whatever was chosen on the way",
    "rdp-order-filter": "Privacy filter in Rényi differential privacy at one order: its limit was fixed before the run "
    "and holds whatever was chosen on the way",
    "zcdp-filter": "Privacy filter in zero-concentrated differential privacy: its limit was fixed before the run and "
    "holds whatever was chosen on the way",
    "gdp-filter": "Privacy filter in Gaussian differential privacy: its limit was fixed before the run and holds "
    "whatever was chosen on the way",
}


def theorem(facts: Mapping[str, Any]) -> str:
    """The theorem that the claim rests on; the method's name if it has no words here."""
    method = facts["claim"]["method"]
    return _THEOREMS.get(method, str(method))


def plan_of(facts: Mapping[str, Any]) -> Plan | AdaptivePlan:
    """The claimed plan, with its search if there was one."""
    kind = AdaptivePlan if facts["plan"].get("kind") == "adaptive" else Plan
    return kind.model_validate(facts["plan"])


def certified_epsilon(facts: Mapping[str, Any]) -> float:
    """The epsilon of the claim. Only a finite guarantee may be printed; estimates are refused."""
    claim = facts["claim"]
    if claim["kind"] != "guarantee":
        raise InputError(f"the claim is of kind {claim['kind']!r}; only a guarantee can be published")
    epsilon = claim["epsilon"]
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < math.inf:
        raise InputError(f"the certified epsilon must be finite and at least 0, got {epsilon!r}")
    return float(epsilon)


def final_metrics(facts: Mapping[str, Any]) -> dict[str, float]:
    """The last metrics on data declared public; empty if there are none."""
    evaluations = facts["public_evaluations"]
    return {name: value for name, value in evaluations[-1].items() if name != "step"} if evaluations else {}


def rate_changes(facts: Mapping[str, Any]) -> bool:
    """Whether the sampling rate changes from step to step."""
    plan = facts["plan"]
    if plan.get("kind") == "adaptive":
        return len(set(course(facts).batches)) > 1
    return len({phase["rate"] for phase in plan.get("rates", ())}) > 1


def held_out(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """The share of held-out rows, and whether epsilon is that of the dearer part; None without a hold-out."""
    holdout = plan.get("holdout")
    if holdout is None:
        return None
    return {"share": holdout["share"], "apart": plan.get("kind") != "adaptive" and plan["adjacency"] != "replace_one"}


def software(facts: Mapping[str, Any]) -> str:
    """Names and versions in one line."""
    return ", ".join(f"{name} {release}" for name, release in facts["software"].items())


def trained_tensors(facts: Mapping[str, Any]) -> str:
    """The number of the network's tensors that were trained on private data, in words."""
    trained, total = len(facts["model"]["private"]), len(facts["model"]["initial"])
    if trained < total:
        return f"{trained:,} of the network's {total:,} tensors; the others are as declared before training"
    return f"all {total:,} tensors of the network" if total > 1 else "the network's only tensor"
