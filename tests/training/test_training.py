"""`Training`: what it shows and keeps, and how it goes on after a stop."""

import dataclasses
import itertools
import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import FEATURES, Recorded, WithPublicTensors, blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import BudgetExhausted
from discreet.clipping import ENGINES
from discreet.core.errors import InputError, Interrupted
from discreet.distributed.ranks import Ranks
from discreet.ledger import Budget, Ledger, public_record
from discreet.publication import publish
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.training import RunOptions, Trained, Training
from discreet.training import training as training_module
from discreet.training.public import monitor as watch_module
from discreet.training.run.checkpoint import read_checkpoint
from discreet.training.run.checkpoint_files import load_checkpoint
from discreet.verification import verify


def test_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_training(tmp_path, public_test=blobs(9, seed=1)).run()
    assert capsys.readouterr() == ("", "")


def test_the_bar_shows_public_figures_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "plan epsilon" in shown.err
    assert "public test accuracy" in shown.err
    assert "loss" not in shown.err


def test_evaluations_are_of_the_public_data_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = blobs(9, seed=1)
    calls: list[tuple[Tensor, Tensor]] = []
    real = watch_module.evaluate

    def spy(model: nn.Module, criterion: Any, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        calls.append((inputs, targets))
        return real(model, criterion, inputs, targets)

    monkeypatch.setattr(watch_module, "evaluate", spy)
    trained = tiny_training(tmp_path, public_test=public).run(evaluate_every=3)
    assert [evaluation.step for evaluation in trained.evaluations] == [3, 6, 7]
    assert all(inputs is public[0] and targets is public[1] for inputs, targets in calls)


def test_without_public_data_nothing_is_evaluated_and_nothing_private_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "evaluate", lambda *_: pytest.fail("private data was evaluated"))
    trained = tiny_training(tmp_path).run()
    assert trained.evaluations == ()
    fields = {field.name for field in dataclasses.fields(Trained)}
    assert not {name for name in fields if "loss" in name or "data" in name or "accuracy" in name}


def test_metrics_are_right(tmp_path: Path) -> None:
    inputs, targets = blobs(1030, seed=1)  # more than are evaluated at once
    trained = tiny_training(tmp_path, public_test=(inputs, targets)).run(evaluate_every=7)
    output = trained.model(inputs).detach()
    metrics = trained.evaluations[-1].metrics
    assert metrics["accuracy"] == pytest.approx(float((output.argmax(1) == targets).float().mean()))
    assert metrics["loss"] == pytest.approx(float(nn.CrossEntropyLoss()(output, targets)), rel=1e-5)


def test_the_run_folder_holds_key_identity_ledger_checkpoint_and_what_it_is(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path).run()
    run = tmp_path / "run"
    names = {path.name for path in run.iterdir()}
    (part,) = run.glob("checkpoint-*.safetensors")
    needed = {"key", "run.json", "checkpoint.json", part.name, "indexed", "ledger.sqlite", ".gitignore", "README.md"}
    assert needed <= names <= needed | {"ledger.sqlite-wal", "ledger.sqlite-shm"}
    assert run.stat().st_mode & 0o777 == 0o700
    assert {(run / name).stat().st_mode & 0o777 for name in ("key", "checkpoint.json", part.name)} == {0o600}
    assert tuple(trained.secrets) == (run / "key", run / "checkpoint.json", part)
    facts = json.loads((run / "run.json").read_text())
    where, key = (run / "ledger.sqlite").resolve(), (run / "key").stat()
    assert facts.pop("key") == [key.st_dev, key.st_ino, key.st_ctime_ns]
    assert facts == {"run": trained.entries[0].run, "ledger": str(where), "seed": torch.initial_seed()}


def test_a_checkpoint_holds_nothing_but_what_releases_made(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path, model=WithPublicTensors(), public_test=blobs(9, seed=1)).run()
    index = tmp_path / "run" / "checkpoint.json"
    facts = json.loads(index.read_text())
    assert facts.keys() == {"format", "run", "position", "attempt", "parts", "state", "sha256"}
    assert facts["attempt"] == 0  # the number of the start that wrote it, which the ledger has too
    described = {"model", "optimizer", "scheduler", "evaluations", "bought", "rule"}  # the rule: of the optimizer
    extras = {"progress", "best", "average", "clipping"}  # of adaptive runs, of those that keep the best or average
    assert {key for key, _ in facts["state"]["dict"]} == described | extras
    content = read_checkpoint(load_checkpoint(index), Ranks(), lambda _, tensor: tensor)
    assert content is not None
    assert not any((content.progress, content.best, content.average, content.clipping))
    assert content.position == 7
    state = trained.model.state_dict()
    assert content.model.keys() == state.keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in content.model.items())
    assert content.optimizer.keys() == {"state", "param_groups"}
    assert [set(one.metrics) for one in content.evaluations] == [{"loss", "accuracy"}] * len(trained.evaluations)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("noise", NOISE_SAMPLERS)
def test_the_mechanism_is_named_with_its_assumptions_and_in_the_ledger(tmp_path: Path, engine: str, noise: str) -> None:
    trained = tiny_training(tmp_path, engine=engine, noise=noise).run()
    bits = None if engine == "exact" else 20
    names = {"engine": engine, "float_bits": bits, "noise": noise, "randomness": "test"}
    assert {name: getattr(trained.mechanism, name) for name in names} == names
    assert trained.mechanism.assumptions == (NOISE_SAMPLERS[noise].assumption, ENGINES[engine].assumption)
    assert [entry["body"] for entry in public_record(trained.entries) if entry["kind"] == "attempt"] == [names]


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Ask the run to stop as Ctrl-C would, after that many steps."""

    @contextmanager
    def stop_requests() -> Iterator[Any]:
        calls = itertools.count(1)
        yield lambda: signal.SIGINT if next(calls) >= steps else None

    monkeypatch.setattr(training_module, "stop_requests", stop_requests)


@pytest.mark.parametrize(("stopped", "lost"), [(3, 0), (4, 2), (1, 2)])
def test_an_interrupted_run_goes_on_after_its_charges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: int, lost: int
) -> None:
    """Blocks of three: steps that were charged and not taken are lost, and the plan is never exceeded."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, stopped)
        paid = rf" \(charged with it and lost: {lost} more\)" if lost else ""
        with pytest.raises(Interrupted, match=f"stopped after step {stopped} of 7{paid}; make the") as interruption:
            tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(evaluate_every=1)
    assert interruption.value.signal == signal.SIGINT
    again = tiny_training(tmp_path, public_test=blobs(9, seed=1), stream=TestStream(9), resume=True)
    trained = again.run(evaluate_every=1)
    assert trained.charged_steps == 7
    steps = [evaluation.step for evaluation in trained.evaluations]
    assert steps == [*range(1, stopped + 1), *range(stopped + lost + 1, 8)]
    assert [(entry.position, entry.steps) for entry in trained.entries if entry.kind == "reservation"] == [
        (0, 3),
        (3, 3),
        (6, 1),
    ]
    assert [entry.attempt for entry in trained.entries if entry.kind == "attempt"] == [0, 1]


def test_a_script_that_set_no_seed_is_told_the_one_that_makes_its_first_model_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(**options: Any) -> Training:
        return tiny_training(tmp_path, model=nn.Linear(FEATURES, 3), **options)

    with torch.random.fork_rng():
        torch.seed()  # what torch does when a script starts
        with monkeypatch.context() as patch:
            interrupt_after(patch, 3)
            with pytest.raises(Interrupted, match=r"as at the start, with torch\.manual_seed\(\d+\) before its model"):
                script().run()
        torch.seed()
        cause = r"differs from .*\(if the model's first weights are random, call torch\.manual_seed\((\d+)\) before it"
        with pytest.raises(InputError, match=cause) as refusal:
            script(resume=True).run()
        found = re.search(cause, str(refusal.value))
        assert found is not None
        assert "\n" not in str(refusal.value)
        torch.manual_seed(int(found[1]))
        assert script(resume=True, stream=TestStream(9)).run().charged_steps == 7


def test_a_script_is_told_what_a_script_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No option of the command line; and what it says publishes what there is, under the whole plan's guarantee."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        with pytest.raises(Interrupted) as interruption:
            tiny_training(tmp_path, stream=None).run()
    said = str(interruption.value)
    assert "--" not in said
    assert f"run=RunOptions({str(tmp_path / 'run')!r}, resume=True)" in said
    assert "with training.session() as session: publish(training.result(session), FOLDER)" in said
    training = tiny_training(tmp_path, stream=None, resume=True)
    with training.session() as session:
        guarantee = publish(training.result(session), tmp_path / "out")
    assert guarantee == training.plan.guarantee()
    assert verify(tmp_path / "out").accepted


def test_a_stop_at_the_last_step_is_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(monkeypatch, 7)
    assert tiny_training(tmp_path).run().charged_steps == 7


def test_resuming_uses_other_noise(tmp_path: Path) -> None:
    """The same attempt number or the same key never gives the same stream twice."""
    deltas = []
    for name in ("a", "b"):
        training = tiny_training(tmp_path / "run-of", stream=None, run=tmp_path / "run", resume=name == "b")
        before = training.model.weight.detach().clone()
        with training.session() as session:
            assert session.position == (3 if name == "b" else 0)
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
        deltas.append(training.model.weight.detach() - before)
    assert not torch.equal(deltas[0], deltas[1])


def test_a_shared_ledger_whose_budget_is_spent_refuses_the_run_without_a_trace(tmp_path: Path) -> None:
    where, epsilon = tmp_path / "shared.sqlite", tiny_plan().guarantee().epsilon
    ledger = Ledger(where)
    ledger.set_budget("patients", Budget(1.5 * epsilon, 1e-3))
    tiny_training(tmp_path / "a", ledger=where, dataset_id="patients").run()
    with pytest.raises(BudgetExhausted):
        tiny_training(tmp_path / "b", ledger=where, dataset_id="patients").run()
    assert not (tmp_path / "b" / "run").exists()
    assert ledger.budget("patients")[1].runs == 1
    ledger.close()


def test_the_plan_declares_the_initial_state(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path).run()
    other = tiny_training(tmp_path / "other", model=linear(seed=5))
    assert trained.plan.initial_state is not None
    assert other.plan.initial_state != trained.plan.initial_state
    assert trained.plan.model_copy(update={"initial_state": None}) == tiny_plan()


def test_a_scheduler_steps_after_every_step(tmp_path: Path) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    tiny_training(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler).run()
    assert scheduler.get_last_lr() == [pytest.approx(0.5**7)]


def test_frozen_parameters_and_buffers_stay(tmp_path: Path) -> None:
    model = WithPublicTensors()
    tiny_training(tmp_path, model=model).run()
    assert torch.equal(model.scale, torch.ones(FEATURES))
    assert torch.equal(model.shift, torch.full((FEATURES,), 0.5))


@pytest.mark.parametrize(
    "optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.SGD]
)
def test_ordinary_optimizers_train(tmp_path: Path, optimizer: type[torch.optim.Optimizer]) -> None:
    model = linear()
    before = model.weight.detach().clone()
    trained = tiny_training(tmp_path, model=model, optimizer=optimizer(model.parameters(), lr=0.01)).run()
    assert trained.charged_steps == 7
    assert not torch.equal(model.weight, before)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


def test_training_learns_something(tmp_path: Path) -> None:
    plan = tiny_plan(population=300, batch=150, steps=20, noise_multiplier=0.5)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trained = tiny_training(
        tmp_path, plan=plan, model=model, optimizer=optimizer, data=blobs(300), public_test=blobs(99, seed=4)
    ).run()
    assert trained.evaluations[-1].metrics["accuracy"] > 0.8


def test_the_data_is_read_once_before_the_first_charge_and_by_index_later(tmp_path: Path) -> None:
    data = Recorded()
    training = tiny_training(tmp_path, data=data)
    data.on_read = lambda _index: None
    training.run()
    assert 0 < len(data.reads) <= 7 * 24
    assert json.dumps(sorted(set(data.reads)))  # plain integers


def test_the_model_is_handed_over_in_evaluation_mode(tmp_path: Path) -> None:
    training = Training(
        tiny_plan(),
        model := nn.Sequential(linear(), nn.Dropout(0.5)),
        nn.CrossEntropyLoss(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        blobs(),
        run=RunOptions(tmp_path / "run", stream=TestStream(0)),
    )
    assert not training.run().model.training
