"""The privacy statement and the registry's record: of every kind of run, with and without the holder's answers."""

from __future__ import annotations

import html
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from discreet.certificate.files import read_certificate
from discreet.certificate.model_spec import ModelSpec
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.publication.disclosure.facts_in_words import Certified
from discreet.publication.disclosure.holder import (
    CURATORS,
    SECTORS,
    SOURCES,
    Holder,
    questions,
    read_answers,
    unanswered,
)
from discreet.publication.disclosure.registry_record import as_yaml, record, tier
from discreet.publication.disclosure.sections import sections
from discreet.publication.disclosure.statement import statement_page
from discreet.publication.pages.certificate_facts import plan_of

GOLDEN = Path(__file__).parents[1] / "golden" / "folders.tar.xz"
SCHEMA: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "deployments-schema.yaml").read_text())

LAYERS = [
    "Unit of privacy",
    "Epsilon",
    "Algorithm",
    "Accuracy and bias",
    "Side channels",
    "Trust model",
    "Data collection",
]
BASIC: dict[str, Any] = {
    "name": "Digits by hand",
    "description": "Reads digits.",
    "intended_use": "Postal codes.",
    "curator": {"name": "The Post", "kind": "Government"},
    "region": "Turkey",
    "sector": "Government",
    "published": "2026-11-25",
    "authors": ["A. Author"],
}
ALL = BASIC | {
    name: f"Words on {name} <b>."
    for name in ("unit", "epsilon", "other_releases", "settings", "accuracy", "bias", "side_channels", "trust")
}
ALL |= {
    "collection": "By post.",
    "protection": "In a safe.",
    "sources": [{"title": "Sheet", "url": "https://a.example"}],
}


def certified(folder: Path) -> Certified:
    facts = read_certificate(folder)
    return Certified(facts, plan_of(facts), ModelSpec.from_json((folder / "model.json").read_bytes()), "0" * 64)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    target = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(target, filter="data")
    return sorted(target.iterdir())


def check_page(one: Certified, holder: Holder) -> None:
    found = [entry for section in sections(one, holder) for entry in section.entries]
    assert [section.title for section in sections(one, holder)] == LAYERS
    page = statement_page(one, holder)
    assert page.count("Not answered") == sum(entry.answer is None for entry in found)
    assert "<b>" not in page
    assert ("&lt;b&gt;" in page) == (holder.unit is not None)
    assert html.escape(one.words.unit).replace("x27", "39") in page
    assert "0" * 64 in page
    assert "Run discreet verify FOLDER" in page  # as it is typed
    assert not re.search(r"\{[{%]|None|\.\.", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))


def test_every_kind_of_run_has_a_statement_in_the_layers_of_the_guideline(folders: list[Path]) -> None:
    for folder in folders:
        check_page(certified(folder), Holder.model_validate(ALL))


@pytest.mark.parametrize("given", [{}, BASIC], ids=["nothing", "basic"])
def test_a_statement_says_what_is_not_answered(folders: list[Path], given: dict[str, Any]) -> None:
    check_page(certified(folders[0]), Holder.model_validate(given))


def test_every_kind_of_run_has_a_record_that_the_registry_takes(folders: list[Path]) -> None:
    import jsonschema  # here, as loading it takes longer than most of the tests

    validator = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    for folder in folders:
        for given, reached in ((BASIC, 2), (ALL, 3)):
            holder = Holder.model_validate(given)
            one = certified(folder)
            written = yaml.safe_load(as_yaml(record(one, holder)))
            assert list(validator.iter_errors(written)) == []
            assert written["deployment"]["administrative"]["tier"] == reached == tier(holder)
            parameters = written["deployment"]["privacy_loss"]["privacy_parameters"]
            assert parameters["epsilon"] >= one.facts["claim"]["epsilon"]
            assert parameters.get("delta", 0.0) == one.facts["claim"]["delta"]


NEIGHBOURS = {
    "poisson": ("any number", "is private as well", "whose row was not used"),
    "shuffle": ("a public number", "is taken to be public", "whose row was not used"),
    "fixed size": ("a public number", "is taken to be public", "whose row was replaced by another"),
    "people": ("any number", "is private as well", "whose rows were not used"),
}
"""By kind of run: how many units neighbours have, whether that is private, and whom an attack accuses wrongly."""


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_what_is_said_of_size_and_attacks_is_that_of_the_adjacency(folders: list[Path], kind: str) -> None:
    """Where the number of units is public, whether somebody is in the data may be seen from it."""
    domain, known, accused = NEIGHBOURS[kind]
    one = certified(next(folder for folder in folders if folder.name == kind))
    entries = answers_of(next(folder for folder in folders if folder.name == kind))
    written = record(one, Holder.model_validate(BASIC))["deployment"]["dp_variant"]
    assert f"wrongly accuses 1 in 100 of those {accused} finds at most" in entries["Its meaning"]
    assert known in entries["Size"]
    assert "not read" not in entries["Size"]
    assert written["data_domain"].startswith(f"Data sets of {domain} of")
    assert ("the number of rows" in written["unprotected_quantities"]) == (domain == "a public number")


def test_queries_and_metrics_are_no_steps(folders: list[Path]) -> None:
    """Each is charged, like a step; a statement says what it was."""
    said = {folder.name: answers_of(folder) for folder in folders}
    assert "charged_steps': 11" in str(read_certificate(next(one for one in folders if one.name == "metrics")))
    assert said["metrics"]["Mechanism"].startswith("DP-SGD in 7 steps. In each step")
    assert said["queries"]["Mechanism"].startswith("DP-SGD in 7 steps. Before the first, 1 query on the same data, ")
    assert said["line search"]["Mechanism"].startswith("DP-SGD in 9 steps. Every row")  # and 9 choices
    assert said["line search"]["Mechanism"].endswith(
        ". How far a step goes is chosen in private, by losses that are clipped"
    )
    assert said["filter, counts"]["Mechanism"].startswith("DP-SGD in 20 steps. ")
    assert said["queries"]["Covered"].startswith("7 steps of training, 1 query before the first step")


def answers_of(folder: Path) -> dict[str, str]:
    return {one.question: one.answer or "" for part in sections(certified(folder), Holder()) for one in part.entries}


def test_the_fixture_can_refuse_a_record(folders: list[Path]) -> None:
    import jsonschema

    written = record(certified(folders[0]), Holder.model_validate(BASIC))
    written["deployment"]["basic"]["data_product_type"] = "Oracle"
    with pytest.raises(jsonschema.ValidationError, match="Oracle"):
        jsonschema.validate(written, SCHEMA)


def test_the_kinds_are_those_of_the_registry() -> None:
    basic = SCHEMA["properties"]["deployment"]["properties"]["basic"]["properties"]
    assert basic["data_curators"]["items"]["properties"]["data_curator_type"]["enum"] == list(CURATORS)
    assert basic["data_product_sector"]["enum"] == list(SECTORS)
    assert SCHEMA["$defs"]["evidence_source_type"]["enum"] == list(SOURCES)
    for field, names in (("sector", SECTORS), ("curator", CURATORS)):
        for name in names:
            Holder.model_validate({field: name if field == "sector" else {"kind": name}})


def test_a_record_needs_the_first_tier(folders: list[Path]) -> None:
    one = certified(folders[0])
    with pytest.raises(InputError, match=r"name, description, .*curator\.kind, region, sector, authors"):
        record(one, Holder())
    for name in BASIC:
        left = {key: value for key, value in BASIC.items() if key != name}
        with pytest.raises(InputError, match=name):
            record(one, Holder.model_validate(left))


def test_questions_can_be_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(questions())
    assert read_answers(file) == Holder()
    assert unanswered(Holder()) == list(Holder.model_fields)
    file.write_text(questions().replace("\nname:", "\nname: Digits").replace("  kind:", "  kind: Industry"))
    found = read_answers(file)
    assert found.name == "Digits"
    assert found.curator.kind == "Industry"
    assert set(Holder.model_fields) - set(unanswered(found)) == {"name", "curator"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae: x", "nmae: it is no question; there are: name"),
        ("sector: Farming", "sector: Input should be"),
        ("- a", "answers are a mapping"),
        ("published: soon", "published"),
        ("sources: [{url: a}]", "sources.0.title"),
        ("name: 3", "name"),
        ("name: 3", "name: Input should be a text, got 3"),
        ("authors: A. B.", "authors: Input should be a list, got 'A. B.'"),
        ("published: 28.11.2026", "published: Input should be a day, as 2026-11-28, got '28.11.2026'"),
    ],
)
def test_wrong_answers_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(said)):
        read_answers(file)


def test_a_day_may_stand_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("published: 2026-11-28")
    assert read_answers(file).published == "2026-11-28"


def test_the_command(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(one for one in folders if one.name.startswith("poisson"))
    out, answers = tmp_path / "s.html", tmp_path / "a.yaml"
    assert run(["report", str(folder), "--questions", str(answers)]) == 0
    assert run(["report", str(folder), "--out", str(out)]) == 0
    assert "not answered: name, description" in capsys.readouterr().out
    assert "Privacy statement" in out.read_text()
    assert run(["report", str(folder), "--out", str(out)]) == 2
    assert "exists already; name another file with --out, or give --overwrite" in capsys.readouterr().err
    assert run(["report", str(folder), "--out", str(tmp_path / "none" / "s.html")]) == 2
    assert capsys.readouterr().err.endswith("No such file or directory; name another file with --out\n")
    answers.write_text(yaml.safe_dump(ALL))
    assert run(["report", str(folder), "--fill", str(answers), "--out", str(out), "--overwrite"]) == 0
    assert "Words on trust" in out.read_text()
    assert run(["report", str(folder), "--fill", str(answers), "--out", str(tmp_path / "r.yaml")]) == 0
    assert capsys.readouterr().out.endswith("tier 3 of 3\n")
    assert run(["report", str(folder), "--out", str(tmp_path / "r.pdf")]) == 2


def test_nothing_is_said_about_a_rejected_folder(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folders[0]
    text = (folder / "plan.yaml").read_text()
    try:
        (folder / "plan.yaml").write_text(text + "# changed\n")
        assert run(["report", str(folder), "--out", str(tmp_path / "s.html")]) == 1
    finally:
        (folder / "plan.yaml").write_text(text)
    assert "was rejected" in capsys.readouterr().err
    assert not (tmp_path / "s.html").exists()
