"""Processes on several machines: what is on the disk of one of them alone, and whether they reach each other."""

import socket
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from forked import started

from discreet import recipes, verify
from discreet.core.errors import InputError
from discreet.distributed.connection import meeting
from discreet.distributed.connection.meeting import meet
from discreet.jobs.command_line import CommandLine
from discreet.jobs.train import Job
from discreet.recipes.assemble import Run, assemble

FEW = ["steps=4", "engine=auto", "noise=fast"]


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
    job = Job.new(CommandLine("digits", out=Path("model"), settings=FEW))
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


def test_a_row_that_cannot_be_read_is_said_where_it_lies_alone(tmp_path: Path) -> None:
    columns = "{age: {type: number, low: 0, high: 100}, ill: {type: boolean}}"
    for site, age in enumerate(["33", "secret"]):
        rows = "50,0\n51,1\n" * 9
        (tmp_path / str(site) / f"clinic-{site}.csv").write_text(f"age,ill\n{rows}{age},1\n")
        (tmp_path / str(site) / "s.yaml").write_text(f"{{target: ill, unit: row, population: 60, columns: {columns}}}")
    sites = ("clinic-{site}.csv", "--sites", "2", "--schema", "s.yaml", "--epsilon", "4")
    done = started(2, "on_machines.py", str(tmp_path), "train", *sites)
    first, *others = sorted(line for line in done.stderr.splitlines() if line.startswith("discreet"))
    assert first.startswith("discreet (process 1): clinic-1.csv: row 19, column 'age': 'secret' is not a number")
    assert others == ["discreet: process 1: it failed with InputError"]


def test_a_machine_without_a_table_of_any_site_says_so(tmp_path: Path) -> None:
    (tmp_path / "0" / "clinic-0.csv").write_text("age,ill\n50,0\n")
    for machine in range(2):
        (tmp_path / str(machine) / "s.yaml").write_text("{target: ill, unit: row, population: 60, columns: {}}")
    sites = ("clinic-{site}.csv", "--sites", "2", "--schema", "s.yaml", "--epsilon", "4")
    done = started(2, "on_machines.py", str(tmp_path), "train", *sites)
    said = (
        "discreet (process 1): of clinic-0.csv to clinic-1.csv none is here for this process; each needs one at least"
    )
    assert said in done.stderr.splitlines()


def named(monkeypatch: pytest.MonkeyPatch, addresses: dict[str, str]) -> None:
    """Machines by the names of threads, with these addresses; the others have none."""

    def found(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if name not in addresses:
            raise socket.gaierror
        return [(0, 0, 0, "", (addresses[name], 0))]

    monkeypatch.setattr(meeting.socket, "gethostname", lambda: threading.current_thread().name)
    monkeypatch.setattr(meeting.socket, "getaddrinfo", found)


def met(store: dist.Store, names: dict[int, str], size: int, late: int | None = None) -> list[str]:
    """What `meet` returns or raises in the processes of these ranks, on machines of these names; `late` comes last.
    Where all come they wait as long as a busy machine may need."""
    said, wait = dict[int, str](), timedelta(seconds=60 if len(names) == size else 1)

    def come(rank: int) -> None:
        try:
            said[rank] = meet(store, rank, size, wait)
        except InputError as error:
            said[rank] = str(error)

    threads = {rank: threading.Thread(target=come, args=(rank,), name=name) for rank, name in names.items()}
    for rank in sorted(threads, key=lambda one: one == late):
        if rank == late:
            time.sleep(0.2)
        threads[rank].start()
    for one in threads.values():
        one.join()
    return [said[rank] for rank in sorted(names)]


def test_a_process_that_does_not_come_is_named() -> None:
    said = met(dist.HashStore(), {0: "a", 2: "b"}, size=3)
    assert {one.partition(";")[0] for one in said} == {"process 1 of 3 has not come within 1 s (DISCREET_TIMEOUT)"}


def test_a_start_has_a_name_that_no_earlier_one_had() -> None:
    """What the processes of an earlier start have left is not taken for an answer, whoever comes again first."""
    store, names = dist.HashStore(), set[str]()
    for late in (None, 0, 1, 2):
        first, *others = met(store, {0: "a", 1: "a", 2: "a"}, size=3, late=late)
        assert others == [first] * 2
        names.add(first)
    assert len(names) == 4
    assert not any("come" in one for one in names)
    said = met(store, {0: "a", 2: "a"}, size=3)
    assert said[0].startswith("process 1 of 3 has not come within 1 s")
    assert said[1].startswith("another process has not come within 1 s")


def test_a_machine_whose_name_stands_for_itself_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is in /etc/hosts of many systems, and where gloo would hang."""
    named(monkeypatch, {"a": "10.0.0.7", "local": "127.0.1.1", "six": "::1"})
    said = "process 1 of 2 cannot be reached from other machines: its own gives its name, {}, the address {}; name its "
    for name, address in {"local": "127.0.1.1", "six": "::1", "unknown": "127.0.0.1"}.items():
        for one in met(dist.HashStore(), {0: "a", 1: name}, size=2):
            assert one == said.format(name, address) + "network there: GLOO_SOCKET_IFNAME=eth0"
        assert "reached" not in met(dist.HashStore(), {0: name, 1: name}, size=2)[0]  # both on one machine
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    assert "reached" not in met(dist.HashStore(), {0: "a", 1: "local"}, size=2)[0]


def test_a_language_model_on_several_machines_is_refused_on_all_and_none_waits(tmp_path: Path) -> None:
    """Its run folder is on the first alone, so the others do not know what kind of run it is."""
    (tmp_path / "0" / "texts.run").mkdir()
    (tmp_path / "0" / "texts.run" / "language.json").write_text("{}")
    done = started(2, "on_machines.py", str(tmp_path), "train", "--resume", "texts.run")
    said = "texts.run is a run of a language model, which goes on in one process; start one only (python, not torchrun)"
    lines = [line for line in done.stderr.splitlines() if line.startswith("discreet")]
    assert lines == [f"discreet: {said}. Nothing was charged"], done.stderr
    assert not any((tmp_path / "1").iterdir())
