"""Adapters are published alone, as peft loads them, and what is saved is what was trained."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from language_families import field_rows, inner_model, on_rows, rows_for, stacked, with_lora
from safetensors.torch import load_file, save_file

import discreet
from discreet.certificate import signature
from discreet.core.errors import InputError, PrivacyViolation
from discreet.integrations.adapter_publishing import publish_adapters
from discreet.integrations.moved import check_moved
from discreet.language import TASKS, TransformersModel, weights_digest
from discreet.verification.standalone import verify as standalone

peft: Any = pytest.importorskip("peft", reason="peft is not installed; it is in the extra hf")
pytestmark = pytest.mark.filterwarnings("ignore")

PLAN = discreet.Plan.poisson(population=40, batch=20, steps=3, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[discreet.Trained, Path]:
    """LoRA on the attention of a GPT-2 for classification, whose head is trained too."""
    folder = tmp_path_factory.mktemp("adapters")
    inner = with_lora(inner_model("GPT-2", "classification"), TASKS["classification"], target_modules=["c_attn"])
    model = on_rows(inner, "classification")
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    options: dict[str, Any] = {"engine": "bookkeeping", "run": folder / "run"}
    rows = rows_for("classification", 40)
    trained = discreet.Training(PLAN, model, TASKS["classification"].loss(), optimizer, rows, **options).run(
        progress=False
    )
    publish_adapters(trained, folder / "out", base="org/tiny-gpt2", revision="v1")
    return trained, folder / "out"


def both_accept(folder: Path) -> bool:
    """Whether the library and verify.py accept the folder, and find nothing beside what is certified."""
    try:
        standalone.check(folder, None, strictly=True)
    except standalone.Stop:
        return False
    return discreet.verify(folder, strict=True).accepted


def test_peft_loads_what_was_trained(published: tuple[discreet.Trained, Path]) -> None:
    trained, folder = published
    loaded = peft.PeftModel.from_pretrained(inner_model("GPT-2", "classification"), str(folder))
    rows = stacked(rows_for("classification", 6, seed=1))[0]
    with torch.no_grad():
        wanted = trained.model(rows)
        assert torch.equal(TransformersModel(loaded.eval(), "classification")(rows), wanted)
        assert not torch.allclose(
            on_rows(inner_model("GPT-2", "classification").eval(), "classification")(rows), wanted
        )


def test_both_verifiers_accept_and_the_base_is_named(published: tuple[discreet.Trained, Path]) -> None:
    _, folder = published
    assert both_accept(folder)
    facts = json.loads((folder / "certificate.json").read_text())
    base = inner_model("GPT-2", "classification")
    named = {"name": "org/tiny-gpt2", "revision": "v1"}
    assert {key: facts["base"][key] for key in named} == named
    assert any("org/tiny-gpt2, revision v1, with weights of SHA-256" in text for text in facts["assumptions"])
    assert "base_model: org/tiny-gpt2" in (folder / "README.md").read_text()
    assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "org/tiny-gpt2"
    state = load_file(folder / "model.safetensors")
    assert sum(tensor.numel() for tensor in state.values()) < sum(one.numel() for one in base.parameters()) / 4
    head = {"score.weight"}  # it is trained, so the hash is of the base with the head that it began with
    assert head <= set(base.state_dict())
    assert facts["base"]["sha256"] == weights_digest(base)


def test_both_verifiers_accept_signed_adapters(published: tuple[discreet.Trained, Path], tmp_path: Path) -> None:
    folder = tmp_path / "signed"
    shutil.copytree(published[1], folder)
    signature.new_key(tmp_path / "key")
    signature.sign(folder, tmp_path / "key")
    assert both_accept(folder)
    config = folder / "adapter_config.json"
    config.write_text(config.read_text() + " ")
    assert not both_accept(folder)


def swapped(folder: Path) -> None:
    """Two adapters in each other's place, with the hash in the certificate made to fit."""
    path = folder / "adapter_model.safetensors"
    state = load_file(path)
    one, other = [name for name in state if "lora_A" in name][:2]
    state[one], state[other] = state[other].clone(), state[one].clone()
    save_file(state, path)
    resealed(folder, lambda facts: facts["files"].update({path.name: hashlib.sha256(path.read_bytes()).hexdigest()}))


def resealed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    facts = json.loads((folder / "certificate.json").read_text())
    change(facts)
    (folder / "certificate.json").write_text(json.dumps(facts))


def other_base(folder: Path) -> None:
    resealed(folder, lambda facts: facts["base"].update(sha256="0" * 64))


def no_base(folder: Path) -> None:
    resealed(folder, lambda facts: facts.pop("base"))


@pytest.mark.parametrize("change", [swapped, other_base, no_base])
def test_forged_adapters_are_rejected(
    published: tuple[discreet.Trained, Path], change: Callable[[Path], None], tmp_path: Path
) -> None:
    import shutil

    folder = Path(shutil.copytree(published[1], tmp_path / "forged"))
    change(folder)
    with pytest.raises(standalone.Stop):
        standalone.check(folder, None)
    assert not discreet.verify(folder).accepted


def test_what_is_saved_must_be_what_was_trained(
    published: tuple[discreet.Trained, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Weights of another model object than the trained one: loss and epsilon look right, and the file is worthless."""
    trained, _ = published
    stale = with_lora(inner_model("GPT-2", "classification"), TASKS["classification"], target_modules=["c_attn"])
    given = peft.get_peft_model_state_dict
    monkeypatch.setattr(peft, "get_peft_model_state_dict", lambda model: given(stale))
    with pytest.raises(PrivacyViolation, match="what would be saved is not what was trained"):
        publish_adapters(trained, tmp_path / "out", base="tiny")
    assert not (tmp_path / "out").exists()


def test_exactly_the_trained_weights_must_have_moved() -> None:
    before, trained = {"a": "1", "b": "2", "c": "3"}, frozenset({"a", "b"})
    check_moved(before, before | {"a": "4", "b": "5"}, trained)
    with pytest.raises(PrivacyViolation, match="'b' is trainable and did not move"):
        check_moved(before, before | {"a": "4"}, trained)
    with pytest.raises(PrivacyViolation, match="'c' is frozen and moved"):
        check_moved(before, {"a": "4", "b": "5", "c": "6"}, trained)
    with pytest.raises(PrivacyViolation, match=r"no weight moved: no step of this run was taken, .* or the optimizer"):
        check_moved(before, before, trained)


def test_adapters_do_not_go_onto_another_base() -> None:
    model = on_rows(with_lora(inner_model("Llama"), TASKS["causal-lm"]), "causal-lm")
    state = deepcopy(model.state_dict())
    model.load_state_dict(state)
    with torch.no_grad():
        next(one for one in model.parameters() if not one.requires_grad).add_(1)
    with pytest.raises(InputError, match="trained on other base weights"):
        model.load_state_dict(state)


def test_a_base_that_changes_in_training_is_found(tmp_path: Path) -> None:
    model = on_rows(with_lora(inner_model("Llama"), TASKS["causal-lm"]), "causal-lm")
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    options: dict[str, Any] = {"engine": "bookkeeping", "run": tmp_path / "run"}
    training = discreet.Training(
        PLAN, model, TASKS["causal-lm"].loss(), optimizer, rows_for("causal-lm", 40), **options
    )
    with training.session() as session, session.step() as step:
        step.add_all(training.criterion)
        frozen = next(one for one in model.parameters() if not one.requires_grad)
    frozen.data.add_(1)
    with pytest.raises(PrivacyViolation, match="'base_sha256' is not a private parameter but changed"):
        training.result(session)


def test_a_model_without_adapters_is_not_published_as_some(tmp_path: Path) -> None:
    trained = discreet.Trained.__new__(discreet.Trained)
    object.__setattr__(trained, "model", on_rows(inner_model("Llama"), "causal-lm"))
    with pytest.raises(InputError, match="has no adapters of peft"):
        publish_adapters(trained, tmp_path / "out")
    assert len(field_rows("causal-lm", 2)) == 2
