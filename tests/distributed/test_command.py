"""`discreet train --processes`: one result, one error, one exit code."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from problems import tiny_training

from discreet import verify
from discreet.accounting.adaptive.filters import BasicFilter
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.distributed import launch
from discreet.distributed.ranks import Ranks
from discreet.jobs.command_line import CommandLine
from discreet.jobs.train import Job
from discreet.ledger import Ledger
from discreet.training import RunOptions

FAST = ("--set", "engine=auto", "--set", "noise=fast")


def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "discreet", "train", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_publish_one_model(tmp_path: Path) -> None:
    running = command(tmp_path, "digits", *FAST, "--set", "steps=10", "--processes", "2", "--out", "model")
    said, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert said.count("certified epsilon 1.0000") == 1
    assert verify(tmp_path / "model").accepted


def test_a_refused_charge_has_one_message_and_the_exit_code_of_one_process(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("d", BasicFilter(0.1, 1e-4))
    ledger.close()
    budget = ("--ledger", "ledger.sqlite", "--dataset-id", "d")
    running = command(tmp_path, "digits", *FAST, *budget, "--processes", "2", "--out", "model")
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 3, errors
    assert errors.count("nothing was charged") == 1
    assert not (tmp_path / "model").exists()


def test_weights_that_two_processes_share_out_are_published_and_verified(tmp_path: Path) -> None:
    """From the shell to the verdict, with metrics on public rows on the way."""
    shared = ("--processes", "2", "--shard", "fully", "--lanes", "4", "--out", "model", "--json")
    running = command(tmp_path, "digits", *FAST, "--set", "steps=10", *shared)
    said, errors = running.communicate(timeout=180)
    assert running.returncode == 0, errors
    assert json.loads(said)["public_test"].keys() >= {"accuracy", "loss"}
    checked = [sys.executable, "-m", "discreet", "verify", "model"]
    verdict = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert verdict.returncode == 0, verdict.stdout
    assert "ACCEPTED" in verdict.stdout
    assert not list((tmp_path / "model.run").glob("checkpoint*"))


def test_an_engine_that_needs_all_weights_is_refused_in_one_line(tmp_path: Path) -> None:
    running = command(tmp_path, "digits", "--set", "engine=exact", "--shard", "fully", "--out", "model")
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 2
    assert [line for line in errors.splitlines() if line.startswith("discreet: ")] == [
        'discreet: the engine \'exact\' needs all weights at once; with shard="fully" take the engine "auto" '
        '(--set engine=auto), or use "replicate"'
    ]
    assert not (tmp_path / "model.run").exists()


@pytest.mark.parametrize("shard", ["replicate", "fully"])
def test_sigterm_stops_all_after_the_same_step_and_one_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shard: str
) -> None:
    steps = ("--set", "steps=4000", "--lanes", "4")
    running = command(tmp_path, "digits", *FAST, *steps, "--processes", "2", "--shard", shard, "--out", "model")
    deadline = time.monotonic() + 90
    while not (tmp_path / "model.run" / "checkpoint.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 143, errors
    assert errors.count("stopped after step") == 1
    monkeypatch.chdir(tmp_path)
    assert run(["train", "--resume", "model.run", "--finish"]) == 0
    assert "certified epsilon" in capsys.readouterr().out
    assert verify(tmp_path / "model").accepted


def test_tables_of_sites_are_read_by_one_process_each_and_one_goes_on_with_all(tmp_path: Path) -> None:
    for site in range(3):
        rows = [f"{age},{int(age > 55)}" for age in range(20 + site, 90, 3) for _ in range(9)]
        (tmp_path / f"clinic-{site}.csv").write_text("\n".join(["age,ill", *rows]) + "\n")
    columns = "{age: {type: number, low: 0, high: 100}, ill: {type: boolean}}"
    (tmp_path / "s.yaml").write_text(f"{{target: ill, unit: row, population: 600, columns: {columns}}}")
    sites = ("clinic-{site}.csv", "--sites", "3", "--schema", "s.yaml", "--epsilon", "4", "--set", "steps=4000")
    running = command(tmp_path, *sites, "--processes", "2", "--out", "model")
    deadline = time.monotonic() + 90
    while not (tmp_path / "model.run" / "checkpoint.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 143, errors
    rest = command(tmp_path, "--resume", "model.run", "--finish")
    _, errors = rest.communicate(timeout=120)
    assert rest.returncode == 0, errors
    assert verify(tmp_path / "model").accepted
    assert "lies at 3 sites" in (tmp_path / "model" / "certificate.json").read_text()


def test_a_restart_by_torchrun_goes_on_with_the_run_that_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = Job.new(CommandLine("digits", out=Path("model")))
    (tmp_path / "model.run").mkdir()
    job._remember()
    assert job.again() is job
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert job.again().resume
    assert job.again().target == job.target
    another = CommandLine("digits", out=Path("model"), overrides={"epsilon": 0.5})
    assert not Job.new(another).again().resume  # it is refused
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "another"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("discreet.jobs.train.Ranks.joined", Ranks)
    assert job.again() is job  # begun by another start of torchrun
    job._remember()
    assert job.again().resume
    monkeypatch.setattr("discreet.jobs.train.GROUPS.call", "another")  # whose --rdzv-id is the same, or none
    assert job.again() is job
    job._remember()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert job.again() is job  # nothing is started again
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")  # of another machine, which counts for itself
    assert job.again().resume
    os.remove("model.run/job.json")
    assert job.again() is job


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        ({"shard": "replicas"}, 'shard must be "replicate"'),
        ({"lanes": 4}, 'give shard="replicate" with them'),
        ({"shard": "replicate", "lanes": 0}, "lanes must be at least 1, got 0"),
    ],
)
def test_ways_to_share_that_there_are_not_are_refused(tmp_path: Path, shared: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny_training(tmp_path, **shared)
    assert list(tmp_path.iterdir()) == []


def test_a_run_keeps_the_lanes_that_it_began_with(tmp_path: Path) -> None:
    tiny_training(tmp_path, shard="replicate", lanes=3, engine="exact").run()
    with pytest.raises(InputError, match="began with 3 lanes and keeps them"):
        tiny_training(tmp_path, shard="replicate", lanes=2, resume=True)
    assert tiny_training(tmp_path, resume=True).team.lane_count == 3  # also without shard, in one process
    tiny_training(tmp_path / "other").run()
    with pytest.raises(InputError, match="began as one process without lanes"):
        tiny_training(tmp_path / "other", shard="replicate", resume=True)
    assert RunOptions().lanes is None


def test_processes_that_would_fill_the_memory_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "usable_cores", lambda: 3)
    monkeypatch.setattr(launch, "elastic_launch", lambda *_: lambda *_: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pytest.raises(InputError, match=r"13 processes on 3 cores would fill the memory.* 12 at most"):
        launch.launch(13, ["train", "digits"])
    assert launch.launch(12, ["train", "digits"]) == 0
    assert logging.getLogger("discreet").isEnabledFor(logging.WARNING)  # it is silent for as long as they run
