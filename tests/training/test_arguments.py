"""What is given to `Training` in the wrong place, or of another kind, is named before anything looks into it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import discreet
from discreet import EarlyStopping, InputError, Plan, PublicData, Training, UnsupportedModel
from discreet.methods import Averaging
from discreet.plan import Metric

ROWS, KINDS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
OF_PLAN = {"population": 40, "batch": 10, "steps": 2, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}
PLAN = Plan.poisson(**OF_PLAN)
BUYS = Plan.poisson(**OF_PLAN, metrics=[Metric(noise=5.0, every=1), Metric(kind="loss", bound=1.0, noise=5.0)])


def given(**changes: Any) -> dict[str, Any]:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = {"plan": PLAN, "model": model, "criterion": nn.CrossEntropyLoss(), "optimizer": optimizer}
    return made | {"data": (ROWS, KINDS)} | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plan": nn.Linear(3, 2), "model": PLAN}, "plan cannot be a Linear; the order is Training"),
        ({"model": "net"}, "model cannot be 'net'; the order is Training"),
        ({"optimizer": torch.optim.SGD}, r"optimizer is the class SGD; give one that is made: SGD\(...\)"),
        ({"optimizer": [torch.optim.SGD([nn.Parameter(ROWS)])]}, r"cannot be a list; give discreet.methods.Several\("),
        ({"criterion": nn.CrossEntropyLoss}, "criterion is the class CrossEntropyLoss; give one that is made"),
        ({"criterion": "ce"}, "criterion must be a loss, a function of .output, target., got 'ce'"),
        ({"scheduler": torch.optim.lr_scheduler.StepLR}, "scheduler is the class StepLR; give one that is made"),
        ({"scheduler": 3}, "scheduler cannot be an int; give one of torch.optim.lr_scheduler"),
        ({"geometry": 3}, "needs no geometry, and it was given an int"),
        ({"averaging": torch.optim.swa_utils.AveragedModel(nn.Linear(3, 2))}, "cannot be an AveragedModel; say how"),
        ({"averaging": Averaging}, r"cannot be the class Averaging; say how .*Averaging\(decay=0.99\)"),
        ({"averaging": 0.9}, "averaging cannot be a float"),
        ({"averaging": Averaging(start=2)}, "start is 2, and the last step .* is charged step 2, .* a start below 2"),
        ({"averaging": Averaging(0.9, start=3), "plan": BUYS}, "the last step .* is charged step 3"),
        ({"run": 3}, r"^run cannot be an int; name its folder, or give RunOptions\(FOLDER, ...\)$"),
        ({"public": (ROWS[:5] + 1, KINDS[:5])}, r"public cannot be a tuple; say .*PublicData\(test="),
    ],
)
def test_another_kind_of_argument(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Training(**given(**changes))


def test_what_is_no_trained_run_is_not_published() -> None:
    for other, said in ((3, "not an int, and then"), ("x", "and then"), (nn.Linear(3, 2), "not the model alone")):
        with pytest.raises(InputError, match=f"^publish takes what .*{said}"):
            discreet.publish(other, "x")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"callbacks": lambda told: None}, "callbacks is a single one; give a list"),
        ({"callbacks": 3}, r"callbacks cannot be an int; give a list: callbacks=\[...\]"),
        ({"callbacks": [3]}, "a callback has the methods of .*Callback, or is a function; got 3"),
        ({"early": 3}, r"early cannot be an int; give the rule: early=EarlyStopping\(patience=3\)"),
        ({"early": EarlyStopping}, "early cannot be the class EarlyStopping; give the rule"),
        ({"early": EarlyStopping()}, "looks at 'validation_accuracy'; known here: loss, accuracy"),
        ({"early": EarlyStopping("holdout_accuracy")}, "holdout_accuracy, which the plan does not buy"),
    ],
)
def test_what_a_run_is_asked_is_looked_at_before_its_first_step(
    asked: dict[str, Any], said: str, tmp_path: Path
) -> None:
    training = Training(**given(run=tmp_path / "run", public=PublicData(test=(ROWS[:5] + 1, torch.arange(5) % 2))))
    with pytest.raises(InputError, match=said):
        training.run(**asked)
    assert not (tmp_path / "run").exists()
    assert training.run(callbacks=iter([lambda told: None])).charged_steps == 2


def test_early_stopping_without_public_rows_is_refused_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="early stopping needs PublicData"):
        Training(**given(run=tmp_path / "run")).run(early=EarlyStopping())
    assert not (tmp_path / "run").exists()


def test_masked_values_are_not_taken_for_the_numbers_below_the_mask() -> None:
    hidden = np.ma.masked_greater(ROWS.numpy(), 2.0)
    assert hidden.mask.any()
    with pytest.raises(InputError, match="inputs has masked values, which are no numbers"):
        Training(**given(data=(hidden, KINDS.numpy())))
    Training(**given(data=(np.ma.masked_greater(ROWS.numpy(), 9.0), KINDS.numpy())))


def test_what_opacus_made_is_left_behind() -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed; it is in the extra dev")
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.utils.data.TensorDataset(ROWS, KINDS)
    loader, how = torch.utils.data.DataLoader(rows, batch_size=10), {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
    with warnings.catch_warnings(action="ignore"):
        engine = opacus.PrivacyEngine()
        wrapper, optimizer, _ = engine.make_private(module=model, optimizer=inner, data_loader=loader, **how)
    with pytest.raises(
        UnsupportedModel, match=r"^'model' is a GradSampleModule of Opacus, .* its .to_standard_module\("
    ):
        Training(**given(model=wrapper, optimizer=optimizer))
    with pytest.raises(UnsupportedModel, match=r"^'0' \(and 1 more\) is still wrapped by Opacus, .* made anew"):
        Training(**given(model=model, optimizer=inner))
    alone = wrapper.to_standard_module()
    with pytest.raises(
        UnsupportedModel, match=r"^the optimizer is a DPOptimizer of Opacus, .* its .original_optimizer$"
    ):
        Training(**given(model=alone, optimizer=optimizer))
    Training(**given(model=alone, optimizer=optimizer.original_optimizer))
    with pytest.raises(
        InputError, match=r"^Training takes no max_physical_batch_size; .*EngineOptions\(physical_batch="
    ):
        Training(**given(max_physical_batch_size=8))


def test_the_folder_in_the_place_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"publish\(trained, folder\)"):
        discreet.publish(str(tmp_path / "out"), object())  # type: ignore[arg-type]


def test_a_scheduler_of_another_optimizer() -> None:
    other = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
    with pytest.raises(InputError, match="scheduler is one of another optimizer"):
        Training(**given(scheduler=torch.optim.lr_scheduler.StepLR(other, 1)))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_model_in_a_wrapper(tmp_path: Path) -> None:
    inner = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
    with pytest.raises(UnsupportedModel, match=r"\(DataParallel\) is a wrapper; give the model in it, model.module"):
        Training(**given(model=nn.DataParallel(inner), optimizer=optimizer))
    scripted = torch.jit.script(inner)
    with pytest.raises(UnsupportedModel, match="is a ScriptModule"):
        Training(**given(model=scripted, optimizer=torch.optim.SGD(scripted.parameters(), lr=0.1)))
    compiled = torch.compile(inner, backend="eager")  # others take seconds to load
    with pytest.raises(UnsupportedModel, match=r"\(OptimizedModule\) is compiled by torch.*\(its ._orig_mod\)"):
        Training(**given(model=compiled, optimizer=optimizer))
    with pytest.raises(InputError, match=r"what Training.run\(\) returned"):
        discreet.publish(inner, tmp_path / "out")  # type: ignore[arg-type]


def test_a_compiled_model_is_refused_before_it_is_compiled_for_anything() -> None:
    """A compiler takes minutes, once for each shape of the rows that a model is tried on."""
    asked: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        asked.append(inputs)
        return graph.forward

    compiled = torch.compile(nn.Sequential(nn.Linear(3, 2)), backend=backend)
    with pytest.raises(UnsupportedModel, match="is compiled by torch"):
        Training(**given(model=compiled, optimizer=torch.optim.SGD(compiled.parameters(), lr=0.1)))
    assert asked == []


def test_a_model_with_a_compiled_layer() -> None:
    """Compiled layers are for those that stay as they are (`test_a_frozen_part_that_is_compiled_is_compiled_once`)."""
    model = nn.Sequential(nn.Linear(3, 2))
    model[0].compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UnsupportedModel, match=r"'0' \(Linear\) is compiled by torch.*leave out .compile\(\)"):
        Training(**given(model=model, optimizer=optimizer))
