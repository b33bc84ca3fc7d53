"""What was published stays readable, to the last byte, and both verifiers go on accepting it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from every_kind import KINDS, REVIEWED

from discreet import verify
from discreet.accounting.adaptive import filters, odometers
from discreet.certificate.canonical import digest, strict_json
from discreet.core import events
from discreet.core.events import event_json
from discreet.plan import AdaptivePlan, Plan
from discreet.verification.standalone import verify as reviewer

HERE = Path(__file__).parent
RECORDS: dict[str, Any] = json.loads((HERE / "records.json").read_text())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("golden")
    with tarfile.open(HERE / "folders.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target


def written(value: object) -> str:
    return json.dumps(value)  # with fields in their order


def test_every_kind_is_here(folders: Path) -> None:
    named = {name for event in RECORDS["events"] for name in _names(event)}
    assert named == set(events.KINDS)
    assert [one["filter"] for one in RECORDS["filters"]] == list(filters.KINDS)
    assert [one["odometer"] for one in RECORDS["odometers"]] == list(odometers.KINDS)
    assert set(RECORDS["plans"]) == set(KINDS) == {folder.name for folder in folders.iterdir()}


def _names(event: dict[str, Any]) -> list[str]:
    inner = event.get("of", [])
    return [event["event"], *(name for one in (inner if isinstance(inner, list) else [inner]) for name in _names(one))]


def test_events_filters_and_odometers_are_read_and_written_as_ever() -> None:
    for event in RECORDS["events"]:
        assert written(event_json.to_json(event_json.from_json(event))) == written(event)
    for one in RECORDS["filters"]:
        assert written(filters.as_dict(filters.from_dict(one))) == written(one)
    for one in RECORDS["odometers"]:
        assert written(odometers.as_dict(odometers.from_dict(one))) == written(one)


@pytest.mark.parametrize("name", RECORDS["plans"])
def test_plans_are_read_and_written_as_ever(name: str, folders: Path) -> None:
    facts, fingerprint = RECORDS["plans"][name]["plan"], RECORDS["plans"][name]["fingerprint"]
    kind = AdaptivePlan if facts.get("kind") == "adaptive" else Plan
    plan = kind.model_validate(facts)
    assert written(plan.model_dump(mode="json")) == written(facts)
    assert plan.fingerprint() == fingerprint
    text = (folders / name / "plan.yaml").read_text()
    assert yaml.safe_dump(plan.model_dump(mode="json"), sort_keys=False) == text
    assert kind.model_validate(yaml.safe_load(text)) == plan


@pytest.mark.parametrize("name", RECORDS["plans"])
def test_certificates_are_accepted_as_ever(name: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folders / name
    facts = strict_json((folder / "certificate.json").read_bytes(), "certificate.json")
    assert (json.dumps(facts, indent=2) + "\n").encode() == (folder / "certificate.json").read_bytes()
    assert facts["files"] == {one: digest((folder / one).read_bytes()) for one in facts["files"]}
    found = verify(folder, pages=False)  # whose words may change
    assert found.accepted, found.summary
    if name in REVIEWED:
        assert reviewer.main([str(folder)]) == 0, capsys.readouterr().out
