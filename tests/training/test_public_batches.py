"""Public rows in private steps: their gradient is exact, declared, and changes nothing that privacy depends on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import Remembering, blobs, certified_run, linear, tiny_training
from sessions import take
from torch import nn

import discreet
from discreet.certificate.canonical import canonical
from discreet.core import assumptions
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.release import Release
from discreet.data.private.overlap import share_rows
from discreet.methods import DPAdamBC
from discreet.training import PublicBatches
from discreet.training import step as step_module
from discreet.verification.standalone import verify as reviewer

PUBLIC = blobs(15, seed=9)


def first_step(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Release, nn.Module]:
    """What the first step released, and the model after it."""
    seen: list[Release] = []
    real = step_module.apply

    def watched(release: Release, *rest: Any) -> None:
        seen.append(release)
        real(release, *rest)

    monkeypatch.setattr(step_module, "apply", watched)
    training = tiny_training(folder, **options)
    with training.session() as session:
        take(session)
    monkeypatch.undo()
    return seen[0], training.model


@pytest.mark.parametrize("batch", [None, 6])
def test_a_step_is_the_noisy_mean_and_the_exact_public_mean(
    batch: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written out: w0 - lr ((1 - w) noisy / B + w grad), with torch's own backward of the public mean loss."""
    public = PublicBatches(*PUBLIC, weight=0.25, batch=batch)
    release, model = first_step(tmp_path, monkeypatch, public=public)
    start = linear()
    inputs, targets = public.rows(0)
    assert len(targets) == (batch or 15)
    nn.CrossEntropyLoss()(start(inputs), targets).backward()
    for name, before in start.named_parameters():
        assert before.grad is not None
        noisy = torch.from_numpy(release.tensors[name]) / 12
        wanted = before - 0.1 * (0.75 * noisy + 0.25 * before.grad)
        assert torch.allclose(dict(model.named_parameters())[name].double(), wanted.double(), atol=1e-6)


def test_what_is_released_and_charged_does_not_know_of_public_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, _ = first_step(tmp_path / "alone", monkeypatch)
    beside, _ = first_step(tmp_path / "beside", monkeypatch, public=PublicBatches(*PUBLIC, weight=0.9))
    assert alone.event == beside.event
    assert all((alone.tensors[name] == beside.tensors[name]).all() for name in alone.tensors)
    one, two = tiny_training(tmp_path / "1"), tiny_training(tmp_path / "2", public=PublicBatches(*PUBLIC, weight=0.9))
    assert one.plan.fingerprint() == two.plan.fingerprint()


def test_they_are_declared_in_the_certificate_and_a_changed_weight_is_found(tmp_path: Path) -> None:
    public = PublicBatches(*PUBLIC, weight=0.25, batch=6)
    discreet.publish(certified_run(tmp_path, model=linear(), public=public), tmp_path / "out")
    path = tmp_path / "out" / "certificate.json"
    facts = json.loads(path.read_text())
    assert facts["public_batches"] == public.declared
    assert (facts["public_batches"]["rows"], facts["public_batches"]["weight"]) == (15, 0.25)
    assert sum(public.declared["sha256"] in sentence for sentence in facts["assumptions"]) == 1
    assert discreet.verify(tmp_path / "out").accepted
    for changes in ({"weight": 0.5}, {"rows": 1500}, {"sha256": "0" * 64}):
        path.write_text(json.dumps(facts | {"public_batches": public.declared | changes}))
        failed = [check.name for check in discreet.verify(tmp_path / "out").checks if not check.passed]
        assert failed == ["mechanism"]
    path.write_text(json.dumps({name: value for name, value in facts.items() if name != "public_batches"}))
    assert [check.name for check in discreet.verify(tmp_path / "out").checks if not check.passed] == ["mechanism"]


def test_the_digest_is_of_every_number() -> None:
    other = PUBLIC[0].clone()
    other[3, 2] += 1e-6
    digests = {PublicBatches(*rows, weight=0.5).declared["sha256"] for rows in (PUBLIC, (other, PUBLIC[1]))}
    assert len(digests) == 2


def test_rows_that_change_in_a_run_are_not_those_that_are_declared(tmp_path: Path) -> None:
    """In the model, in place, or from outside, before or while the run goes on."""

    class Shifting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear()

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            if len(rows) == 15:
                rows += 1
            return self.inner(rows)

    def copied() -> PublicBatches:
        return PublicBatches(*(part.clone() for part in PUBLIC), weight=0.25)

    training = tiny_training(tmp_path / "model", model=Shifting(), public=copied(), engine="reference")
    with pytest.raises(PrivacyViolation, match="public rows were changed during the run"):
        training.run(progress=False)
    public = copied()
    training = tiny_training(tmp_path / "outside", public=public)
    public.targets[0] = 2 - public.targets[0]
    with pytest.raises(PrivacyViolation, match="public rows were changed during the run"):
        training.run(progress=False)


def test_a_run_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    public = PublicBatches(*PUBLIC, weight=0.25)
    training = tiny_training(tmp_path, public=public)
    with training.session() as session:
        for _ in range(3):
            take(session)
        training.save(session)
    for other in (None, PublicBatches(*PUBLIC, weight=0.5)):
        with pytest.raises(InputError, match="other public rows"):
            tiny_training(tmp_path, public=other, resume=True).run()
    assert tiny_training(tmp_path, public=public, resume=True).run().charged_steps == 7


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    for weight in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="weight"):
            PublicBatches(*PUBLIC, weight=weight)
    with pytest.raises(InputError, match="as many public rows"):
        PublicBatches(*PUBLIC, weight=0.5, batch=16)
    private = blobs()
    with pytest.raises(InputError, match="is the training data itself"):
        tiny_training(tmp_path, data=private, public=PublicBatches(*private, weight=0.5))
    model = linear()
    noisy = DPAdamBC(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match="noise of a release alone"):
        tiny_training(tmp_path, model=model, optimizer=noisy, public=PublicBatches(*PUBLIC, weight=0.5))


def test_what_a_module_remembers_of_private_rows_is_not_in_the_public_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public, moved = PublicBatches(*PUBLIC, weight=0.5), []
    monkeypatch.setattr("discreet.training.step.apply", lambda *rest: moved.append(rest[-1].tensors))
    for far in (0.0, 50.0):
        inputs, targets = blobs()
        training = tiny_training(
            tmp_path / str(far), model=Remembering(), data=(inputs + far, targets), public=public, engine="reference"
        )
        with training.session() as session:
            take(session)
    assert all(torch.equal(one, moved[1][name]) for name, one in moved[0].items())


def _sliced() -> tuple[Any, Any]:
    inputs, targets = blobs()
    return (inputs, targets), (inputs[1:9], targets[1:9])


def _of_a_set() -> tuple[Any, Any]:
    pair = blobs()
    return torch.utils.data.TensorDataset(*pair), pair


def _of_numpy() -> tuple[Any, Any]:
    pair = blobs()
    return (pair[0].numpy(), pair[1].numpy()), pair


@pytest.mark.parametrize("pairs", [_sliced, _of_a_set, _of_numpy])
def test_the_memory_of_private_rows_is_not_public(pairs: Any, tmp_path: Path) -> None:
    private, public = pairs()
    for given in ({"public": PublicBatches(*public, weight=0.5)}, {"public_test": public}):
        with pytest.raises(InputError, match="is the training data itself, or shares rows"):
            tiny_training(tmp_path, data=private, **given)


def test_other_rows_of_one_table_may_be_public(tmp_path: Path) -> None:
    inputs, targets = blobs(80)
    assert not share_rows((inputs[::2], targets[::2]), (inputs[1::2], targets[1::2]))
    tiny_training(tmp_path, data=(inputs[:30], targets[:30]), public_test=(inputs[30:], targets[30:]))
    table = torch.utils.data.TensorDataset(inputs, targets)
    train, rest = (torch.utils.data.Subset(table, list(part)) for part in (range(60), range(60, 80)))
    assert not share_rows(train, rest)
    assert share_rows(train, table)


def test_public_rows_that_the_model_cannot_take_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    inputs, targets = PUBLIC
    for wrong in ((inputs[:, 1:], targets), (inputs.double(), targets), (inputs, torch.rand(15, 2).double())):
        for given in ({"public": PublicBatches(*wrong, weight=0.5)}, {"public_test": wrong}):
            with pytest.raises(InputError, match=r"^public (test|beside): row 0 .* cannot take"):
                tiny_training(tmp_path, **given)
    assert not list(tmp_path.iterdir())


def test_both_verifiers_name_the_public_rows_and_agree_on_what_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public = PublicBatches(*PUBLIC, weight=0.25, batch=6)
    out = tmp_path / "out"
    discreet.publish(certified_run(tmp_path, model=linear(), public=public), out)
    line = "15 rows declared public have weight 0.25 in every step; not covered"
    assert {check.name: check.detail for check in discreet.verify(out).checks}["public rows"] == line
    assert reviewer.main([str(out)]) == 0
    assert f"public rows: {line}\n" in capsys.readouterr().out
    for page in ("README.md", "report.html"):
        assert line in (out / page).read_text()
    path = out / "certificate.json"
    facts = json.loads(path.read_text())
    said = public.declared
    for changes in ({"batch": 16}, {"weight": 7.5}, {"weight": "0.25"}, {"rows": 0, "batch": 0}, {"more": 1}):
        declared = said | changes
        sentences = [*assumptions.public_rows(said), *assumptions.public_rows(declared)]
        swapped = [sentences[1] if one == sentences[0] else one for one in facts["assumptions"]]
        path.write_bytes(canonical(facts | {"public_batches": declared, "assumptions": swapped}))
        assert not discreet.verify(out).accepted
        assert reviewer.main([str(out)]) == 1
        assert capsys.readouterr().out.startswith("REJECTED")
