"""Both verifiers read strictly: one meaning, known fields only, plain files only, and no text that acts when printed.

Found by attack: each certificate or folder here was accepted by one of them before, or made it fail or wait.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every_kind import published
from forging import Facts, Forge, edit, entry, facts_of, forged, put, resealed
from problems import linear
from safetensors.torch import save

from discreet import InputError, load, verify
from discreet.accounting.account import guarantee
from discreet.certificate import files, signature
from discreet.cli.app import run
from discreet.core.events.event_json import from_json
from discreet.verification.recompute.events import Part
from discreet.verification.recompute.renyi import renyi
from discreet.verification.standalone import verify as reviewer

pytestmark = pytest.mark.usefixtures("recomputed_once")


def told(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = reviewer.main([str(folder), *options])
    return code, capsys.readouterr().out


def one_step(event: dict[str, Any]) -> Callable[[Facts], None]:
    """All that was released is this, once, in the events and in a single block of the ledger; claimed is its price."""

    def change(facts: Facts) -> None:
        body = {"event": "compose", "of": [{"event": "repeat", "count": 1, "of": event}]}
        record = facts["ledger"]["entries"]
        block = next(one for one in record if one["kind"] == "reservation")
        steps = event.get("of", {}).get("of", [])
        block |= {"body": body, "position": 0, "steps": sum(part["count"] for part in steps) or 1}
        facts["ledger"]["entries"] = [one for one in record if one["kind"] in ("run", "attempt")] + [block]
        facts["events"], facts["charged_steps"] = copy.deepcopy(body), block["steps"]
        price = guarantee(from_json(body), facts["claim"]["delta"], from_adjacency(facts)).epsilon
        facts["claim"] |= {"epsilon": price * (1 + 1e-3), "lower": None}

    return change


def from_adjacency(facts: Facts) -> Any:
    from discreet.core.adjacency import Adjacency

    return Adjacency(facts["claim"]["adjacency"])


def a_period_for_poisson(folder: Path) -> None:
    """Seven Poisson steps, of which a field of another sampler would make one."""
    event = facts_of(folder)["events"]["of"][0]["of"]
    forged(folder, put("plan", "sampling", value=lambda old: old | {"period": 7}), one_step(event))


def a_sampler_called_epoch(folder: Path) -> None:
    """The name of an event for a sampler, and batches of no whole number."""
    gaussian = {"event": "gaussian", "noise_multiplier": 1.5, "query": "clipped_sum"}
    batches = {"event": "compose", "of": [{"event": "repeat", "count": 5, "of": gaussian}]}

    def change(facts: Facts) -> None:
        facts["plan"] |= {"sampling": {"kind": "epoch", "batch": 5.5}, "noise": [{"multiplier": 1.5, "steps": 5}]}
        facts["plan"]["adjacency"] = facts["claim"]["adjacency"] = "zero_out"
        facts["ledger"]["entries"][0]["body"]["adjacency"] = "zero_out"
        facts["mechanism"]["sampler"] = "epoch"

    forged(folder, change, one_step({"event": "epoch", "of": batches}))


def steps_that_are_not_there(facts: Facts) -> None:
    """Blocks that say they have another number of steps than their events, in a sum that is right."""
    blocks = [one for one in facts["ledger"]["entries"] if one["kind"] == "reservation"]
    blocks[0]["steps"], blocks[1]["steps"], blocks[1]["position"] = 2, 4, 2


def text(change: Callable[[str], str | bytes]) -> Forge:
    """A change to the certificate as text."""

    def forge(folder: Path) -> None:
        path = folder / "certificate.json"
        made = change(path.read_text())
        path.write_bytes(made.encode() if isinstance(made, str) else made)

    return forge


def more(*path: Any, **fields: Any) -> Forge:
    """Further fields in one place of the certificate, and all that has to agree with them."""
    return lambda folder: forged(folder, put(*path, value=lambda old: old | fields))


ACCEPTED = "\x1b[2J\x1b[HACCEPTED: epsilon 0.1000"

EVALUATIONS = '"public_evaluations": ['

FORGERIES: dict[str, Forge] = {
    "a period for Poisson batches": a_period_for_poisson,
    "a sampler called epoch": a_sampler_called_epoch,
    "a field in clipping": more("clipping", note=0),
    "a field in the plan's clipping": more("plan", "clipping", gamma=0.01),
    "a field in an entry of the ledger": more("ledger", "entries", 2, note=0),
    "a field in a phase of the noise": more("plan", "noise", 0, rate=0.1),
    "a field in a metric on public rows": edit(put("public_evaluations", 0, "note", value="x")),
    "1e999": text(lambda old: old.replace(EVALUATIONS, EVALUATIONS + '{"step": 1, "x": 1e999},')),
    "an integer beyond all floats": edit(put("public_evaluations", 0, "accuracy", value=10**400)),
    "half of a pair": edit(put("software", "torch", value="\ud800")),
    "half of a pair as a name": edit(put("software", value=lambda old: old | {"\udc00": "1"})),
    "UTF-16": text(lambda old: old.encode("utf-16")),
    "UTF-32": text(lambda old: old.encode("utf-32")),
    "a mark before UTF-8": text(lambda old: b"\xef\xbb\xbf" + old.encode()),
    "steps that their bodies do not have": edit(steps_that_are_not_there, resealed),
    "steps of an attempt": edit(entry("attempt", "steps", 3), resealed),
    "entries of another run": edit(entry("reservation", "run", "another"), resealed),
    "text that clears the screen": edit(put("assumptions", value=lambda old: [*old, ACCEPTED])),
    "text that is turned round": edit(put("assumptions", value=lambda old: [*old, "\u202e0001.0 nolispe"])),
    "a further line": edit(put("assumptions", value=lambda old: [*old, "x\nACCEPTED: epsilon 0.1000"])),
    "a private tensor twice": edit(put("model", "private", value=lambda old: [*old, old[0]])),
    "a private tensor that is not there": edit(put("model", "private", value=lambda old: [*old, "extra"])),
    "a file that is no part of a folder": edit(put("files", value=lambda old: old | {"more.txt": "0" * 64})),
    "a method that is no text": edit(put("software", "torch", value=7)),
    "more steps than anybody takes": lambda folder: forged(folder, put("plan", "noise", 0, "steps", value=10**9)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_neither_accepts(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    FORGERIES[name](folder)
    code, said = told(folder, capsys)
    assert (code, said.split(":")[0]) in ((1, "REJECTED"), (1, "NOT COVERED"))
    assert run(["verify", str(folder)]) != 0
    said += capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    assert "\nACCEPTED" not in said


def test_each_knows_what_the_first_two_cost(folder: Path) -> None:
    """The forgeries claim less than half of the truth, so that it matters."""
    before = facts_of(folder)["claim"]["epsilon"]
    a_period_for_poisson(folder)
    assert facts_of(folder)["claim"]["epsilon"] < before / 2


def with_header(change: Callable[[dict[str, Any]], object], *, body: bytes = b"") -> Forge:
    """Another header for the same tensors, in a certificate that has the hash of the file."""

    def forge(folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        change(header)
        made = json.dumps(header).encode()
        made = len(made).to_bytes(8, "little") + made + content[start:] + body
        (folder / "model.safetensors").write_bytes(made)
        edit(put("model", "sha256", value=hashlib.sha256(made).hexdigest()))(folder)

    return forge


def twice(header: dict[str, Any]) -> None:
    """Two names for the same bytes."""
    header["shift"]["data_offsets"] = header["scale"]["data_offsets"]


TENSORS: dict[str, Forge] = {
    "bytes behind the tensors": with_header(lambda header: None, body=b"\0" * 8),
    "words beside the tensors": with_header(lambda header: header.update(__metadata__={"epsilon": "0.1"})),
    "tensors that overlap": with_header(twice),
    "a type that nobody knows": with_header(lambda header: header["head.bias"].update(dtype="F31")),
    "a shape of other size": with_header(lambda header: header["head.bias"].update(shape=[2])),
    "a further field": with_header(lambda header: header["head.bias"].update(note=1)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_every_byte_of_the_model_is_of_one_tensor(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    TENSORS[name](folder)
    assert told(folder, capsys)[0] == 1
    assert not verify(folder).accepted


def linked(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")


def piped(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)


def a_folder(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()


def the_zero_device(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")


@pytest.mark.parametrize("change", [linked, piped, a_folder, the_zero_device])
@pytest.mark.parametrize("name", ["certificate.json", "model.safetensors", "report.html"])
def test_only_plain_files_are_opened(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[Path, str], None]
) -> None:
    """A pipe would keep its reader waiting for ever: a thread, so that this test ends all the same."""
    change(folder, name)
    found: list[object] = []

    def ask() -> None:
        found.append(told(folder, capsys)[0])
        for reader in (verify, load):
            try:
                reader(folder)
            except InputError as error:
                found.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert found[:1] == [1]
    assert len(found) == 3
    assert all(f"{name} is a" in str(one) and "not a plain file" in str(one) for one in found[1:])


def test_files_that_are_too_large_are_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes need no room on the disk, and would need it in memory."""
    with (folder / "report.html").open("ab") as file:
        file.truncate(2**27 + 1)
    code, said = told(folder, capsys)
    assert (code, said) == (1, "REJECTED: report.html is too large to be read\n")
    for reader in (verify, load):
        with pytest.raises(InputError, match="at most 134,217,728 are read"):
            reader(folder)
    monkeypatch.setattr(files, "LARGEST_TENSORS", 100)
    with pytest.raises(InputError, match=r"model\.safetensors has .* bytes; at most 100 are read"):
        files.read(folder / "model.safetensors")


def test_a_dangling_signature_is_no_missing_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "signature.json").symlink_to("nowhere")
    assert told(folder, capsys)[0] == 1
    assert not verify(folder).accepted


def test_a_signature_has_no_further_fields(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even signed ones."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from discreet.certificate.canonical import canonical

    key = tmp_path / "key"
    signature.new_key(key)
    signature.sign(folder, key)
    stated = json.loads((folder / "signature.json").read_text())
    stated.pop("signature")
    own = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    stated |= {"note": "epsilon 0.1", "public_key": own.public_key().public_bytes_raw().hex()}
    (folder / "signature.json").write_text(json.dumps(stated | {"signature": own.sign(canonical(stated)).hex()}))
    assert told(folder, capsys)[0] == 1
    assert not verify(folder).accepted


def test_further_files_are_said_and_strict_refuses_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.txt", "b\x1b[2J.pt", "run"):
        (folder / name).write_text("x")
    line = "3 files here are not covered by the certificate ('a.txt', 'b\\x1b[2J.pt', 'run')"
    code, said = told(folder, capsys)
    assert (code, line in said) == (0, True)
    assert told(folder, capsys, "--strict") == (1, f"REJECTED: {line}\n")
    assert run(["verify", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"; {line}")
    assert run(["verify", str(folder), "--strict"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("REJECTED: ")
    for name in ("a.txt", "run"):
        (folder / name).unlink()
    assert "1 file here is not covered" in told(folder, capsys)[1]
    (folder / "b\x1b[2J.pt").unlink()
    assert told(folder, capsys, "--strict")[0] == 0
    assert run(["verify", str(folder), "--strict"]) == 0


def lying(name: str, **software: str) -> Forge:
    """A page that says something else, with its hash in the certificate, perhaps of other software."""

    def forge(folder: Path) -> None:
        content = (folder / name).read_bytes().replace(b"epsilon", b"epsilon 0.1, that is, epsilon")
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        edit(put("files", name, value=digest), put("software", value=lambda old: old | software))(folder)

    return forge


@pytest.mark.parametrize("name", ["report.html", "README.md", "verify.py"])
def test_pages_are_written_again(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """A page that lies is rejected; of other software it is said that it was not checked."""
    pages = next(one for one in verify(folder).checks if one.name == "pages")
    assert pages.detail.endswith("what the certificate gives")
    lying(name)(folder)
    found = verify(folder)
    assert [one.name for one in found.checks if not one.passed] == ["pages"]
    assert f"{name}: not what this software writes" in found.summary
    assert verify(folder, pages=False).accepted
    lying(name, numpy="1.0")(folder)
    found = verify(folder)
    assert found.accepted
    assert f"{name}" in found.summary.split("; ")[-1]
    assert "not checked: the certificate names other software than there is here" in found.summary
    code, said = told(folder, capsys)
    assert code == 0
    assert "Not checked: what model.json, plan.yaml, report.html, README.md, verify.py say" in said


def test_the_plan_for_people_has_no_words_of_its_own(folder: Path) -> None:
    """Comments and fields that are there twice read the same to a parser, and not to people."""
    for change in (lambda old: "# epsilon 0.1\n" + old, lambda old: "delta: 1e-9\n" + old):
        original = (folder / "plan.yaml").read_text()
        content = change(original)
        (folder / "plan.yaml").write_text(content)
        edit(put("files", "plan.yaml", value=hashlib.sha256(content.encode()).hexdigest()))(folder)
        assert [one.name for one in verify(folder).checks if not one.passed] == ["plan"]
        (folder / "plan.yaml").write_text(original)


def test_released_components_are_held_against_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = published(tmp_path, "queries")
    assert told(folder, capsys)[0] == 0
    (folder / "released.safetensors").write_bytes(save(linear().state_dict()))
    assert told(folder, capsys) == (1, "REJECTED: released.safetensors is there and not certified, or the reverse\n")
    assert not verify(folder).accepted


def test_what_would_take_for_ever_is_infinite_at_once(tmp_path: Path) -> None:
    """Orders and noise of a stranger for which divergences would need terms, or memory, without end."""
    odd = published(tmp_path, "filter")
    forged(odd, put("plan", "filter", "orders", value=lambda old: [*old[:-1], 1e9]))
    verify(odd, pages=False)  # comes back: the other orders are there
    for rate, mu, order in ((0.01, 1.0, 1e9), (0.01, 1.0, 1e9 + 0.5), (0.01, 1e4, 999.5)):
        assert renyi([Part(rate, mu, 1)], order) == math.inf
    assert renyi([Part(0.01, 1.0, 1)], 1024.0) < math.inf
    assert renyi([Part(1.0, 1.0, 1)], 1e9) < math.inf
