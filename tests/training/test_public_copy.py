"""Whatever is published comes from copies that saw no private row: what a module remembers of them stays with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import FEATURES, PUBLIC_ROWS, Remembering, blobs, linear, tiny_plan, tiny_training
from searches import ROWS, parts_tuning
from torch import Tensor, nn

import discreet
from discreet.core.errors import InputError, PrivacyViolation
from discreet.methods import Averaging
from discreet.plan import Metric
from discreet.queries import Account
from discreet.randomness import TestStream
from discreet.training import EarlyStopping, Setup, Trained, choose_model
from discreet.training.callbacks.csv_logger import CSVLogger

PUBLIC, VALIDATION = blobs(PUBLIC_ROWS, seed=1), blobs(PUBLIC_ROWS, seed=2)
FAR = (0.0, 50.0)
"""Two private data sets: the rows of one are the other's, moved by this."""


def still(folder: Path, far: float, **changes: Any) -> tuple[discreet.Training, Remembering]:
    """A run whose weights never move, so that private rows can be seen in nothing but a memory."""
    model, (inputs, targets) = Remembering(), blobs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    options: dict[str, Any] = {"public_test": PUBLIC, "public_validation": VALIDATION, "engine": "reference"}
    data = inputs + far, targets
    return tiny_training(folder, model=model, optimizer=optimizer, data=data, **options | changes), model


def outputs(trained: Trained) -> list[Any]:
    """What a run hands out: metrics, tensors, and what the model says of public rows."""
    tensors = {name: tensor.tolist() for name, tensor in trained.model.state_dict().items()}
    return [trained.evaluations, tensors, trained.model(PUBLIC[0]).tolist()]


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "averaged": {"averaging": Averaging(start=2)},
    "bought": {"plan": tiny_plan(metrics=[Metric(noise=9.0, every=2)])},
    "bought of an average": {
        "averaging": Averaging(start=2),
        "plan": tiny_plan(metrics=[Metric(kind="loss", noise=9.0, bound=2.0, every=2)]),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
def test_nothing_that_a_run_hands_out_remembers_private_rows(name: str, tmp_path: Path) -> None:
    found, told = [], []
    for far in FAR:
        training, model = still(tmp_path / str(far), far, **OPTIONS[name])
        early = EarlyStopping("validation_loss", patience=50, keep_best=True)
        log = CSVLogger(tmp_path / f"{far}.csv")
        found.append(outputs(training.run(evaluate_every=1, progress=False, early=early, callbacks=[log])))
        told.append([line for line in (tmp_path / f"{far}.csv").read_text().splitlines() if "bought/" not in line])
        model(training.data.fetch(np.arange(1))[0])
        assert float(model.last[0].abs().max()) > far / 2  # the module does keep a private row that it sees
    assert len(found[0][0]) >= 7
    assert found[0] == found[1]
    assert told[0] == told[1]
    assert len(told[0]) > 7


@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_what_the_copy_says(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="lightning is not installed; it is in the extra lightning")
    from discreet.integrations.lightning import PrivateModule

    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*PUBLIC), batch_size=PUBLIC_ROWS)
    quiet: dict[str, Any] = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar"], False)
    quiet |= {"enable_model_summary": False, "accelerator": "cpu", "default_root_dir": tmp_path, "max_epochs": 1}
    found = []
    for far in FAR:
        module, trainer = PrivateModule(still(tmp_path / str(far), far)[0]), lightning.Trainer(**quiet)
        trainer.fit(module, val_dataloaders=rows)
        found.append((dict(trainer.callback_metrics), module(PUBLIC[0]).tolist()))
    assert set(found[0][0]) == {"public_loss", "public_accuracy"}
    assert found[0] == found[1]


def test_a_model_that_private_rows_choose_remembers_none_of_them(tmp_path: Path) -> None:
    model = Remembering()
    choose_model([model, linear()], blobs(), Account(tmp_path / "ledger.sqlite", delta=1e-6), epsilon=1.0)
    assert torch.equal(model.last[0], torch.zeros(1))


def test_a_search_scored_by_private_rows_hands_out_no_memory_of_them(tmp_path: Path) -> None:
    def build(_settings: Mapping[str, Any]) -> Setup:
        model = Remembering()
        return Setup(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.0))

    found, (inputs, targets) = [], blobs(ROWS)
    for far in FAR:
        data: dict[str, Any] = {"data": (inputs + far, targets), "engine": "reference", "start": TestStream}
        found.append(parts_tuning(tmp_path / str(far), build, **data).run().model(PUBLIC[0]).tolist())
    assert found[0] == found[1]


def test_parameters_are_the_same_wherever_the_model_was_moved(tmp_path: Path) -> None:
    """`torch.nn.Module.to` puts other memory behind the parameters of a model."""
    training = tiny_training(tmp_path, public_test=PUBLIC)
    for parameter in training.model.parameters():
        parameter.data = parameter.data.clone()
    trained = training.run(progress=False)
    assert trained.model is not training.model
    state = training.model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in trained.model.state_dict().items())
    assert not torch.equal(state["weight"], linear().state_dict()["weight"])
    assert trained.final == tiny_training(tmp_path / "2", public_test=PUBLIC).run(progress=False).final


class Locked(Remembering):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle a lock")


class Itself(Remembering):
    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Kept(nn.CrossEntropyLoss):
    def __deepcopy__(self, memo: Any) -> Any:
        return self


def other(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, target)


REFUSED: dict[str, tuple[nn.Module, Callable[[Tensor, Tensor], Tensor], str]] = {
    "model": (Locked(), other, "cannot pickle a lock"),
    "itself": (Itself(), other, "part of the model itself"),
    "inside": (nn.Sequential(Itself()), other, "part of the model itself"),
    "loss": (linear(), Kept(), "part of the model itself"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_copied_is_refused(name: str, tmp_path: Path) -> None:
    model, criterion, why = REFUSED[name]
    with pytest.raises(InputError, match=f"copied before the run.*{why}"):
        tiny_training(tmp_path, model=model, criterion=criterion)
    assert not list(tmp_path.iterdir())


class Writing(nn.Module):
    """Writes what it sees to a parameter, past torch's count of writes; once, as rare events do."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        self.loc, self.rest = nn.Parameter(torch.zeros(FEATURES), requires_grad=trained), linear()
        self.armed = False

    def forward(self, inputs: Tensor) -> Any:
        if self.training and self.armed:
            self.loc.data.copy_(inputs.detach().reshape(-1, FEATURES).mean(0))
            self.armed = False
        return self.rest(inputs + self.loc)


@pytest.mark.parametrize(
    ("trained", "says"), [(True, "something that is not a release"), (False, "'loc' is not a private parameter")]
)
def test_writes_that_torch_does_not_count_reach_no_figure(trained: bool, says: str, tmp_path: Path) -> None:
    model = Writing(trained)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.0)
    training = tiny_training(
        tmp_path / "run", model=model, optimizer=optimizer, data=blobs(), engine="reference", public_test=PUBLIC
    )
    model.armed = True
    with pytest.raises(PrivacyViolation, match=says):
        training.run(evaluate_every=1, progress=False)
    assert training.evaluations == []


class Centring(nn.Module):
    """Makes itself a centre of the first rows that it sees outside of training."""

    def __init__(self) -> None:
        super().__init__()
        self.rest, self.centre = linear(), None

    def forward(self, inputs: Tensor) -> Any:
        if not self.training and self.centre is None:
            self.centre = inputs.detach().mean(0)
        return self.rest(inputs if self.centre is None else inputs - self.centre)


def test_what_a_model_makes_of_its_first_rows_does_not_stay(tmp_path: Path) -> None:
    model = Centring()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tiny_training(tmp_path / "run", model=model, optimizer=optimizer, data=blobs())
    assert model.centre is None
