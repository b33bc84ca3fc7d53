"""A sample of `benchmarks/broken_disks.py`: calls of Python, SQLite and Arrow that write fail in a command."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_disk import KINDS, Answer, BrokenDisk, Failure, missing
from broken_disk_cases import CASES, Bench, Case, told
from power_commands import FAST

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "calls can be made to fail")

LEAST = {"train": 150, "tune": 100, "sign": 12, "ledger budget": 40}
"""So many calls that write at least, or not all are seen."""


@pytest.fixture(scope="module")
def disk() -> Iterator[BrokenDisk]:
    made = BrokenDisk()
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_some_calls_of_a_command(tmp_path: Path, disk: BrokenDisk, case: Case) -> None:
    bench = Bench(disk, tmp_path, case)
    assert bench.whole.calls >= LEAST.get(case.name, 4)
    chance = random.Random(case.name)
    for part in range(4):  # one of each quarter
        at = chance.randrange(part * bench.whole.calls // 4, (part + 1) * bench.whole.calls // 4)
        assert bench.attempt(Failure(at, KINDS[part], lasting=chance.random() < 0.5)) == ""


def test_a_file_that_is_written_in_its_place_is_found(tmp_path: Path, disk: BrokenDisk) -> None:
    (case,) = (case for case in CASES if case.name == "schema")
    bench = Bench(disk, tmp_path, case, careless=True)
    found = [bench.attempt(Failure(at, "ENOSPC")) for at in range(bench.whole.calls)]
    assert any("write /drafted.yaml" in one for one in found), found


@pytest.mark.parametrize(
    ("code", "err"),
    [
        (70, "discreet: RuntimeError: this is a defect\n"),
        (1, "discreet: it failed\n"),
        (2, ""),
        (2, "discreet: one\ndiscreet: two\n"),
        (2, "Traceback (most recent call last):\ndiscreet: one\n"),
        (0, "discreet: one\n"),
        (0, "Exception ignored in: <_io.FileIO>\n"),
        (-14, ""),
    ],
)
def test_what_is_not_one_line_and_code_2_is_found(code: int, err: str) -> None:
    with pytest.raises(AssertionError):
        told(Answer(code, "", err))


def test_calls_of_sqlite_fail_too(tmp_path: Path, disk: BrokenDisk) -> None:
    log = tmp_path / "log"
    (tmp_path / "work").mkdir()
    budget = ("ledger", "budget", "--ledger", "l.sqlite", "--dataset-id", "d", "--epsilon", "1", "--delta", "1e-6")
    assert disk(tmp_path / "work", budget, log=log).code == 0
    number = next(line.split()[0] for line in log.read_text().splitlines() if "pwrite /l.sqlite-wal" in line)
    shutil.rmtree(tmp_path / "work")
    (tmp_path / "work").mkdir()
    answer = disk(tmp_path / "work", budget, Failure(int(number), "ENOSPC"))
    assert (answer.code, answer.failed) == (2, "pwrite /l.sqlite-wal")
    assert "free some space" in answer.err


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_every_call_is_seen_that_the_kernel_sees(tmp_path: Path) -> None:
    """The calls of a run that write, from outside: none goes past the library."""
    work = tmp_path.resolve() / "work"
    work.mkdir()
    seen = "trace=openat,open,creat,write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,fallocate,rename,renameat2,"
    seen += "renameat,mkdir,mkdirat,unlink,unlinkat,rmdir,chmod,fchmod,fchmodat,link,linkat,symlink,sendfile,msync"
    log, trace = tmp_path / "log", tmp_path / "trace"
    built = BrokenDisk()
    program = (
        "import ctypes, os, sys\n"
        "from discreet.cli.app import run\n"
        f"library = ctypes.CDLL({str(built.library)!r})\n"
        f"library.arm({str(work).encode()!r}, -1, 0, 0, {str(log).encode()!r})\n"
        f"code = run({['train', 'digits', *FAST, '--out', 'model']!r})\n"
        "library.disarm()\n"
        "sys.exit(code)\n"
    )
    command = ["strace", "-f", "--seccomp-bpf", "-y", "-o", str(trace), "-e", seen, "-E", f"LD_PRELOAD={built.library}"]
    done = subprocess.run([*command, sys.executable, "-c", program], cwd=work, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    counted = [line.split()[1] for line in log.read_text().splitlines() if line.split()[1] != "mmap"]
    kernel = [line for line in trace.read_text().splitlines() if _writes(line, str(work))]
    assert len(counted) == len(kernel) > 150
    built.close()


_BY_DESCRIPTOR = ("write", "writev", "pwrite64", "pwritev", "fsync", "fdatasync", "ftruncate", "fallocate", "fchmod")


def _writes(line: str, work: str) -> bool:
    """Whether a line of a trace of a process in the folder `work` is of a call that writes below it."""
    call = re.search(r"\d+ +(\w+)\((.*)", line)
    if call is None:
        return False
    name, given = call.groups()
    if name in _BY_DESCRIPTOR:
        return bool(re.match(rf"\d+<{re.escape(work)}[/>(]", given))
    if name.startswith("open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", given):
        return False
    *_, (above, path) = re.findall(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"', given)
    return f"{Path(above or work, path)}/".startswith(f"{work}/")
