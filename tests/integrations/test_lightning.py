"""Lightning's trainer around a private run: the same steps, charged and certified as without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, linear, tiny_training

import discreet
from discreet.core.errors import InputError

lightning = pytest.importorskip("lightning", reason="lightning is not installed; it is in the extra lightning")

pytestmark = pytest.mark.filterwarnings("ignore")


def trainer(folder: Path, **changes: Any) -> Any:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "accelerator": "cpu", "default_root_dir": folder}
    return lightning.Trainer(**quiet | {"max_epochs": 1, **changes})


def test_a_fit_takes_the_steps_of_the_plan_and_is_certified(tmp_path: Path) -> None:
    from discreet.integrations.lightning import PrivateModule

    module = PrivateModule(tiny_training(tmp_path, stream=None))
    public = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*blobs(9, seed=1)), batch_size=9)
    fitted = trainer(tmp_path)
    fitted.fit(module, val_dataloaders=public)
    assert module.trained is not None
    assert module.trained.charged_steps == 7
    assert set(fitted.callback_metrics) == {"public_loss", "public_accuracy"}
    discreet.publish(module.trained, tmp_path / "out")
    assert discreet.verify(tmp_path / "out").accepted


def test_the_steps_are_those_of_a_run_without_lightning(tmp_path: Path) -> None:
    """Both draw from the same test stream, so they end with the same weights, to the bit."""
    from discreet.integrations.lightning import PrivateModule

    alone = tiny_training(tmp_path / "alone").run()
    module = PrivateModule(tiny_training(tmp_path / "within"))
    trainer(tmp_path).fit(module)
    assert module.trained is not None
    assert module.trained.final == alone.final


def test_trainers_that_would_go_around_the_plan_are_refused(tmp_path: Path) -> None:
    from discreet.integrations.lightning import PrivateModule

    training = tiny_training(tmp_path)
    with pytest.raises(InputError, match="one epoch in one process"):
        trainer(tmp_path, max_epochs=2).fit(PrivateModule(training))
    assert not training.folder.path.exists()
    for precision in ("bf16-mixed", "64-true"):
        with pytest.raises(InputError, match=r"EngineOptions\(autocast=torch.bfloat16\)"):
            trainer(tmp_path, precision=precision).fit(PrivateModule(training))
    assert not training.folder.path.exists()


@pytest.mark.parametrize("named", ["train_dataloaders", "val_dataloaders"])
def test_the_private_rows_are_refused_as_those_of_fit_and_nothing_is_charged(named: str, tmp_path: Path) -> None:
    from discreet.integrations.lightning import PrivateModule

    private = blobs()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*private), batch_size=9)
    training = tiny_training(tmp_path, data=private)
    seen: list[int] = []

    class Watching(lightning.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_start(self, *rest: Any) -> None:
            seen.append(len(rest))

        def on_validation_batch_start(self, *rest: Any) -> None:
            seen.append(len(rest))

    module = PrivateModule(training)
    with pytest.raises(InputError, match=f"train_dataloaders|{named} is the training data itself"):
        trainer(tmp_path, callbacks=[Watching()]).fit(module, **{named: loader})
    assert seen == []
    assert module.trained is None


class Last(torch.nn.Module):
    """A linear layer that remembers the last row it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = linear(), [torch.zeros(1)]

    def forward(self, rows: torch.Tensor) -> Any:
        self.last[0] = rows[-1].detach().clone()
        return self.inner(rows)


def test_callbacks_of_lightning_see_the_model_that_would_be_published(tmp_path: Path) -> None:
    """Not the one that is trained, which may remember private rows."""
    from discreet.integrations.lightning import PrivateModule

    training = tiny_training(tmp_path, model=Last())
    seen: list[torch.Tensor] = []

    class Looking(lightning.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
            seen.extend([module.model.last[0], module.model.inner.weight.detach().clone()])

    trainer(tmp_path, callbacks=[Looking()]).fit(PrivateModule(training))
    assert not any(torch.equal(last, row) for last in seen[::2] for row in blobs()[0])
    assert torch.equal(seen[-1], training.model.inner.weight)
    assert not torch.equal(seen[1], seen[-1])
