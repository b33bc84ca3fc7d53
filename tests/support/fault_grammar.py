"""Odd command lines and odd files, drawn by a grammar from a seed (the rule that holds for them: `fault_rule`)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from fault_files import NUMBERS, WORDS, Draw, csv_text, json_text, odd_path, write, yaml_text
from fault_more_commands import fine_tuned, reported, searched, spent
from fault_rule import Try, run_in_a_fork

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


KINDS: tuple[Callable[[Draw, Path], list[str]], ...] = (
    priced,
    planned,
    with_files,
    mutated,
    fine_tuned,
    reported,
    spent,
    searched,
)


def attempt(seed: int, folder: Path) -> Try:
    """The try of a seed, in a folder of its own."""
    draw = random.Random(seed)
    arguments = draw.choice(KINDS)(draw, folder)
    return run_in_a_fork(arguments, folder)
