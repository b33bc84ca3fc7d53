"""Lightning around a private run: its trainer calls, the session takes the steps. Needs `discreet[lightning]`.

Lightning's own loaders, gradient accumulation, clipping and precision would go around the plan, so a private module
optimises manually and has no training rows that Lightning could see: one "batch" of Lightning is one charged step.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from discreet.core.errors import InputError
from discreet.core.imports.extras import extra
from discreet.training import Session, Trained, Training, refuse_own_rows

LightningModule: Any = extra("lightning", "lightning", "PrivateModule").LightningModule


class PrivateModule(LightningModule):  # type: ignore[misc]
    """A module whose `fit` takes the steps of `training`; afterwards `trained` is what `publish` takes.

        module = PrivateModule(training)
        Trainer(max_epochs=1, accelerator="cpu").fit(module, val_dataloaders=public_loader)
        publish(module.trained, "out")

    Rows for validation are declared public: batches of (inputs, targets), whose loss is logged as `public_loss`, and
    accuracy where targets are classes. There is no training loss to log: it was not paid for. One process, one device.

    `model` is the model that would be published now; Lightning, its callbacks and its checkpoints see only that. They
    do not see the trained model, which may remember private rows.
    """

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = training.watch.published
        self._training = training
        self._open = ExitStack()
        self._session: Session | None = None
        self._steps = DataLoader[int](range(training.plan.charges), batch_size=1)  # type: ignore[arg-type]
        self.trained: Trained | None = None

    def train_dataloader(self) -> DataLoader[int]:
        """One empty batch for each charged step."""
        return self._steps

    def configure_optimizers(self) -> None:
        """None: the optimizer of the training takes its steps from releases."""

    def on_fit_start(self) -> None:
        """Open the run. `InputError` for trainers that would run it several times, or otherwise than it was checked."""
        trainer = self.trainer
        if trainer.world_size != 1 or trainer.max_epochs != 1:
            raise InputError(
                f"a private run is one epoch in one process; this trainer has max_epochs={trainer.max_epochs} and "
                f"{trainer.world_size} processes: give Trainer(max_epochs=1, devices=1)"
            )
        if trainer.precision != "32-true":
            raise InputError(
                f"rounding was measured as the Training computes, not in precision={trainer.precision!r} of a trainer: "
                "leave it out; for bfloat16 give Training(engine=EngineOptions(autocast=torch.bfloat16))"
            )
        self._training.model.to(self.device)  # the device that Lightning has moved the model to
        self._session = self._open.enter_context(self._training.session())

    def on_train_start(self) -> None:
        """Refuse a loader of training rows: Lightning, its callbacks and its loggers would see them."""
        if self.trainer.train_dataloader is not self._steps:
            raise InputError(
                "fit was given training rows, and the rows of a private run are those of its Training: "
                "leave out train_dataloaders"
            )

    def on_validation_start(self) -> None:
        """Refuse the private rows as those for validation; copies of them are not seen."""
        given, private = self.trainer.val_dataloaders, self._training.made_of.data
        refuse_own_rows("what fit was given as val_dataloaders", given, private)

    def forward(self, inputs: Tensor) -> Any:
        """The output of the published model, in evaluation mode."""
        return self._training.watch.published.eval()(inputs)

    def training_step(self, batch: Any, index: int) -> None:
        """One private step, or the end of the run."""
        session, training = self._session, self._training
        assert session is not None
        if not session.ready():
            self.trainer.should_stop = True
            return
        with session.step() as step:
            for chunk in step.chunks:
                step.add(training.criterion, chunk)
        if training.scheduler is not None:
            training.scheduler.step()
        self.model = training.watch.published
        if session.between_blocks:
            training.save(session)

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        """Loss and accuracy on a batch that is declared public."""
        inputs, targets = batch
        output = self(inputs)
        self.log("public_loss", torch.as_tensor(self._training.copy.criterion(output, targets)).mean())
        if isinstance(output, Tensor) and output.dim() == 2 and targets.dim() == 1 and not targets.is_floating_point():
            self.log("public_accuracy", (output.argmax(1) == targets).float().mean())

    def on_train_end(self) -> None:
        """Take the trained model out of the session."""
        assert self._session is not None
        self.trained = self._training.result(self._session)
        self._open.close()

    def on_exception(self, exception: BaseException) -> None:
        """Close the ledger; what was charged stays charged."""
        self._open.close()
