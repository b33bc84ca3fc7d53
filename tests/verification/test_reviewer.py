"""verify.py, the verifier in one file: read in a sitting, alone, and never more lenient than it says."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from adaptive_runs import adaptive
from forging import (
    Change,
    Facts,
    Forge,
    claim,
    edit,
    edit_consistently,
    entry,
    facts_of,
    fingerprinted,
    forged,
    put,
    resealed,
    times,
    told,
    without_entry,
)
from problems import blobs, certified_run, linear, tiny_plan
from safetensors.torch import save

from discreet import publish, verify
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.plan import Metric
from discreet.verification.checks.sensitivity import RULES
from discreet.verification.standalone import verify as reviewer

FILE = Path(reviewer.__file__)


def test_it_can_be_read_in_a_sitting_and_needs_numpy_and_the_standard_library_only() -> None:
    """800 lines with the table of fields, which is not for reading."""
    lines = FILE.read_text().splitlines()
    assert len(lines) <= 800
    assert max(map(len, lines)) <= 120
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(FILE.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names - {"numpy"} <= set(sys.stdlib_module_names)


def test_its_rules_of_clipping_are_those_of_the_library() -> None:
    assert {kind: RULES[kind] for kind in reviewer.CLIPPED} == reviewer.CLIPPED


def test_it_runs_alone(original: Path, tmp_path: Path) -> None:
    """A copy elsewhere, isolated from the installed library, its own folder and the environment."""
    shutil.copy(FILE, tmp_path / "check.py")
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "check.py"), str(original)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ACCEPTED: epsilon ")
    assert "It is not signed" in done.stdout
    assert not done.stderr


def test_without_numpy_it_says_what_it_needs() -> None:
    """`-S` leaves out installed packages."""
    done = subprocess.run([sys.executable, "-I", "-S", FILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "NOT COVERED: verify.py needs NumPy (pip install numpy): No module named 'numpy'\n"


@pytest.mark.parametrize(
    "change", [lambda text: "\ufeff" + text, lambda text: text.replace('"epsilon": ', '"epsilon": NaN, "": ', 1)]
)
def test_what_is_no_strict_json_is_rejected_by_both(
    change: Callable[[str], str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "certificate.json"
    file.write_text(change(file.read_text()))
    assert told(folder, capsys)[0] == 1
    assert run(["verify", str(folder)]) == 1
    assert "is not strict JSON" in capsys.readouterr().out


def test_the_folder_has_a_copy_and_the_page_says_its_hash(original: Path) -> None:
    assert (original / "verify.py").read_bytes() == FILE.read_bytes()
    page = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text()
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() in page


def last_block_left_out(facts: Facts) -> None:
    without_entry("reservation", -1)(facts)
    facts["charged_steps"] = 6


def events_of(field: str, value: object, *path: object) -> Change:
    return put("events", "of", 0, "of", *path, field, value=value)


def swapped(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(save(linear().state_dict()))


def adaptive_by_pld(facts: Facts) -> None:
    facts["plan"]["kind"], facts["claim"]["method"] = "adaptive", "pld"


def user_for_row(facts: Facts) -> None:
    facts["claim"]["unit"] = facts["plan"]["unit"] = "user"


def event_as_sampler(facts: Facts) -> None:
    """Steps without noise, in a plan whose sampler is the name of an event with much of it."""
    steps, event = facts["charged_steps"], {"event": "gaussian", "noise_multiplier": 1e3, "query": "count"}
    facts["plan"]["sampling"] = {"kind": event["event"], "noise_multiplier": 1e3, "query": "count"}
    facts["plan"]["noise"] = [{"steps": steps, "multiplier": 1e-6}]
    facts["mechanism"]["sampler"] = event["event"]
    facts["events"] = {"event": "compose", "of": [{"event": "repeat", "count": steps, "of": event}]}
    for one in facts["ledger"]["entries"]:
        if one["kind"] == "reservation":
            one["body"] = {"event": "repeat", "count": one["steps"], "of": event}
    facts["claim"] |= {"epsilon": 0.5, "lower": 0.0}


FORGERIES: dict[str, tuple[str, Forge]] = {
    "epsilon lowered": (
        "was found",
        edit(
            claim("epsilon", times(0.98)), put("ledger", "entries", 0, "body", "epsilon", value=times(0.98)), resealed
        ),
    ),
    "epsilon lowered in the claim only": ("another claim", edit(claim("epsilon", times(0.98)))),
    "epsilon NaN": ("no number", edit(claim("epsilon", math.nan))),
    "epsilon as text": ("epsilon is not: number", edit(claim("epsilon", "1"))),
    "multiplier raised in the events": ("not those of the plan", edit(events_of("noise_multiplier", 3.0, "of"))),
    "multiplier raised in the plan": (
        "another plan",
        edit_consistently(put("plan", "noise", 0, "multiplier", value=3.0)),
    ),
    "rate lowered in both": (
        "another plan",
        edit_consistently(events_of("rate", 0.1), put("plan", "sampling", "rate", value=0.1)),
    ),
    "event removed": ("not those of the plan", edit(lambda facts: facts["events"]["of"].pop())),
    "count lowered": ("not those of the plan", edit(put("events", "of", 0, "count", value=3))),
    "another query": ("not those of the plan", edit(events_of("query", "count", "of"))),
    "another sampler": ("sampler", edit(put("mechanism", "sampler", value="shuffle"))),
    "an event for a sampler": ("no known kind", lambda folder: forged(folder, event_as_sampler)),
    "another adjacency": ("differ", edit(claim("adjacency", "zero_out"))),
    "another unit": ("differ", edit(claim("unit", "user"))),
    "another unit, told consistently": ("another plan", edit_consistently(user_for_row)),
    "adaptive run priced by PLD": ("lacks policy", edit_consistently(adaptive_by_pld)),
    "an estimate": ("claim.kind is not", edit(claim("kind", "estimate"))),
    "an ex-post reading": ("claim.kind is not", edit(claim("kind", "ex_post"))),
    "the method of an estimate": ("theorem", edit(claim("method", "moments"))),
    "swapped model": ("not the certified one", swapped),
    "edited report": ("report.html was changed", lambda folder: (folder / "report.html").write_text("epsilon 0")),
    "edited plan.yaml": ("plan.yaml was changed", lambda folder: (folder / "plan.yaml").write_text("{}")),
    "a file without a hash": ("no hash", edit(lambda facts: facts["files"].pop("report.html"))),
    "test generator": ("repeated", edit(put("mechanism", "randomness", value="test"))),
    "test generator in the ledger": (
        "another engine",
        edit(entry("attempt", "body", {"engine": "vmap", "noise": "fast", "randomness": "test"}), resealed),
    ),
    "ledger edited": ("sealed", edit(entry("reservation", "steps", 2))),
    "block left out": ("missing", edit(without_entry("reservation", 1), resealed)),
    "last block left out, digest left": ("sealed", edit(last_block_left_out)),
    "an unknown field, and another that names all": (
        "unknown field",
        edit(lambda facts: facts.update(certificate=list(facts), note="trust me")),
    ),
    "an unknown field": ("unknown field note", edit(put("claim", "note", value="trust me"))),
    "sensitivity": ("clip norm", edit(put("clipping", "sensitivity", value=0.5))),
    "another format": ("NOT COVERED", edit(put("format", value="discreet-certificate/3"))),
    "an unknown event": ("no known kind", edit(events_of("event", "poison"))),
    "no JSON": ("cannot be followed", lambda folder: (folder / "certificate.json").write_text("{")),
    "no claim": ("lacks claim", edit(lambda facts: facts.pop("claim"))),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_not_accepted(folder: Path, capsys: pytest.CaptureFixture[str], forgery: str) -> None:
    message, forge = FORGERIES[forgery]
    forge(folder)
    code, said = told(folder, capsys)
    assert (code, said.startswith("ACCEPTED")) == (1, False)
    assert message in said
    if forgery != "no JSON":
        assert not verify(folder).accepted


def test_a_key_that_is_there_twice_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(text.replace('"epsilon":', '"epsilon": 0.1, "epsilon":', 1))
    assert told(folder, capsys) == (1, "REJECTED: a key is in the file twice\n")


def test_more_values_than_are_read_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(text.rstrip()[:-1] + f', "x": [{"[], " * 250_000}1]}}\n')
    assert told(folder, capsys) == (1, "REJECTED: a file has more than 500,000 values, and is not read\n")
    with pytest.raises(InputError, match="more than 500,000 values"):
        verify(folder)


@pytest.mark.parametrize("blanks", [" " * 1000, "\n\t" * 600])
def test_long_rows_of_blanks_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str], blanks: str) -> None:
    text = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(text.rstrip()[:-1] + blanks + "}\n")
    assert told(folder, capsys) == (1, "REJECTED: a file has a thousand blanks in a row, which hide what follows\n")
    found = verify(folder)
    assert not found.accepted
    assert any("a thousand blanks" in check.detail for check in found.checks)


def test_shorter_rows_of_blanks_mean_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "certificate.json").read_text()
    (folder / "certificate.json").write_text(text.replace(": ", ":" + " " * 990))
    assert "blanks" not in told(folder, capsys)[1]
    assert not any("blanks" in check.detail for check in verify(folder).checks)


def test_what_it_does_not_cover_it_does_not_accept(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = certified_run(tmp_path, plan=adaptive(), public_validation=blobs(9, seed=2))
    publish(trained, tmp_path / "filter")
    assert verify(tmp_path / "filter").accepted
    code, said = told(tmp_path / "filter", capsys)
    assert (code, said) == (1, "NOT COVERED: a run that was chosen on the way, under a filter\n")
    zcdp = {"odometer": "zcdp", "delta": 1e-6, "scale": 1.0, "adjacency": "add_remove", "unit": "example"}
    law = {"law": "poisson", "mean": 2.0}
    search = {"kind": "random_stopping", "score": "validation_loss", "trials": law, "initial_states": []}
    for name, value in {
        "odometer": {"odometer": zcdp, "most": None},
        "search": search | {"grid": [{"name": "lr", "values": [1]}]},
        "clipping": {"kind": "per_layer", "norm": 1.0},
    }.items():
        folder = Path(shutil.copytree(original, tmp_path / name))
        facts = facts_of(folder)
        facts["plan"][name] = value
        fingerprinted(facts)
        (folder / "certificate.json").write_text(json.dumps(facts))
        code, said = told(folder, capsys)
        assert (code, said.split(":")[0]) == (1, "NOT COVERED")
        assert name in said


def test_an_event_without_a_theorem_here_is_not_covered() -> None:
    with pytest.raises(reviewer.Stop) as stopped:
        reviewer.multiset({"event": "compose", "of": [{"event": "repeat", "count": 1, "of": {"event": "laplace"}}]})
    assert stopped.value.args == ("NOT COVERED", "an event laplace")


def test_metrics_that_are_shown_were_bought(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tiny_plan(metrics=[Metric(kind="accuracy", noise=5.0, every=3)])
    publish(certified_run(tmp_path, plan=plan), tmp_path / "out")
    assert told(tmp_path / "out", capsys)[0] == 0
    edit(lambda facts: facts["bought_metrics"].extend(facts["bought_metrics"]))(tmp_path / "out")
    assert told(tmp_path / "out", capsys) == (1, "REJECTED: a metric is unpaid\n")


def test_metrics_on_the_other_rows_do_not_pay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The claim is the dearer of both parts: seven training accuracies cost training rows more than it says."""
    metrics = [Metric(noise=3.0, every=1, rows="holdout"), Metric(noise=3.0)]
    plan = tiny_plan(metrics=metrics, holdout=0.3, adjacency="zero_out")
    publish(certified_run(tmp_path, plan=plan), tmp_path / "out")
    assert told(tmp_path / "out", capsys)[0] == 0

    def renamed(facts: Facts) -> None:
        for one in facts["bought_metrics"]:
            one["metric"] = "training_accuracy"

    edit(renamed)(tmp_path / "out")
    assert told(tmp_path / "out", capsys) == (1, "REJECTED: a metric is unpaid\n")


def test_a_certificate_that_assumes_nothing_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(put("assumptions", value=[]))(folder)
    assert told(folder, capsys) == (1, "REJECTED: no assumptions\n")
