"""Runs with every way to clip: what is refused beforehand, what a step does, what is kept, shown and certified."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clips import contributions
from problems import CLASSES, FEATURES, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn
from ways import WAYS, scales

from discreet import publish, verify
from discreet.clipping import BIT, ENGINES, Clip
from discreet.clipping.engines import bookkeeping
from discreet.clipping.geometry import Fixed
from discreet.core.errors import InputError, UnsupportedModel
from discreet.core.events import Gaussian
from discreet.core.release import Release
from discreet.plan import Plan
from discreet.training import Training
from discreet.training import step as step_module
from discreet.training import training as training_module

LOSS = nn.CrossEntropyLoss()


def plan_with(clipping: Any, **changes: Any) -> Plan:
    return tiny_plan(**({"clip_norm": None, "clipping": clipping} | changes))


def training_with(folder: Path, way: str, **changes: Any) -> Training:
    model = changes.pop("model", None) or linear()
    plan = changes.pop("plan", None) or plan_with(WAYS[way])
    geometry = Fixed(scales(model)) if plan.clipping.kind in ("ellipsoid", "box") else None
    return tiny_training(folder, **({"plan": plan, "model": model, "geometry": geometry} | changes))


def one_step(training: Training) -> tuple[Clip, Release]:
    """Take one step, and return its clip and release."""
    seen: list[Release] = []
    real = step_module.apply

    def keep(release: Release, *rest: Any) -> None:
        seen.append(release)
        real(release, *rest)

    with pytest.MonkeyPatch.context() as patch, training.session() as session:
        patch.setattr(step_module, "apply", keep)
        with session.step() as step:
            for chunk in step.chunks:
                step.add(LOSS, chunk)
        return step.clip, seen[0]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"plan": plan_with({"groups": {"weight": 1.0}})}, "parameter 'bias' is in no group"),
        ({"plan": plan_with({"groups": {"*": 1.0, "b*": 1.0}})}, "parameter 'bias' is in 2 groups"),
        ({"plan": plan_with({"kind": "box"}), "geometry": None}, "needs a geometry called 'fixed', and none was given"),
        ({"plan": plan_with({"kind": "box", "scales": "adadp"})}, "called 'adadp', and it was given 'fixed'"),
        ({"geometry": Fixed({})}, "flat clipping needs no geometry, and it was given 'fixed'"),
        ({"plan": plan_with({"kind": "box"}), "geometry": Fixed({})}, "one tensor for each trained parameter"),
        *(
            (
                {"plan": plan_with({"kind": kind}), "geometry": Fixed(scales(linear()) | {"bias": torch.tensor(bias)})},
                fault,
            )
            for kind in ("ellipsoid", "box")
            for bias, fault in [
                ([1.0, 0.0, 1.0], "'bias' holds a number that is not finite and positive"),
                ([1.0, -1.0, 1.0], "'bias' holds a number that is not finite and positive"),
                ([1.0, math.nan, 1.0], "'bias' holds a number that is not finite and positive"),
                ([1.0, math.inf, 1.0], "'bias' holds a number that is not finite and positive"),
                ([1.0, 1.0], r"'bias' has shape \(2,\), its parameter \(3,\)"),
            ]
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(
    tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        training_with(tmp_path, "flat", **({"plan": tiny_plan()} | changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("engine", ["bookkeeping", "vmap", "exact"])
@pytest.mark.parametrize("way", WAYS)
def test_a_step_moves_the_weights_by_the_release_in_the_scales_of_the_gradient(
    tmp_path: Path, way: str, engine: str
) -> None:
    """Hardly any noise, everybody in the batch: the sum is the one that the definition gives."""
    changes: dict[str, Any] = {"batch": 24, "noise_multiplier": 1e-3}
    training = training_with(tmp_path, way, plan=plan_with(WAYS[way], **changes), engine=engine)
    before = {name: parameter.detach().clone() for name, parameter in training.model.named_parameters()}
    parts = []
    for inputs, target in zip(*blobs(), strict=True):
        loss = LOSS(training.model(inputs[None]), target[None])
        rows = torch.autograd.grad(loss, list(training.model.parameters()))
        parts.append(dict(zip(before, rows, strict=True)))
    clip, release = one_step(training)
    wanted = [contributions(part, clip) for part in parts]
    assert set(release.tensors) == set(wanted[0])
    for name in release.tensors:
        total = sum(part[name] for part in wanted).numpy()
        size = 1.0 if clip.scales is None else scales(training.model)[name].numpy()
        assert np.abs(release.tensors[name] / size - total).max() <= 6e-3 * clip.sensitivity
    for name, parameter in training.model.named_parameters():
        mean = torch.from_numpy(release.tensors[name]) / 24
        assert torch.allclose(parameter, before[name] - 0.1 * mean.float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_people_with_several_rows_and_empty_batches_go_with_every_policy(tmp_path: Path, way: str) -> None:
    plan = plan_with(WAYS[way], population=4, batch=1, unit="user", rows_per_unit=3)
    training = training_with(tmp_path / "users", way, plan=plan, units=np.repeat([3, 1, 2, 4], [1, 3, 8, 12]))
    assert training.run(progress=False).charged_steps == 7
    empty = training_with(tmp_path / "empty", way, plan=plan_with(WAYS[way], batch=1e-9))
    before = [parameter.detach().clone() for parameter in empty.model.parameters()]
    _, release = one_step(empty)
    assert all(np.abs(tensor).min() > 0 for tensor in release.tensors.values())
    assert not any(torch.equal(*pair) for pair in zip(before, empty.model.parameters(), strict=True))


def test_noise_covers_gradient_and_bit_together(tmp_path: Path) -> None:
    """The noise of a release is z times what one unit moves, and the bit's own noise s times the bit or a bit more."""
    training = training_with(tmp_path, "adaptive", engine="exact")
    stds = []
    real = step_module.gaussian_release

    def seen(total: Any, *rest: Any) -> Release:
        stds.append(1.5 * total.sensitivity)
        return real(total, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "gaussian_release", seen)
        clip, release = one_step(training)
    assert set(release.tensors) == {BIT, "weight", "bias"}
    assert stds[0] == pytest.approx(1.5 * math.hypot(1.0, clip.bit), rel=1e-12)
    assert stds[0] / clip.bit == pytest.approx(6.0, rel=1e-9)
    assert stds[0] / 1.0 == pytest.approx((1.5**-2 - 6.0**-2) ** -0.5, rel=1e-9)


def test_the_adaptive_norm_follows_its_releases_and_finds_the_quantile(tmp_path: Path) -> None:
    """With little noise and a frozen model, C comes to lie where the wanted share of gradients is shorter."""
    clipping = {"kind": "adaptive", "initial": 0.05, "bit_multiplier": 1.0, "quantile": 0.75, "rate": 0.5}
    plan = plan_with(clipping, population=48, batch=48, steps=60, noise_multiplier=0.05)
    model, data = linear(), blobs(48)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    training = tiny_training(tmp_path, plan=plan, model=model, data=data, optimizer=optimizer)
    lengths = []
    for inputs, target in zip(*data, strict=True):
        rows = torch.autograd.grad(LOSS(model(inputs[None]), target[None]), list(model.parameters()))
        lengths.append(float(torch.cat([row.flatten() for row in rows]).norm()))
    training.run(progress=False)
    norm = training.clipping.state_dict()["norm"]
    assert abs(np.mean(np.array(lengths) <= norm) - 0.75) <= 0.08
    assert training.clipping.shown() == f"clip norm {norm:.3g}"


def test_the_norm_is_that_of_the_released_bits(tmp_path: Path) -> None:
    training = training_with(tmp_path, "adaptive")
    clip, release = one_step(training)
    bits = float(release.tensors[BIT][0]) / (2 * clip.bit)
    expected = math.exp(-0.2 * (bits / 12 + 0.5 - 0.5))
    assert training.clipping.state_dict()["norm"] == pytest.approx(expected, rel=1e-12)
    after = training.clipping.at(1, Gaussian(1.5))
    assert after.norm == pytest.approx(expected, rel=1e-12)
    assert after.sensitivity == pytest.approx(expected / math.sqrt(1 - (1.5 / 6) ** 2), rel=1e-9)


class Learning:
    """Scales that follow the size of released means."""

    name = "learning"

    def __init__(self, model: nn.Module) -> None:
        self._scales = {name: torch.ones_like(one, dtype=torch.float64) for name, one in model.named_parameters()}
        self.seen: list[tuple[float, float]] = []

    def scales(self) -> Mapping[str, Tensor]:
        return self._scales

    def update(self, release: Release, noise: float, divisor: float) -> None:
        self.seen.append((noise, divisor))
        for name, scale in self._scales.items():
            scale.mul_(0.5).add_(torch.from_numpy(release.tensors[name]).abs() * scale / divisor).clamp_(min=1e-3)

    def state_dict(self) -> dict[str, Any]:
        return {name: scale.clone() for name, scale in self._scales.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._scales = {name: scale.clone() for name, scale in state.items()}


@pytest.mark.parametrize("way", ["adaptive", "learning"])
def test_what_clipping_learned_is_in_the_checkpoint(tmp_path: Path, way: str) -> None:
    def made(folder: str, resume: bool = False) -> Training:
        model = linear()
        clipping = WAYS["adaptive"] if way == "adaptive" else {"kind": "ellipsoid", "scales": "learning"}
        options: dict[str, Any] = {"model": model, "plan": plan_with(clipping), "resume": resume}
        if way == "learning":
            options["geometry"] = Learning(model)
        return tiny_training(tmp_path / folder, **options)

    first = made("a")
    with first.session() as session:
        for _ in range(3):  # one block
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
        first.save(session)
    kept = first.clipping.at(3, Gaussian(1.5))
    again = made("a", resume=True)
    assert again.clipping.at(3, Gaussian(1.5)).norm != kept.norm or way == "learning"
    with again.session():
        back = again.clipping.at(3, Gaussian(1.5))
    assert (back.norm, back.grid, back.bit) == (kept.norm, kept.grid, kept.bit)
    if kept.scales is not None and back.scales is not None:
        assert all(torch.equal(kept.scales[name], back.scales[name]) for name in kept.scales)
        assert not torch.equal(back.scales["weight"], torch.ones(CLASSES, FEATURES).double())


def test_a_geometry_sees_releases_and_cannot_change_scales_in_a_step(tmp_path: Path) -> None:
    model = linear()
    geometry = Learning(model)
    plan = plan_with({"kind": "box", "scales": "learning"})
    training = tiny_training(tmp_path, model=model, plan=plan, geometry=geometry, engine="exact")
    clip, _ = one_step(training)
    assert geometry.seen == [(pytest.approx(1.5 * math.sqrt(15)), 12.0)]
    assert clip.scales is not None
    assert torch.equal(clip.scales["weight"], torch.ones(CLASSES, FEATURES).double())
    geometry._scales["weight"].fill_(math.nan)  # not asked again before it has learned
    assert training.clipping.at(1, Gaussian(1.5)).norm == pytest.approx(math.sqrt(15))
    with pytest.raises(InputError, match="not finite and positive"):
        training.clipping.load_state_dict({"geometry": geometry.state_dict()})


def test_a_run_goes_on_with_the_fixed_scales_it_had(tmp_path: Path) -> None:
    geometry = Fixed(scales(linear()))
    geometry.load_state_dict(geometry.state_dict())
    with pytest.raises(InputError, match="started with other fixed scales"):
        Fixed(scales(linear(), 2.0)).load_state_dict(geometry.state_dict())


def test_a_schedule_is_followed_by_position(tmp_path: Path) -> None:
    training = training_with(tmp_path, "scheduled")
    assert [training.clipping.at(position, Gaussian(1.5)).norm for position in range(7)] == [2.0] * 3 + [0.5] * 4
    assert training.clipping.at(0, Gaussian(1.5)).grid == 4 * training.clipping.at(3, Gaussian(1.5)).grid


@pytest.mark.parametrize("way", ["groups", "adaptive", "box"])
def test_the_rehearsal_tries_the_policy_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A fault that shows with one policy only is found by a run with it, and by no other."""
    real = bookkeeping.clipped_sums

    def broken(model: nn.Module, criterion: Any, chunk: Any, clip: Clip) -> Any:
        sums = real(model, criterion, chunk, clip)
        hit = {"groups": bool(clip.groups), "adaptive": clip.bit > 0, "box": clip.box}[way]
        return {name: tensor * 1.5 for name, tensor in sums.items()} if hit else sums

    monkeypatch.setitem(ENGINES, "bookkeeping", replace(ENGINES["bookkeeping"], clipped_sum=broken))
    with pytest.raises(UnsupportedModel, match="of the clip norm away from 'reference'"):
        training_with(tmp_path, way, engine="bookkeeping")
    assert training_with(tmp_path, way).engine.name in ("ghost", "vmap")
    assert tiny_training(tmp_path, engine="bookkeeping").engine.name == "bookkeeping"


def test_the_norm_is_shown_as_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    @contextmanager
    def bar(*_: Any, **__: Any) -> Iterator[Any]:
        yield lambda _done, _evaluation, public: shown.append(public)

    monkeypatch.setattr(training_module, "progress_bar", bar)
    training = training_with(tmp_path / "a", "adaptive")
    training.run()
    assert len(set(shown)) == 7
    assert shown[-1] == f"clip norm {training.clipping.state_dict()['norm']:.3g}"
    shown.clear()
    training_with(tmp_path / "b", "automatic").run()
    assert shown == [""] * 7


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_certified_and_verified_with_every_policy(tmp_path: Path, way: str) -> None:
    publish(training_with(tmp_path, way, stream=None).run(progress=False), tmp_path / "out")
    found = verify(tmp_path / "out")
    assert found.accepted, [check for check in found.checks if not check.passed]
    page = (tmp_path / "out" / "report.html").read_text()
    kind = plan_with(WAYS[way]).clipping.kind
    words = {"adaptive": "follows the", "box": "range from -1 to 1", "per_layer": "module by module"}
    assert words.get(kind, "length") in page
