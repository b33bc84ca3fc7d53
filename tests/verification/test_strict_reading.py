"""Both verifiers read strictly: one meaning, known fields only, and no text that acts when printed.

Found by attack: each certificate or model here was accepted by one of them before, or made it fail or wait.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from every_kind import published
from forging import Facts, Forge, edit, entry, facts_of, forged, put, resealed, told

from discreet import verify
from discreet.accounting.account import guarantee
from discreet.cli.app import run
from discreet.core.events.event_json import from_json
from discreet.verification.recompute.events import Part
from discreet.verification.recompute.renyi import renyi

pytestmark = pytest.mark.usefixtures("recomputed_once")


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
    "a shape without end": with_header(lambda header: header["head.bias"].update(shape=[2**62] * 20_000)),
    "a further field": with_header(lambda header: header["head.bias"].update(note=1)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_every_byte_of_the_model_is_of_one_tensor(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    TENSORS[name](folder)
    assert told(folder, capsys)[0] == 1
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
