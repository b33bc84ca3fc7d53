"""Odd command lines and odd files, drawn by a grammar from a seed; and one rule that holds for all of them.

A try is a process of its own, forked from this one: it must end in ten seconds of processor time (and thirty by the
clock, on a busy machine) within two gigabytes, with an exit code
of the table in `cli/app.py` that is not 70, and where that is not 0, with one line on standard error.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS, BYTES = 10.0, 2 << 30
CODES = (0, 1, 2, 3)

Draw = random.Random

NUMBERS = (
    *("0", "-0", "1", "-1", "2", "7", "0.5", "0.01", "1e-5", "100", "1000", "1e5", "1e9", "1e308", "1e-320", "1e400"),
    *("nan", "inf", "-inf", "9" * 400, "0x10", "1_000", "1,5", "", " ", "true", "None", "'3'", "2001-13-45", "١٢", "½"),
)
WORDS = (
    "",
    "x",
    "é",
    "a" * 300,
    "..",
    "/",
    "~",
    "a\nb",
    "\u202e",
    "[1",
    "{a: b",
    "&a [*a]",
    "!!python/object:os.system",
    "0" * 50,
)
GOOD: dict[str, tuple[str, ...]] = {
    "--rate": ("0.01", "0.1", "1"),
    "--noise": ("1", "0.7", "5"),
    "--steps": ("1", "10", "300"),
    "--epochs": ("1", "3.5"),
    "--delta": ("1e-5", "1e-8"),
    "--epsilon": ("1", "8"),
    "--population": ("1000", "60000"),
    "--batch": ("10", "256"),
    "--group": ("2", "5"),
    "--method": ("pld", "rdp", "gaussian", "nothing"),
    "--adjacency": ("add_remove", "replace_one", "zero_out"),
    "--sampling": ("poisson", "fixed_size", "shuffle", "allocation", "none", "individual"),
    "--bands": ("2", "8", "auto"),
    "--schedule": ("exponential:initial=10,rate=0.01", "linear:initial=9,end=1,period=3", "step:", "constant:value=-1"),
    "--per-epoch": ("1", "10"),
}
SETTINGS = (
    *("steps", "rate", "epsilon", "delta", "clip_norm", "population", "batch", "engine", "noise", "optimizer.lr"),
    *("optimizer", "optimizer.name", "optimizer.momentum", "model", "model.name", "model.hidden", "data", "data.name"),
    *(
        "schedule",
        "bands",
        "unit",
        "rows_per_unit",
        "adjacency",
        "metrics",
        "holdout",
        "averaging.start",
        "augment",
        "a.b.c",
    ),
)


@dataclass(frozen=True)
class Try:
    """A command line, run in a folder with the files that it names."""

    arguments: tuple[str, ...]
    code: int
    stderr: str
    seconds: float
    fault: str | None


def value(draw: Draw, option: str) -> str:
    """A good value of an option, or an odd one."""
    return draw.choice(GOOD[option]) if draw.random() < 0.7 else draw.choice(NUMBERS + WORDS)


def priced(draw: Draw, _: Path) -> list[str]:
    """`epsilon`, `compare`, `calibrate`, `suggest` with most options of each."""
    command = draw.choice(["epsilon", "compare", "calibrate", "suggest"])
    usual = {
        "epsilon": ["--rate", "--noise", "--steps", "--delta"],
        "compare": ["--rate", "--noise", "--steps", "--delta"],
        "calibrate": ["--rate", "--epsilon", "--steps", "--delta"],
        "suggest": ["--population", "--epsilon"],
    }[command]
    options = [one for one in usual if draw.random() < 0.9] + draw.sample(sorted(GOOD), draw.choice([0, 0, 1, 2]))
    return [command, *(part for one in options for part in (one, value(draw, one)))]


def planned(draw: Draw, _: Path) -> list[str]:
    """A recipe with odd settings, planned and not trained."""
    command = draw.choice([["plan", "digits", "--no-probe"], ["train", "digits", "--dry-run", "--out", "out"]])
    keys = draw.choices(SETTINGS, k=draw.choice([1, 1, 2, 3]))
    return [*command, *(part for key in keys for part in ("--set", f"{key}={draw.choice(NUMBERS + WORDS)}"))]


def yaml_text(draw: Draw) -> str:
    """A recipe or schema, or something that is none."""
    deep = draw.choice([3, 40, 3000])
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{one}: &{one} [{', '.join([f'*{before}'] * 9)}]\n" for before, one in zip("abcdefgh", "bcdefghi", strict=True)
    )
    return draw.choice(
        [
            "",
            "[]",
            "a: 1\na: 2\n",
            "[" * deep + "]" * deep,
            "- " * deep + "x",
            bomb,
            "steps: 2001-13-45\n",
            "steps: " + "9" * 5000 + "\n",
            "\ud800",
            "x: !!binary '???'\n",
            "".join(f"k{i}: {i}\n" for i in range(draw.choice([10, 20_000]))),
            f"data: digits\nsteps: {draw.choice(NUMBERS)}\n",
            "columns: {}\ntarget: y\n".format(draw.choice(WORDS) or "x"),
            "population: 100\nunit: row\ncolumns:\n  b: {type: category, categories: [a, b]}\n"
            f"  a: {{type: number, low: {draw.choice(NUMBERS)}, high: {draw.choice(NUMBERS)}}}\ntarget: b\n",
            "\x00\x01",
        ]
    )


def write(path: Path, content: str | bytes) -> str:
    """A file, with what cannot be encoded as it is."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return str(path)


def odd_path(draw: Draw, folder: Path) -> str:
    """A path that is no file to be read: a folder, a pipe, a link to itself, a very long name."""
    kind = draw.choice(["folder", "pipe", "loop", "long", "none", "dev"])
    path = folder / kind
    if kind == "folder":
        path.mkdir(exist_ok=True)
    elif kind == "pipe" and not path.exists():
        os.mkfifo(path)
    elif kind == "loop" and not path.is_symlink():
        path.symlink_to(path)
    return {"long": "n" * 300, "dev": "/dev/zero"}.get(kind, str(path))


def with_files(draw: Draw, folder: Path) -> list[str]:
    """Commands that read a file of somebody's."""
    recipe = write(folder / "r.yaml", yaml_text(draw)) if draw.random() < 0.8 else odd_path(draw, folder) + ".yaml"
    table = write(folder / "t.csv", csv_text(draw)) if draw.random() < 0.8 else odd_path(draw, folder)
    noise = write(folder / "n.json", json_text(draw)) if draw.random() < 0.8 else odd_path(draw, folder)
    return draw.choice(
        [
            ["plan", recipe, "--no-probe"],
            ["train", recipe, "--dry-run"],
            ["schema", table],
            ["train", table, "--schema", recipe, "--epsilon", "1", "--dry-run"],
            ["epsilon", "--noise-list", noise, "--rate", "0.01", "--delta", "1e-5"],
            ["verify", odd_path(draw, folder)],
            ["predict", odd_path(draw, folder), table],
            ["ledger", "verify", table],
            ["train", "--resume", odd_path(draw, folder)],
            ["init", "table", table],
        ]
    )


def json_text(draw: Draw) -> str:
    """A list of noise, or something that is none."""
    deep = draw.choice([3, 100_000])
    return draw.choice(
        [
            "",
            "[]",
            "[[1, 10], [2, 20]]",
            "[" * deep + "]" * deep,
            json.dumps([[1.5, 1]] * draw.choice([10, 100_000])),
            "[[1e400, 1]]",
            "[[NaN, 1]]",
            "[[1, 1e9]]",
            "[[1, " + "9" * 5000 + "]]",
            '{"a": 1}',
            "[[true, 1]]",
            '[["1", 1]]',
        ]
    )


def csv_text(draw: Draw) -> str | bytes:
    """A table, or something that is none."""
    rows = "".join(f"{i},{'ab'[i % 2]},{i / 7:.3f}\n" for i in range(30))
    return draw.choice(
        [
            "",
            "a\n",
            "a,b,c\n" + rows,
            "a,a,b\n" + rows,
            ",".join(f"c{i}" for i in range(draw.choice([10, 20_000]))) + "\n",
            "a,b\n" + '"' + "x" * 100_000,
            "a;b;c\n" + rows.replace(",", ";"),
            ("a,b,c\n" + rows).encode("utf-16"),
            b"\xff\xfe\x00\xd8a,b\n1,2\n",
            b"PK\x03\x04" + bytes(100),
            b"PAR1" + bytes(100) + b"PAR1",
            bytes(1000),
            "a,b\r1,2\r3,4",
            "a,b\n1\n1,2,3\n",
        ]
    )


def mutated(draw: Draw, folder: Path) -> list[str]:
    """A published folder of which one file was changed."""
    import shutil

    source = Path(os.environ["DISCREET_FAULTS_PUBLISHED"])
    target = folder / "model"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    path = draw.choice([one for one in sorted(target.iterdir()) if one.is_file()])
    content = path.read_bytes()
    place = draw.randrange(max(1, len(content)))
    path.write_bytes(
        draw.choice(
            [
                content[:place],
                content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :],
                content + b" " * draw.choice([1, 10**7]),
                b"",
                content.decode("utf-8", "replace").encode("utf-16"),
                b"[" * 100_000 + b"]" * 100_000,
                content.replace(b"1", b"1" * 400, 1),
                content.replace(b'"epsilon": ', b'"epsilon": ' + draw.choice([b"-", b"1e400", b"null, "]), 1),
            ]
        )
    )
    table = write(folder / "t.csv", csv_text(draw))
    commands = [["verify"], ["predict"], ["sign", "--key", table], ["export"]]
    command, *options = draw.choice(commands)
    after = {"predict": [table], "export": ["m.onnx"]}.get(command, [])
    return [command, str(target), *after, *options]


KINDS: tuple[Callable[[Draw, Path], list[str]], ...] = (priced, planned, with_files, mutated)


def attempt(seed: int, folder: Path) -> Try:
    """The try of a seed, in a folder of its own."""
    draw = random.Random(seed)
    arguments = draw.choice(KINDS)(draw, folder)
    return run_in_a_fork(arguments, folder)


def run_in_a_fork(arguments: list[str], folder: Path) -> Try:
    """Run a command in a child of this process, and hold it against the rule."""
    out, err = folder / "stdout", folder / "stderr"
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(arguments, folder, out, err)
    code, usage = _waited(child, start)
    seconds = usage.ru_utime + usage.ru_stime
    said = err.read_text(errors="replace") if err.exists() else ""
    return Try(tuple(arguments), code, said, seconds, _fault(code, said, seconds, usage.ru_maxrss * 1024))


def _child(arguments: list[str], folder: Path, out: Path, err: Path) -> None:
    code = 99
    try:
        os.chdir(folder)
        for stream, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(one), "w", errors="replace") for one in (1, 2))
        from discreet.cli.app import run

        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _waited(child: int, start: float) -> tuple[int, resource.struct_rusage]:
    while time.monotonic() - start < 3 * SECONDS:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    _, _, usage = os.wait4(child, 0)
    return 124, usage


def _fault(code: int, said: str, seconds: float, memory: int) -> str | None:
    lines = [line for line in said.splitlines() if line.strip()]
    if seconds > SECONDS or code == 124:
        return f"took {seconds:.0f} s"
    if code not in CODES:
        return f"exit code {code}"
    if memory > BYTES + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024:
        return f"took {memory >> 20} MiB"
    if "Traceback" in said:
        return "a traceback"
    told = len([line for line in lines if line.startswith("discreet:")])
    if code and told != 1 and not (code == 1 and not lines):  # a verdict is no error: it is on standard output
        return f"{len(lines)} lines"
    return None
