"""A record for the Privacy Deployments Registry of OpenDP, from a verified folder and its holder's answers.

The form is that of the registry's schema of September 2026 (opendp/deployments-registry-data,
schemas/deployments-schema.yaml). Its tiers: 1 says what the product is, 2 adds the guarantee, 3 everything else.
"""

from __future__ import annotations

import re
from typing import Any

from discreet.core.errors import InputError
from discreet.core.rounding import places_up
from discreet.publication.disclosure import facts_in_words as says
from discreet.publication.disclosure.facts_in_words import Certified
from discreet.publication.disclosure.holder import Holder, Source
from discreet.publication.pages.certificate_facts import certified_epsilon

_BASIC = ("name", "description", "intended_use", "curator.name", "curator.kind", "region", "sector", "authors")
_ADVANCED = ("unit", "epsilon", "settings", "trust", "accuracy")
"""Answers that the registry's tiers 1 and 3 need; tier 2 needs none."""

_BEYOND_LETTERS = re.compile(r"[^a-z0-9]+")


def record(one: Certified, holder: Holder) -> dict[str, Any]:
    """The record, ready for YAML. `InputError` that names all answers which tier 1 lacks."""
    missing = [name for name in _BASIC if not _answer(holder, name)]
    published = holder.published or one.about.date
    missing += [] if published else ["published"]
    if missing:
        raise InputError(f"the registry's first tier needs answers to: {', '.join(missing)}; fill them in")
    return {
        "url_slug": _BEYOND_LETTERS.sub("-", str(holder.name).lower()).strip("-"),
        "deployment": {
            "basic": _basic(holder, str(published)),
            "dp_variant": {
                "variant_name": "Approximate DP" if one.facts["claim"]["delta"] else "Pure DP",
                "data_domain": _domain(one),
                "unprotected_quantities": says.answered(one)["Not private"],
            },
            "privacy_loss": _loss(one, holder),
            "deployment_model": _model(holder),
            "implementation": _implementation(one, holder),
            "administrative": _administrative(holder),
        },
    }


def as_yaml(facts: dict[str, Any]) -> str:
    """The record as the text of a YAML file."""
    import yaml

    return str(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=100))


def tier(holder: Holder) -> int:
    """The registry's tier that the answers reach; the guarantee itself is in the certificate."""
    return 3 if all(_answer(holder, name) for name in _ADVANCED) else 2


def _answer(holder: Holder, name: str) -> Any:
    found: Any = holder
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _basic(holder: Holder, published: str) -> dict[str, Any]:
    return {
        "name": holder.name,
        "data_curators": [{"data_curator_name": holder.curator.name, "data_curator_type": holder.curator.kind}],
        "description": holder.description,
        "intended_use": holder.intended_use,
        "data_product_type": "Machine learning model",
        "data_product_region": holder.region,
        "data_product_sector": holder.sector,
        "publication_date": published,
    }


def _domain(one: Certified) -> str:
    columns = ", ".join(f"{name} ({what})" for name, what in one.purpose.columns)
    size = "any" if one.facts["claim"]["adjacency"] == "add_remove" else "a public"
    return f"Data sets of {size} number of {one.words.many}" + (
        f", each with the columns {columns}." if columns else "."
    )


def _loss(one: Certified, holder: Holder) -> dict[str, Any]:
    claim = one.facts["claim"]
    unit = {"privacy_unit": one.words.unit, "privacy_unit_details": f"{says.neighbours(one)}."}
    if holder.unit:
        unit["privacy_unit_details"] += f" {holder.unit}"
    parameters = {"epsilon": float(places_up(certified_epsilon(one.facts)))}
    if claim["delta"]:
        parameters["delta"] = claim["delta"]
    return {
        **unit,
        "number_of_privacy_units": round(one.plan.population),
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"{says.answered(one)['Guarantee']}. The number of units is the declared one.",
    }


def _model(holder: Holder) -> dict[str, Any]:
    return {
        "model_name": "Central",
        **_given("trust_assumptions", holder.trust),
        "release_type": "One release",
        **_given("release_type_details", holder.other_releases),
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(one: Certified, holder: Holder) -> dict[str, Any]:
    report, found = says.answered(one), says.accuracy(one)
    tuned = f"Covered: {report['Looks at the data that are covered']}. Not covered: "
    tuned += report["Looks at the data that are not covered"]
    utility = [holder.accuracy, None if found is None else f"On public rows: {found}.", holder.bias]
    return {
        "preprocessing_and_hyperparameter_tuning": " ".join(filter(None, (f"{tuned}.", holder.settings))),
        "mechanisms": f"{says.algorithm(one)}. {says.implementation(one)}.",
        "composition": f"{says.accounting(one)}.",
        "post_processing": "Whatever the optimizer and the average of models make of released sums; the model itself.",
        **_given("justification", holder.epsilon),
        **_given("utility", " ".join(filter(None, utility))),
        "additional_information": f"Certificate with SHA-256 {one.digest}. To check it: {report['To check it']}.",
    }


def _administrative(holder: Holder) -> dict[str, Any]:
    sources = {f"source_{place}": _source(one) for place, one in enumerate(holder.sources, 1)}
    return {
        **({"evidence_sources": sources} if sources else {}),
        "status": "Draft",
        "registry_authors": list(holder.authors),
        "tier": tier(holder),
    }


def _source(one: Source) -> dict[str, Any]:
    return {"evidence_source_type": one.kind, "misc": {"title": one.title, **_given("url", one.url)}}


def _given(name: str, answer: str | None) -> dict[str, str]:
    return {name: answer} if answer else {}
