"""Options that a run of a language model was begun with, read again from its folder, which may be damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discreet.certificate.described import About
from discreet.core.errors import InputError
from discreet.jobs.language.begun_options import LanguageCommandLine, begun, keep
from discreet.jobs.language.language_facts import Budget, LanguageFacts, Settings
from discreet.jobs.tables.table_facts import TableFacts

SAID = LanguageCommandLine(
    Path("/texts.csv"),
    LanguageFacts(model=Path("/model"), task="causal-lm", lora=4),
    TableFacts(unit="row", text="review"),
    Budget(1.0, 1e-5, 100.0),
    Settings(steps=3),
    Path("/published"),
    About(title="Reviews"),
)


def test_they_are_read_as_they_were_written(tmp_path: Path) -> None:
    keep(tmp_path, SAID.options(), ["a", "b"])
    assert begun(tmp_path, {}) == SAID


@pytest.mark.parametrize("name", SAID.options())
def test_a_value_of_another_type_is_a_damaged_file(tmp_path: Path, name: str) -> None:
    """An error that says so: it must not go on with other figures, nor end as a fault of the library."""
    for value in ([1], {"a": 1}, True):
        keep(tmp_path, {**SAID.options(), name: value}, [])
        with pytest.raises(InputError, match="is not what `discreet train` wrote"):
            begun(tmp_path, {})


def test_lost_and_added_values_are_a_damaged_file(tmp_path: Path) -> None:
    for name in SAID.options().keys() - {"--epsilon"}:
        keep(tmp_path, {key: value for key, value in SAID.options().items() if key != name}, [])
        with pytest.raises(InputError, match="is not what `discreet train` wrote"):
            begun(tmp_path, {})
    (tmp_path / "language.json").write_text(json.dumps(["--epsilon"]))
    with pytest.raises(InputError, match="is not what `discreet train` wrote"):
        begun(tmp_path, {})
