"""Processes on several machines: what is on the disk of one of them alone, and whether they reach each other."""

import json
import socket
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from forked import started

from discreet import recipes, verify
from discreet.core.errors import InputError
from discreet.distributed.connection import meeting
from discreet.distributed.connection.meeting import meet
from discreet.jobs.train import Job
from discreet.recipes.assemble import Run, assemble

FEW = ["steps=4", "engine=auto", "noise=fast"]
MOMENT = timedelta(seconds=0.2)


@pytest.fixture(autouse=True)
def _two_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in range(2):
        (tmp_path / str(machine)).mkdir()
    monkeypatch.chdir(tmp_path / "0")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)


def test_a_file_that_one_machine_lacks_is_named_on_all(tmp_path: Path) -> None:
    Path("recipe.yaml").write_text((Path(recipes.__file__).parent / "digits.yaml").read_text())
    done = started(2, "on_machines.py", str(tmp_path), "train", "recipe.yaml", "--out", "model")
    missing = "cannot read recipe.yaml: No such file or directory; check the path"
    lines = {line for line in done.stderr.splitlines() if line.startswith("discreet")}
    assert lines == {f"discreet: process 1: {missing}", f"discreet (process 1): {missing}"}
    assert not Path("model.run").exists()


def test_a_run_goes_on_whose_folder_is_on_the_first_machine_alone(tmp_path: Path) -> None:
    job = Job.new("digits", None, Path("model"), FEW, {})
    run = Run(job.folder, False, None, "", job._remember, lanes=2, device="cpu", shard="replicate")
    with assemble(job.recipe, job.recipe.load_data(None), run).session():
        pass  # and the machine fails
    done = started(2, "on_machines.py", str(tmp_path), "train", "--resume", "model.run")
    assert done.stdout.count("model: certified epsilon 1.0000") == 1, done.stderr
    assert verify("model").accepted
    assert not list((tmp_path / "1").iterdir())


def test_a_folder_without_a_run_is_an_error_of_all_and_said_once(tmp_path: Path) -> None:
    done = started(2, "on_machines.py", str(tmp_path), "train", "--resume", "other.run")
    lines = [line for line in done.stderr.splitlines() if line.startswith("discreet")]
    assert lines == ["discreet: other.run is not the folder of a run of `discreet train`; name OUT.run"]


def met(store: dist.Store, rank: int, name: str, address: str) -> None:
    store.set(f"came/{rank}", json.dumps([name, address]))


def test_a_process_that_does_not_come_is_named() -> None:
    store = dist.HashStore()
    met(store, 2, "other", "")
    with pytest.raises(InputError, match=r"process 1 of 3 has not come within 0\.2 s \(DISCREET_TIMEOUT\)"):
        meet(store, 0, 3, MOMENT)


def test_a_machine_whose_name_stands_for_itself_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is in /etc/hosts of many systems, and where gloo would hang."""
    store, addresses = dist.HashStore(), {"here": "127.0.1.1"}
    monkeypatch.setattr(meeting.socket, "gethostname", lambda: "here")
    monkeypatch.setattr(meeting.socket, "getaddrinfo", lambda name, *_, **__: [(0, 0, 0, "", (addresses[name], 0))])
    met(store, 0, "here", "127.0.1.1")
    meet(store, 1, 2, MOMENT)  # both on one machine
    met(store, 0, "other", "")
    said = r"process 1 of 2 cannot be reached .* its name, here, the address 127\.0\.1\.1; .*GLOO_SOCKET_IFNAME=eth0"
    with pytest.raises(InputError, match=said):
        meet(store, 1, 2, MOMENT)
    addresses["here"] = "10.0.0.7"
    meet(store, 1, 2, MOMENT)
    addresses["here"] = "::1"
    with pytest.raises(InputError, match="process 1 of 2 cannot be reached"):
        meet(store, 1, 2, MOMENT)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    meet(store, 1, 2, MOMENT)


def test_so_is_one_whose_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    store = dist.HashStore()
    monkeypatch.setattr(meeting.socket, "getaddrinfo", unknown)
    met(store, 1, "other", "")
    with pytest.raises(InputError, match=r"process 0 of 2 cannot be reached .* the address 127\.0\.0\.1"):
        meet(store, 0, 2, MOMENT)
