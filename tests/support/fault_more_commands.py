"""Odd inputs of the commands that read texts, answers, ledgers and grids."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from fault_files import NUMBERS, WORDS, Draw, csv_text, odd_path, write, yaml_text

ANSWERS = ("name", "curator", "sector", "published", "authors", "sources", "unit", "nmae")


def fine_tuned(draw: Draw, folder: Path) -> list[str]:
    """Texts for a language model, with odd options; and texts that one should write."""
    base = os.environ["DISCREET_FAULTS_BASE"] if draw.random() < 0.9 else odd_path(draw, folder)
    if draw.random() < 0.2:
        model = os.environ["DISCREET_FAULTS_PUBLISHED"] if draw.random() < 0.5 else odd_path(draw, folder)
        asked = draw.choice(["generate", "generate", "merge", "predict"])
        if asked == "merge":
            out = draw.choice([odd_path(draw, folder), str(folder / "merged" / draw.choice(WORDS))])
            return ["merge", model, "--model", base, "--out", out]
        if asked == "predict":
            texts = write(folder / "new.jsonl", texts_in(draw, ".jsonl"))
            return ["predict", model, texts, "--model", base, "--keep", draw.choice(["", "kind", *WORDS])]
        return ["generate", model, "--model", base, "--prompt", draw.choice(WORDS), "--rows", draw.choice(NUMBERS)]
    end = draw.choice([".jsonl", ".csv", ".parquet", ".txt"])
    texts = write(folder / f"texts{end}", texts_in(draw, end)) if draw.random() < 0.9 else odd_path(draw, folder) + end
    shutil.rmtree(folder / "lm", ignore_errors=True)
    shutil.rmtree(folder / "lm.run", ignore_errors=True)
    options = {
        "--text": "review",
        "--unit": "row",
        "--epsilon": "8",
        "--delta": "1e-3",
        "--population": "40",
        "--length": "8",
        "--lora": "2",
    }
    for one in draw.sample(sorted(options), draw.choice([0, 0, 1, 2])):
        options[one] = draw.choice(NUMBERS + WORDS)
    more = draw.choice([[], ["--task", "classification", "--target", "kind", "--classes", "a,b"], ["--test", texts]])
    odd = [f"{draw.choice(['steps', 'batch', 'clip_norm', 'learning_rate', 'engine'])}={draw.choice(NUMBERS + WORDS)}"]
    settings = ["steps=1", "batch=5", *(odd if draw.random() < 0.3 else [])]
    command = ["train", texts, "--model", base, "--out", "lm", *(part for pair in options.items() for part in pair)]
    return [*command, *more, *(part for one in settings for part in ("--set", one))]


def texts_in(draw: Draw, end: str) -> str | bytes:
    """A file of texts, or something that is none."""
    if end != ".jsonl" and draw.random() < 0.8:
        longest = draw.choice([10, 200_000])
        return draw.choice(
            [
                csv_text(draw),
                "review,kind\n" + "a film,a\n" * 30,
                "review\n" + "film " * longest + "\n",
                "review,review\na,b\n",
            ]
        )
    deep = draw.choice([3, 100_000])
    odd: list[str] = [
        '{"review": ' + "[" * deep + "]" * deep + "}",
        '{"review": "\\ud800"}',
        '{"review": ' + "9" * draw.choice([5, 5000]) + "}",
        '{"review": null}',
        '{"review": {"a": 1}}',
        '{"review": [{"role": "user", "content": [1]}]}',
        '{"review": [{"role": "user", "content": "a film"}]}',
        '{"review": NaN}',
        '{"review": true, "kind": ["a"]}',
        '{"review": "' + "film " * draw.choice([1, 100_000]) + '"}',
        '{"review": "   "}',
        "[1]",
        "{",
        '"a"',
    ]
    usual = [json.dumps({"review": "a film", "kind": "ab"[i % 2]}) for i in range(30)]
    return draw.choice(["", "\ufeff"]) + "\n".join([*usual, *draw.sample(odd, draw.choice([0, 1, 2]))]) + "\n"


def reported(draw: Draw, folder: Path) -> list[str]:
    """A statement or a record with odd answers."""
    chosen = [f"{name}: {draw.choice([*NUMBERS, *WORDS, '{}', '[1]', '[[a]]'])}" for name in draw.sample(ANSWERS, 3)]
    answers = draw.choice([yaml_text(draw), "\n".join(chosen) + "\n"])
    fill = write(folder / "answers.yaml", answers) if draw.random() < 0.9 else odd_path(draw, folder)
    out = draw.choice(["s.html", "r.yaml", "s.pdf", "no/s.html"])
    options = draw.choice([["--fill", fill], ["--questions", draw.choice(["q.yaml", "no/q.yaml"])], []])
    return ["report", os.environ["DISCREET_FAULTS_PUBLISHED"], "--out", out, "--overwrite", *options]


def spent(draw: Draw, folder: Path) -> list[str]:
    """Budgets and ledgers."""
    ledger = str(folder / "odd.sqlite") if draw.random() < 0.6 else odd_path(draw, folder)
    if draw.random() < 0.3:
        write(folder / "odd.sqlite", csv_text(draw))
    numbers = {name: draw.choice([good, *NUMBERS]) for name, good in (("--epsilon", "3"), ("--delta", "1e-5"))}
    budget = ["--dataset-id", draw.choice(["patients", *WORDS]), *(part for pair in numbers.items() for part in pair)]
    kind = ["--filter", draw.choice(["basic", "zcdp", "gdp", "rdp-order", "x"])]
    return draw.choice(
        [
            ["ledger", "budget", "--ledger", ledger, *budget, *draw.choice([[], kind])],
            ["ledger", "show", "--ledger", ledger],
            ["ledger", "verify", "--ledger", ledger],
            ["ledger", "individual", odd_path(draw, folder)],
        ]
    )


def searched(draw: Draw, folder: Path) -> list[str]:
    """Grids, audits, measurements and debugging of what cannot be: none of them gets to train for long."""
    rows = write(folder / "rows.npz", csv_text(draw)) if draw.random() < 0.8 else odd_path(draw, folder)
    recipe = write(folder / "r.yaml", draw.choice(["[]", "a: 1\na: 2\n", "x: [", "steps: true\n"]))
    grid = f"{draw.choice(['optimizer.lr', 'steps', 'x', 'optimizer'])}={draw.choice(NUMBERS + WORDS)}"
    return draw.choice(
        [
            ["tune", recipe, "--grid", grid, "--trials", draw.choice(NUMBERS), "--out", "t"],
            ["tune", "digits", "--grid", grid, "--trials", "x", "--out", "t"],
            ["audit", "model", os.environ["DISCREET_FAULTS_PUBLISHED"], "--members", rows, "--others", rows],
            ["audit", "build", recipe],
            ["audit", "build", odd_path(draw, folder) + ".py"],
            ["audit", "run", recipe, "--canaries", draw.choice(NUMBERS)],
            ["reproduce", draw.choice(WORDS) or "x"],
            ["debug", recipe, "--all-public"],
        ]
    )
