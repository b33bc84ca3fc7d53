"""What a certificate says: the mechanism, the ledger, the whole plan, and no figure of the private data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from problems import certified_run, tiny_plan, tiny_training
from promises import a_published_folder_is_accepted

from discreet import publish
from discreet.certificate.equal_blocks import written_out
from discreet.clipping import ENGINES
from discreet.ledger import public_record, record_digest
from discreet.ledger.chain import GENESIS
from discreet.randomness import NOISE_SAMPLERS


def keys_of(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def test_the_certificate_holds_no_figure_of_the_private_data(original: Path) -> None:
    facts = json.loads((original / "certificate.json").read_text())
    keys = set(keys_of({name: part for name, part in facts.items() if name != "public_evaluations"}))
    public = {"rows_per_unit"}  # declared in the plan, before the data is seen
    found = {key for key in keys if re.search(r"loss|accura|train|rows|length|size|batches|norms", key, re.I)}
    assert found == public
    assert set(facts["public_evaluations"][0]) == {"step", "loss", "accuracy"}
    assert not keys & {"at", "hash", "previous", "dataset", "clock"}  # times depend on the sizes of private batches


def test_who_guesses_the_times_of_a_run_cannot_confirm_them_by_the_seal(tmp_path: Path) -> None:
    """A certificate tells all of a ledger of one run but times. Those that are right give another seal."""
    trained = certified_run(tmp_path)
    publish(trained, tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())["ledger"]
    sealed, guessed = GENESIS, GENESIS
    for entry, shown in zip(trained.entries, written_out(stated["entries"]), strict=True):
        body = json.dumps(shown["body"], sort_keys=True, separators=(",", ":"))
        sealed = replace(entry, previous=sealed).seal()
        guessed = replace(entry, previous=guessed, body=body).seal()
    assert sealed == stated["head"]["seal"]
    assert guessed != sealed


@pytest.mark.parametrize(("engine", "noise"), [("exact", "exact"), ("reference", "fast"), ("vmap", "exact")])
def test_the_certificate_names_the_mechanism_and_its_assumptions(tmp_path: Path, engine: str, noise: str) -> None:
    publish(certified_run(tmp_path, engine=engine, noise=noise), tmp_path / "out")
    a_published_folder_is_accepted(tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["mechanism"] == {
        "sampler": "poisson",
        "engine": engine,
        "float_bits": None if engine == "exact" else 20,
        "noise": noise,
        "grid_bits": 30,
        "randomness": "system",
    }
    assert facts["assumptions"][-2:] == [NOISE_SAMPLERS[noise].assumption, ENGINES[engine].assumption]
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("2^-20 of the clip norm" in page) == (engine != "exact")
    assert ("ziggurat" in page) == (noise == "fast")
    assert ("one at a time, which is slower" in page) == (engine == "exact")  # what was chosen, and what it costs
    assert ("about 30 times as long" in page) == (noise == "exact")


def test_the_certificate_repeats_the_ledger_of_the_run(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    publish(trained, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "certificate.json").read_text())["ledger"]
    entries = written_out(record["entries"])
    assert entries == json.loads(json.dumps(public_record(trained.entries)))
    assert record["digest"] == record_digest(entries)
    assert [(entry["position"], entry["steps"]) for entry in entries if entry["kind"] == "reservation"] == [
        (0, 3),
        (3, 3),
        (6, 1),
    ]


def test_certificate_and_plan_are_strict_json_and_yaml(original: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    facts = json.loads((original / "certificate.json").read_text(), parse_constant=refuse)
    assert yaml.safe_load((original / "plan.yaml").read_text()) == facts["plan"]


def test_a_run_that_stopped_early_claims_the_whole_plan(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, stream=None)
    with training.session() as session, session.step() as step:
        for chunk in step.chunks:
            step.add(training.criterion, chunk)
    guarantee = publish(training.result(session), tmp_path / "out")
    assert guarantee == tiny_plan().guarantee()
    a_published_folder_is_accepted(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["charged_steps"] == 3
