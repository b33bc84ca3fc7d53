"""The schema of certificates: what is written keeps to it, what it does not name is refused, and it reads one way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from adaptive_runs import adaptive
from problems import blobs, certified_run, linear, tiny_plan

from discreet import InputError, publish, verify
from discreet.certificate.canonical import canonical, strict_json
from discreet.certificate.files import check_certificate
from discreet.certificate.json_schema import fault
from discreet.plan import PerLayerClipping
from discreet.publication import certificate_schema

SCHEMA = json.loads(certificate_schema.PATH.read_text())
DOCS = Path(__file__).parents[2] / "docs" / "certificate.md"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two kinds of run. (Those of all other kinds are held against the schema wherever a test has one accepted.)"""
    torch.set_num_threads(1)
    where = {name: tmp_path_factory.mktemp(name) for name in ("fixed", "adaptive")}
    fixed = tiny_plan(odometer="renyi", noise_multiplier=2.0).model_copy(
        update={"clipping": PerLayerClipping(norm=0.5)}
    )
    publish(certified_run(where["fixed"], plan=fixed, model=linear()), where["fixed"] / "out")
    run = certified_run(where["adaptive"], plan=adaptive(), public_validation=blobs(9, seed=2))
    publish(run, where["adaptive"] / "out")
    return {name: folder / "out" for name, folder in where.items()}


def facts_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text())
    return found


def test_the_shipped_schema_is_that_of_the_types() -> None:
    """If this fails, run `python -m discreet.publication.certificate_schema`."""
    assert certificate_schema.PATH.read_text() == certificate_schema.text()


def test_every_honest_certificate_keeps_to_the_schema(honest: dict[str, Path]) -> None:
    for name, folder in honest.items():
        assert check_certificate(facts_of(folder), folder)[0], (name, check_certificate(facts_of(folder), folder)[1])


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from objects(inner, (*path, key))


FREE = {"aliases", "groups", "initial", "files", "software", "public_evaluations", "norms", "scales", "winner"}
"""Names are data in these; what stands under a name must still be of the right type."""


def test_an_unknown_or_missing_field_is_refused_anywhere(honest: dict[str, Path]) -> None:
    tried = 0
    for name, folder in honest.items():
        for path in objects(facts_of(folder)):
            if path and path[0] == "ledger" and len(path) > 4 and path[2] > 2:
                continue  # many entries are alike
            facts = facts_of(folder)
            inner: Any = facts
            for key in path:
                inner = inner[key]
            inner["stowaway"] = {}
            if "winner" not in path:
                assert fault(facts, SCHEMA) is not None, (name, path)
            del inner["stowaway"]
            if inner and not FREE & set(path):
                optional = {"aliases", "filter", "float_bits", "groups", "coordinates"}
                for key in set(inner) - optional:
                    kept = inner.pop(key)
                    assert fault(facts, SCHEMA) is not None, (name, path, key)
                    inner[key] = kept
                    tried += 1
    assert tried > 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["claim"].update(epsilon="1"), "claim.epsilon must be of type number"),
        (lambda f: f["claim"].update(epsilon=True), "claim.epsilon must be of type number"),
        (lambda f: f["claim"].update(epsilon=float("nan")), "strict JSON"),
        (lambda f: f["claim"].update(kind="estimate"), "claim.kind must be one of guarantee"),
        (lambda f: f["claim"].update(epsilon=-1), "minimum"),
        (lambda f: f.update(charged_steps=7.0), "charged_steps must be of type integer"),
        (lambda f: f["model"].update(sha256="00"), "model.sha256 must match"),
        (lambda f: f["events"]["of"][0]["of"].update(event="poison"), "no known kind"),
        (lambda f: f["events"]["of"][0]["of"].update(rate=1.5), "maximum"),
        (lambda f: f.update(format="discreet-certificate/3"), "format"),
    ],
)
def test_a_field_of_another_type_is_named(honest: dict[str, Path], tmp_path: Path, change: Any, message: str) -> None:
    facts = facts_of(honest["fixed"])
    change(facts)
    for path in honest["fixed"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "certificate.json").write_text(json.dumps(facts))
    told = {one.name: one for one in verify(tmp_path).checks}["certificate"]
    assert not told.passed
    assert message in told.detail


def test_a_key_that_is_there_twice_is_refused(honest: dict[str, Path], tmp_path: Path) -> None:
    """One reader would take the first, another the last: each would see a claim of its own."""
    for path in honest["fixed"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (tmp_path / "certificate.json").read_text()
    (tmp_path / "certificate.json").write_text(text.replace('"epsilon":', '"epsilon": 0.1, "epsilon":', 1))
    assert json.loads((tmp_path / "certificate.json").read_text()) == facts_of(honest["fixed"])  # to most readers
    failed = {one.name: one.detail for one in verify(tmp_path).checks if not one.passed}
    assert set(failed) == {"certificate"}
    assert "twice" in failed["certificate"]


def test_the_canonical_form_is_one(honest: dict[str, Path]) -> None:
    facts = facts_of(honest["adaptive"])
    shuffled = json.loads(json.dumps(facts, indent=3), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert canonical(shuffled) == canonical(facts)
    assert strict_json(canonical(facts), "it") == facts
    assert canonical({"b": [1, 1.0, True, None], "a": "é"}) == b'{"a":"\\u00e9","b":[1,1.0,true,null]}'
    assert canonical(1) != canonical(1.0)
    with pytest.raises(InputError, match="canonical"):
        canonical(float("inf"))


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', "[NaN]", "[1e999]", "[-Infinity]", "{", "[" * 10**5, "\xff"])
def test_what_reads_in_two_ways_is_no_strict_json(text: str) -> None:
    with pytest.raises(InputError, match="where"):
        strict_json(text, "where")


def test_a_keyword_that_is_not_known_is_never_skipped() -> None:
    with pytest.raises(NotImplementedError, match="uniqueItems"):
        fault([1, 1], {"type": "array", "uniqueItems": True})


def test_every_section_is_documented() -> None:
    told = set(re.findall(r"^\| `(\w+)`", DOCS.read_text(), re.M))
    assert told >= set(SCHEMA["properties"])
