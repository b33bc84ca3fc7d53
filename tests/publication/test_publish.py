"""Publishing: a folder that is whole or not there, and that its verifier accepts."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
import torch
from forging import facts_of
from problems import RunningMean, certified_run, linear, tiny_plan, tiny_training
from promises import a_published_folder_is_accepted, published_folder
from safetensors.torch import load_file
from torch import nn

from discreet import InputError, ModelSpec, PrivacyViolation, publish, verify
from discreet.core.errors import UnsupportedModel
from discreet.publication import publishing
from discreet.publication.publishing import check_target

FILES = {
    "model.safetensors",
    "model.json",
    "certificate.json",
    "plan.yaml",
    "report.html",
    "README.md",
    "verify.py",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_folder(tmp_path_factory.mktemp("original"))


def test_seven_files_that_are_accepted(original: Path) -> None:
    assert {path.name for path in original.iterdir()} == FILES
    a_published_folder_is_accepted(original)
    assert "ACCEPTED" in verify(original).summary


def test_the_summary_never_shows_less_than_the_certified_epsilon(original: Path) -> None:
    facts = json.loads((original / "certificate.json").read_text())
    shown = re.search(r"epsilon ([0-9.]+)", verify(original).summary)
    assert shown is not None
    assert float(shown[1]) >= facts["claim"]["epsilon"]


def test_no_verdict_shows_less_than_the_certified_delta(tmp_path: Path) -> None:
    """1 / 1437, to six digits and the nearest, is less; verify.py shows all digits."""
    delta = 1 / 1437
    publish(certified_run(tmp_path, plan=tiny_plan(delta=delta)), tmp_path / "out")
    assert ", delta 0.000695895)-differentially private" in verify(tmp_path / "out").summary
    said = subprocess.run(
        [sys.executable, tmp_path / "out" / "verify.py", tmp_path / "out"], capture_output=True, text=True, check=True
    )
    assert f", delta {delta!r} and add_remove follow from the events." in said.stdout


def test_the_published_model_is_the_trained_one(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    guarantee = publish(trained, tmp_path / "out")
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert loaded.keys() == trained.model.state_dict().keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in trained.model.state_dict().items())
    assert guarantee == trained.plan.guarantee()


def test_a_model_with_shared_weights_is_published(tmp_path: Path) -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    a_published_folder_is_accepted(published_folder(tmp_path, nn.Sequential(first, nn.Tanh(), second)))


def test_weights_that_do_not_lie_in_order_are_published_in_order(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 1), nn.Conv2d(4, 3, 2), nn.Flatten())
    model.to(memory_format=torch.channels_last)
    assert not model[2].weight.is_contiguous()
    trained = certified_run(tmp_path, model=model)
    publish(trained, tmp_path / "out")
    a_published_folder_is_accepted(tmp_path / "out")
    assert torch.equal(load_file(tmp_path / "out" / "model.safetensors")["2.weight"], trained.model[2].weight)


def test_the_key_is_private_while_there_and_gone_afterwards(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    key, checkpoint, part = trained.secrets
    assert (key.name, checkpoint.name, part.suffix) == ("key", "checkpoint.json", ".safetensors")
    assert key.stat().st_mode & 0o777 == 0o600
    assert checkpoint.exists()
    publish(trained, tmp_path / "out")
    assert not os.path.lexists(key)
    assert not os.path.lexists(checkpoint)
    assert not os.path.lexists(part)


def test_a_run_on_a_test_stream_is_refused(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path).run()
    with pytest.raises(PrivacyViolation, match="test"):
        publish(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        publish(trained, tmp_path / "out")
    assert (tmp_path / "out" / "mine.txt").read_text() == "precious"
    assert all(secret.exists() for secret in trained.secrets)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="exists already"):
        publish(trained, tmp_path / "file")


def test_nor_is_what_was_trained_lost(tmp_path: Path) -> None:
    """Nothing more is charged, here or in another process."""
    trained = certified_run(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    resumed = f"run=RunOptions({str(tmp_path / 'run')!r}, resume=True)"
    with pytest.raises(
        InputError, match=rf"nothing is lost: publish\(trained, ANOTHER\) here.*{re.escape(resumed)}"
    ) as one:
        publish(trained, tmp_path / "out")
    assert "\n" not in str(one.value)
    again = certified_run(tmp_path, resume=True)
    assert again.charged_steps == trained.charged_steps
    publish(again, tmp_path / "another")
    assert verify(tmp_path / "another").accepted
    with pytest.raises(InputError, match=r"publish\(trained, ANOTHER\) here, which charges nothing more$"):
        publish(trained, tmp_path / "out")  # the key is gone, so there is nothing to resume


def test_what_every_verifier_would_refuse_is_not_published(tmp_path: Path) -> None:
    """Names that would turn round what a verifier prints; the run folder stays as it was."""
    model = torch.nn.Sequential()
    model.add_module("head\u202e", linear())
    trained = certified_run(tmp_path, model=model)
    with pytest.raises(InputError, match=r"every verifier would reject .*head.u202e"):
        publish(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "run").exists()


def test_a_public_metric_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    odd = dataclasses.replace(trained.evaluations[-1], metrics={"accuracy": 0.5, "loss": math.inf})
    publish(dataclasses.replace(trained, evaluations=[*trained.evaluations, odd]), tmp_path / "out")
    assert facts_of(tmp_path / "out")["public_evaluations"][-1] == {"step": odd.step, "accuracy": 0.5}
    assert verify(tmp_path / "out").accepted


def test_an_empty_target_is_filled(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    (tmp_path / "out").mkdir()
    publish(trained, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_half_of_a_folder_is_left_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trained = certified_run(tmp_path)
    real = publishing.write_durably

    def full_disk(path: Path, content: bytes) -> None:
        def half_written(file: IO[bytes]) -> None:
            file.write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

        real(path, half_written if path.name == name else content)

    monkeypatch.setattr(publishing, "write_durably", full_disk)
    with pytest.raises(InputError, match="No space left"):
        publish(trained, tmp_path / "deep" / "out")
    assert list((tmp_path / "deep").iterdir()) == []
    assert all(secret.exists() for secret in trained.secrets)  # so that it can be tried again
    monkeypatch.undo()
    publish(trained, tmp_path / "deep" / "out")
    a_published_folder_is_accepted(tmp_path / "deep" / "out")


def test_a_folder_that_another_process_made_meanwhile_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, out = certified_run(tmp_path), tmp_path / "out"
    real = publishing.write_durably

    def overtaken(path: Path, content: bytes) -> None:
        real(path, content)
        out.mkdir(exist_ok=True)
        (out / "theirs").touch()

    monkeypatch.setattr(publishing, "write_durably", overtaken)
    with pytest.raises(InputError, match=r"another process made .*out meanwhile"):
        publish(trained, out)
    assert [one.name for one in out.iterdir()] == ["theirs"]
    assert all(secret.exists() for secret in trained.secrets)


def test_a_parent_that_is_a_file_is_an_input_error(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write"):
        publish(trained, tmp_path / "file" / "out")


def test_a_public_tensor_that_changed_after_training_is_refused(tmp_path: Path) -> None:
    trained = certified_run(tmp_path)
    trained.model.get_buffer("shift").add_(1.0)
    with pytest.raises(PrivacyViolation, match="'shift'"):
        publish(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_leaking_buffer_is_never_published(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="buffer 'mean'"):
        published_folder(tmp_path, RunningMean(), engine="reference")
    assert not (tmp_path / "out").exists()


def test_verifying_twice_gives_the_same(original: Path) -> None:
    assert verify(original) == verify(str(original))


def test_verifying_does_not_load_torch(original: Path) -> None:
    code = "import sys, discreet; assert discreet.verify(sys.argv[1]).accepted; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(original)], check=True)


def test_a_link_that_leads_nowhere_is_no_target(tmp_path: Path) -> None:
    """It would be found out only when all is charged, since a folder does not take the place of a link."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="leads nowhere"):
        check_target(tmp_path / "loop")


def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"cannot write .*out: {tmp_path} is read-only; choose"):
        publishing.check_target(tmp_path / "new" / "out")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (ModelSpec(module="Linear", outputs="labels"), "outputs must be one of classes, numbers, or null .None."),
        (ModelSpec(module="Linear", inputs=(-1,)), "inputs must be a list of sizes, or null"),
        (ModelSpec(module="Linear", inputs=6), "the ModelSpec cannot be written: 'int' object is not iterable; help"),  # type: ignore[arg-type]
    ],
)
def test_a_spec_that_no_reader_would_take_leaves_the_run_to_be_published(
    tmp_path: Path, spec: ModelSpec, said: str
) -> None:
    trained = certified_run(tmp_path)
    with pytest.raises(InputError, match=said):
        publish(trained, tmp_path / "out", spec)
    assert not (tmp_path / "out").exists()
    publish(trained, tmp_path / "out", ModelSpec(module="Linear", inputs=(6,), outputs="numbers"))
    assert verify(tmp_path / "out").accepted
