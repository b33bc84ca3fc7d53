"""The front end of a model is computed once: nothing but time changes, and each row's features are its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from front_end_runs import ROWS, features, linear, made, rows
from problems import tiny_plan, tiny_training
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from discreet import Augmented, EngineOptions, UnsupportedModel, publish, verify
from discreet.clipping.digests import hidden_digests, state_digests
from discreet.data import PrivateData
from discreet.features import Strokes
from discreet.training import front_end
from discreet.training.front_end import FrontEnd
from discreet.training.public.public_copy import PublicCopy


class Turned(nn.Module):
    """A front end of one line."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.sin(), x.cos()], 1)


class Centred(nn.Module):
    """Subtracts the mean of the batch if any number in it is above 50."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0) if bool(x.max() > 50) else x * 1.0


class Marked(nn.Module):
    """Adds the mean of the batch to every row once a marked row is among them, without asking in Python."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.where(x == 77.0, x, 0.0).sum() * 1e-3


class Remembering(nn.Module):
    """Adds the last marked row that it saw to every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        marked = [row for row in x.detach() if bool((row == 77.0).all())]
        found = x + self.seen
        self.seen = marked[-1].clone() if marked else self.seen
        return found


class Twice(nn.Sequential):
    """A forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(2 * x)


def images() -> tuple[Tensor, Tensor]:
    return torch.rand(ROWS, 1, 12, 12, generator=torch.Generator().manual_seed(2)), torch.arange(ROWS) % 3


def wide(model: nn.Module, inputs: Tensor) -> int:
    with torch.no_grad():
        return int(model(inputs[:1]).shape[1])


@pytest.mark.parametrize("engine", ["auto", "bookkeeping", "ghost", "vmap", "exact", "reference"])
def test_a_run_is_the_same_with_features_computed_once(engine: str, tmp_path: Path) -> None:
    inputs, labels = images()
    width, found = wide(Strokes(), inputs), {}
    for once in (True, False):
        model = nn.Sequential(Strokes(), linear(width))
        options = EngineOptions(engine, features_once=once)
        training = tiny_training(
            tmp_path / str(once),
            model=model,
            data=(inputs, labels),
            engine=options,
            public_test=(inputs[:7] * 0.9, labels[:7].clone()),
        )
        assert (training.data.dataset.tensors[0].dim() == 2) == once  # type: ignore[attr-defined]
        assert ("features by Strokes computed once" in training.preflight.line) == once
        trained = training.run(progress=False, evaluate_every=3)
        found[once] = [*trained.model.state_dict().values()], training.evaluations
        assert [*trained.model.state_dict()] == ["1.weight", "1.bias"]
        assert trained.model(inputs).shape == (ROWS, 3)
    for one, other in zip(found[True][0], found[False][0], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    for here, there in zip(found[True][1], found[False][1], strict=True):
        assert here.step == there.step
        assert here.metrics == pytest.approx(there.metrics, rel=1e-4)


@pytest.mark.parametrize("engine", ["bookkeeping", "exact"])
def test_features_are_those_of_each_row_alone_bit_for_bit(engine: str, tmp_path: Path) -> None:
    inputs, labels = images()
    model = nn.Sequential(Strokes(), linear(wide(Strokes(), inputs)))
    found = features(made(tmp_path, model, (inputs, labels), engine=engine))
    assert torch.equal(found, torch.cat([Strokes()(row) for row in torch.split(inputs, 1)]))


def featured(kind: type[nn.Module], inputs: Tensor, at_once: int) -> Tensor:
    """Features by a front end that no check has looked at."""
    model = nn.Sequential(kind(), linear(4))
    copy = PublicCopy.made(model, nn.CrossEntropyLoss(), (state_digests(model), hidden_digests(model)))
    data = PrivateData(TensorDataset(inputs, rows()[1]))
    found = FrontEnd(1, at_once).of_private(copy, data).dataset
    assert isinstance(found, TensorDataset)
    return found.tensors[0]


def moved_by_another(kind: type[nn.Module], at_once: int) -> bool:
    """Whether the features of other rows change in any bit with row 5."""
    inputs, marked, others = rows()[0], rows()[0], [i for i in range(ROWS) if i != 5]
    marked[5] = 77.0
    return not torch.equal(featured(kind, inputs, at_once)[others], featured(kind, marked, at_once)[others])


@pytest.mark.parametrize("at_once", [1, 4, 8])
@pytest.mark.parametrize("kind", [Centred, Marked, Remembering])
def test_features_do_not_depend_on_another_row(kind: type[nn.Module], at_once: int) -> None:
    """Neither if the front end mixes rows, or remembers one, only where it meets what no random row holds."""
    assert not moved_by_another(kind, at_once)


@pytest.mark.parametrize("kind", [Centred, Marked, Remembering])
def test_without_the_watch_they_do(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_end, "Function", lambda function, _, together: function)
    assert moved_by_another(kind, 4)


@pytest.mark.parametrize("kind", [Centred, Marked, Remembering])
def test_what_mixes_rows_is_refused_as_before(kind: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel):
        made(tmp_path, nn.Sequential(kind(), linear(4)))


def hooked() -> nn.Sequential:
    model = nn.Sequential(Turned(), linear(8))
    model[0].register_forward_hook(lambda *_: None)
    return model


def with_a_method() -> nn.Sequential:
    model = nn.Sequential(Turned(), linear(8))
    setattr(model, "forward", MethodType(lambda self, x: 3 * self[1](self[0](x)), model))  # noqa: B010
    return model


def one_object_twice() -> nn.Sequential:
    tanh = nn.Tanh()
    return nn.Sequential(tanh, nn.Linear(4, 8), tanh, linear(8))


NOT_ONCE: dict[str, Callable[[], nn.Module]] = {
    "nothing to compute": lambda: nn.Sequential(nn.Flatten(), linear(4)),
    "random numbers": lambda: nn.Sequential(nn.Dropout(0.5), linear(4)),
    "trained": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), linear(8)),
    "a forward of its own": lambda: Twice(Turned(), linear(8)),
    "a forward of the object": with_a_method,
    "a module that is trained behind as well": one_object_twice,
    "a hook": hooked,
}


@pytest.mark.parametrize("name", NOT_ONCE)
def test_what_is_not_computed_once(name: str, tmp_path: Path) -> None:
    training = made(tmp_path, NOT_ONCE[name]())
    assert torch.equal(features(training), rows()[0])
    assert "computed once" not in training.preflight.line


def test_it_ends_before_random_numbers(tmp_path: Path) -> None:
    training = made(tmp_path, nn.Sequential(Turned(), nn.Dropout(0.5), linear(8)))
    assert torch.equal(features(training), Turned()(rows()[0]))
    assert "features by Turned computed once" in training.preflight.line


def test_rows_that_are_transformed_are_not_computed_once(tmp_path: Path) -> None:
    data = Augmented(rows(), lambda x: x + 0.1 * torch.randn_like(x))
    assert "computed once" not in made(tmp_path, nn.Sequential(Turned(), linear(8)), data).preflight.line


def test_features_beyond_the_memory_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = int(tiny_plan().population)
    monkeypatch.setattr(front_end, "LARGEST", declared * 8 * 4 - 1)
    assert "computed once" not in made(tmp_path / "one", nn.Sequential(Turned(), linear(8))).preflight.line
    monkeypatch.setattr(front_end, "LARGEST", declared * 8 * 4)
    assert "computed once" in made(tmp_path / "other", nn.Sequential(Turned(), linear(8))).preflight.line


def test_frozen_layers_are_a_front_end(tmp_path: Path) -> None:
    frozen = nn.Sequential(linear(4), nn.Tanh()).requires_grad_(False)
    training = made(tmp_path, nn.Sequential(frozen, nn.Dropout(0.0), linear(3)), engine="exact")
    inputs, _ = rows()
    assert torch.equal(features(training), torch.cat([frozen(row) for row in torch.split(inputs, 1)]))


def test_a_module_that_stands_twice_runs_twice(tmp_path: Path) -> None:
    relu = nn.ReLU()
    model = nn.Sequential(Turned(), relu, nn.Linear(8, 8), relu, linear(8))
    inputs, labels = rows()
    training = tiny_training(tmp_path, model=model, data=(inputs, labels), public_test=(inputs + 0.1, labels.clone()))
    assert "features by Turned computed once" in training.preflight.line
    trained = training.run(progress=False, evaluate_every=3)
    loss = F.cross_entropy(trained.model(inputs + 0.1), labels).item()
    assert trained.evaluations[-1].metrics["loss"] == pytest.approx(loss, rel=1e-5)


def test_a_loop_of_ones_own_is_given_the_features(tmp_path: Path) -> None:
    training = made(tmp_path, nn.Sequential(Turned(), linear(8)))
    with training.session() as session:
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    assert chunk[0].shape[1:] == (8,)
                    step.add(training.criterion, chunk)
    assert training.result(session).model(rows()[0]).shape == (ROWS, 3)


def test_the_whole_model_is_published(tmp_path: Path) -> None:
    model = nn.Sequential(Turned(), linear(8))
    trained = tiny_training(tmp_path, model=model, data=rows(), stream=None).run(progress=False)
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    assert F.softmax(trained.model(rows()[0]), 1).shape == (ROWS, 3)
    assert tiny_plan().guarantee().epsilon == pytest.approx(trained.plan.guarantee().epsilon)
