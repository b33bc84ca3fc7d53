"""`Training`: a plan, a model and data, put together and checked before anything is charged."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.clipping import ENGINES, Criterion, admit_model, admit_optimizer, private_parameters
from discreet.clipping.state import check_unchanged, combined_digest, hidden_digests, state_digests
from discreet.core import checks
from discreet.core.errors import InputError, PrivacyViolation
from discreet.data import PrivateData, as_private
from discreet.ledger import Ledger
from discreet.plan import Plan
from discreet.randomness import Stream, SystemStream, new_run_key, save_key
from discreet.training.evaluation import evaluate
from discreet.training.progress import progress_bar
from discreet.training.session import Session
from discreet.training.trained import Evaluation, Trained

_GRADIENT_MEMORY = 2**28
"""Bytes that the per-example gradients of one physical chunk may take."""


class Training:
    """Private training of `model` on `data` under `plan`.

    - `criterion(output, target)`: a loss as in torch.nn; it sees one example at a time.
    - `optimizer`: any of torch.optim but LBFGS, over exactly the parameters that require a gradient.
    - `data`: a pair of tensors or a map-style data set of (input, target) pairs. Private.
    - `public_test`: a pair of tensors declared public; metrics on it are shown and published.
    - `run_dir`: a new folder for the ledger and the key of the noise; nothing in it is meant to be published.
    - `engine`: "vmap", or "reference" for models that vmap cannot run.
    - `physical_batch`: examples per chunk, for memory only; results do not depend on it.
    - `scheduler`: stepped after every step.
    - `debug`: after each step, check that nothing but private parameters changed.

    Everything is checked here, so a mistake costs no privacy: nothing is charged before the first step.
    """

    def __init__(
        self,
        plan: Plan,
        model: nn.Module,
        criterion: Criterion,
        optimizer: torch.optim.Optimizer,
        data: object,
        *,
        public_test: tuple[Tensor, Tensor] | None = None,
        run_dir: str | Path | None = None,
        engine: str = "vmap",
        physical_batch: int | None = None,
        scheduler: LRScheduler | None = None,
        debug: bool = False,
        stream: Stream | None = None,
    ) -> None:
        if engine not in ENGINES:
            raise InputError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}")
        admit_model(model)
        admit_optimizer(optimizer, model)
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.data = as_private(data)
        self.initial, self._hidden = state_digests(model), hidden_digests(model)
        classes = _class_count(model, criterion, self.data)
        self._refuse_changed_model("changed when it was called; initialise it on public input first")
        self.data.check(classes)
        if public_test is not None:
            _check_public(public_test, classes)
        self.plan = plan.with_initial_state(combined_digest(self.initial))
        self.public_test = public_test
        self.run_dir = Path(run_dir or f"discreet-runs/{secrets.token_hex(4)}")
        self.engine, self.scheduler, self.debug, self._stream = engine, scheduler, debug, stream
        self._physical_batch = _chunk_size(model) if physical_batch is None else physical_batch
        checks.count("physical_batch", self._physical_batch)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open the run for a loop of your own; `Session.step` is the primitive.

        with training.session() as session:
            while not session.finished:
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(criterion, chunk)
        trained = training.result(session)
        """
        self._refuse_changed_model("was changed since this Training was made; make a new one")
        ledger, key = self._open_folder()
        run = ledger.open_run(self.plan.fingerprint())
        attempt = ledger.start_attempt(run)
        self.model.train()
        try:
            yield Session(
                self.plan,
                self.model,
                self.optimizer,
                self.data,
                engine=ENGINES[self.engine],
                ledger=ledger,
                run=run,
                attempt=attempt,
                stream=self._stream or SystemStream.start(key, attempt),
                physical_batch=self._physical_batch,
                initial=self.initial,
                hidden=self._hidden,
                debug=self.debug,
            )
        finally:
            ledger.close()

    def run(self, *, evaluate_every: int | None = None, progress: bool | None = None) -> Trained:
        """Take every step of the plan and return what can be published.

        `evaluate_every`: steps between evaluations on the public test data; by default about twenty in all.
        `progress`: show a bar; by default if standard error is a terminal.
        """
        steps = self.plan.steps
        every = checks.count("evaluate_every", evaluate_every) if evaluate_every else max(1, steps // 20)
        evaluations: list[Evaluation] = []
        epsilon = self.plan.guarantee().epsilon
        with self.session() as session, progress_bar(steps, epsilon, show=progress) as advance:
            while not session.finished:
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(self.criterion, chunk)
                if self.scheduler is not None:
                    self.scheduler.step()
                if self.public_test is not None and (session.steps_done % every == 0 or session.finished):
                    metrics = evaluate(self.model, self.criterion, *self.public_test)
                    evaluations.append(Evaluation(session.steps_done, metrics))
                advance(session.steps_done, evaluations[-1] if evaluations else None)
        return self.result(session, evaluations)

    def result(self, session: Session, evaluations: list[Evaluation] | None = None) -> Trained:
        """What a session has trained, ready for `publish`; also before all steps are taken."""
        check_unchanged(self.model, self.initial, self._hidden)
        ledger = Ledger(self.run_dir / "ledger.sqlite")
        charged = ledger.charged_steps(session.run)
        ledger.close()
        return Trained(
            model=self.model.eval(),
            plan=self.plan,
            run=session.run,
            charged_steps=charged,
            ledger=ledger.path,
            key=self.run_dir / "key",
            stream=session.stream.kind,
            engine=self.engine,
            initial=self.initial,
            evaluations=tuple(evaluations or ()),
        )

    def _refuse_changed_model(self, why: str) -> None:
        """The state a run starts from is declared public, so it must be the one that was looked at first."""
        if (state_digests(self.model), hidden_digests(self.model)) != (self.initial, self._hidden):
            raise PrivacyViolation(f"the model {why}")

    def _open_folder(self) -> tuple[Ledger, bytes]:
        try:
            self.run_dir.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"the run folder {self.run_dir} exists already; name another one") from None
        except OSError as error:
            raise InputError(f"cannot make the run folder {self.run_dir}: {error.strerror}") from None
        key = new_run_key()
        save_key(self.run_dir / "key", key)
        return Ledger(self.run_dir / "ledger.sqlite"), key


def _class_count(model: nn.Module, criterion: Criterion, data: PrivateData) -> int | None:
    """The number of classes that labels may name, where the criterion takes class indices."""
    if len(data) == 0:
        return None
    device = next(iter(private_parameters(model).values())).device
    inputs, _ = data.fetch(torch.zeros(1, dtype=torch.int64).numpy())
    was_training = model.training
    try:
        with torch.no_grad():
            output = model.eval()(inputs.to(device))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the model cannot take an example of shape {tuple(inputs.shape[1:])}: {reason}") from error
    finally:
        model.train(was_training)
    named_by_index = isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss)
    return int(output.shape[1]) if named_by_index and output.dim() > 1 else None


def _check_public(public_test: tuple[Tensor, Tensor], classes: int | None) -> None:
    try:
        as_private(public_test).check(classes)
    except InputError as error:
        raise InputError(f"public_test: {error}") from None


def _chunk_size(model: nn.Module) -> int:
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    return int(min(1024, max(1, _GRADIENT_MEMORY // (8 * numbers))))
