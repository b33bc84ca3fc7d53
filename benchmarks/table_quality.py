"""`discreet train` by its defaults alone on ten tables, beside its rivals and what is without privacy.

python benchmarks/table_quality.py --out results.jsonl [--seeds 5] [--tables wine,diabetes] [--only discreet]
                                   [--peers PYTHON]                           (resumable)
python benchmarks/table_quality.py --out results.jsonl --show                 (the tables of RESULTS.md)

Everybody is told the same: ranges, categories, the number of rows, and delta (the power of ten below 1 / rows).
Rivals get numbers scaled to -1..1 by the declared range and categories as one input each.

| contestant | as its users would run it |
|---|---|
| opacus linear, mlp | batch 256 or a quarter of the rows, 20 epochs, clip norm 1, SGD 0.5; or 64 units, Adam 0.005 |
| diffprivlib | logistic regression (rows of norm 1), naive Bayes, random forest; linear regression: the best of them |
| boosting | HistGradientBoosting of scikit-learn, without privacy |
| baseline | the most frequent class, or the mean, of the test rows |

diffprivlib 0.6 needs scikit-learn below 1.6: `--peers` is the Python of an environment that has both.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from table_sets import TABLES, TARGET, Table

EPSILONS = (0.5, 1.0, 3.0, 8.0)
RIVALS = ("opacus linear", "opacus mlp", "dpl logistic", "dpl bayes", "dpl forest", "dpl linear")
FREE = ("boosting", "baseline")
MOST_INPUTS = 1000
"""diffprivlib is not run on more: its matrices are dense, and its time is of the square of their width."""


@dataclass(frozen=True)
class Numbers:
    """A table as rivals see it: float32 inputs in [-1, 1], classes or amounts."""

    train: np.ndarray
    test: np.ndarray
    targets: np.ndarray
    truth: np.ndarray
    bounds: tuple[float, float] | None
    classes: int

    @property
    def delta(self) -> float:
        return 10.0 ** -(math.floor(math.log10(float(f"{len(self.train):.2g}"))) + 1)


def numbers(table: Table, seed: int) -> Numbers:
    train, test = table.parts(seed)
    names = list(table.columns)
    inputs = [[], []]  # type: list[list[np.ndarray]]
    for place, name in enumerate(names[:-1]):
        for which, rows in enumerate((train, test)):
            inputs[which].append(_column(table.columns[name], [row[place] for row in rows]))
    target = table.columns[TARGET]
    answers = [[row[-1] for row in rows] for rows in (train, test)]
    if table.regression:
        found = [np.array(values, float) for values in answers]
        return Numbers(*map(np.hstack, inputs), *found, (target["low"], target["high"]), 0)  # type: ignore[arg-type]
    known = {text: number for number, text in enumerate(target["categories"])}
    codes = [np.array([known[str(value)] for value in values]) for values in answers]
    return Numbers(*map(np.hstack, inputs), *codes, None, len(known))  # type: ignore[arg-type]


def _column(column: dict[str, Any], values: list[Any]) -> np.ndarray:
    if column["type"] == "number":
        low, high = column["low"], column["high"]
        missing = np.array([value in ("", "?") for value in values])
        amounts = np.array([low if value in ("", "?") else float(value) for value in values])
        if column.get("scale") == "log":
            amounts, low, high = np.log1p(np.maximum(amounts - low, 0)), 0.0, math.log1p(high - low)
        places = 2 * (np.clip(amounts, low, high) - low) / (high - low) - 1
        places[missing] = 0
        return places[:, None].astype(np.float32)
    if column["type"] == "boolean":
        return np.array(values, np.float32)[:, None]
    known = {str(text): number for number, text in enumerate(column["categories"])}
    found = np.zeros((len(values), len(known)), np.float32)
    for row, value in enumerate(values):
        if str(value) in known:
            found[row, known[str(value)]] = 1
    return found


def measured(said: np.ndarray, table: Numbers) -> float:
    """Accuracy, or root mean squared error within the declared range."""
    if table.bounds is not None:
        return float(np.sqrt(np.mean((np.clip(said, *table.bounds) - table.truth) ** 2)))
    return float(np.mean(said == table.truth))


def discreet(table: Table, epsilon: float, seed: int) -> float:
    """The command's own job, in a folder of its own."""
    from discreet.jobs.command_line import CommandLine
    from discreet.jobs.tables.table_facts import TableFacts
    from discreet.jobs.train import Job

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.write(folder, seed)
        facts = TableFacts(schema=folder / "schema.yaml", test=folder / "test.csv")
        job = Job.new(CommandLine(str(folder / "train.csv"), None, folder / "model", [], {"epsilon": epsilon}, facts))
        with contextlib.redirect_stderr(io.StringIO()):
            _, trained = job.run(ledger=None, dataset_id="", finish=False)
    metrics = trained.evaluations[-1].metrics
    return float(metrics["rmse" if table.regression else "accuracy"])


def opacus(table: Numbers, epsilon: float, seed: int, hidden: bool) -> float:
    import torch
    from opacus import PrivacyEngine
    from torch import nn

    torch.manual_seed(seed)
    width, outputs = table.train.shape[1], max(1, table.classes)
    model: nn.Module = nn.Linear(width, outputs)
    if hidden:
        model = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, outputs))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), 0.5 if table.classes else 0.1)
    if hidden:
        optimizer = torch.optim.Adam(model.parameters(), 0.005)
    middle, half = (sum(table.bounds) / 2, (table.bounds[1] - table.bounds[0]) / 2) if table.bounds else (0.0, 1.0)
    targets = torch.tensor(table.targets)
    if not table.classes:
        targets = ((targets - middle) / half).float().unsqueeze(1)
    rows = torch.utils.data.TensorDataset(torch.tensor(table.train), targets)
    loader = torch.utils.data.DataLoader(rows, batch_size=min(256, max(1, len(rows) // 4)))
    private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=table.delta,
        epochs=20,
        max_grad_norm=1.0,
    )
    loss = nn.CrossEntropyLoss() if table.classes else nn.MSELoss()
    for _ in range(20):
        for inputs, wanted in loader:
            if len(inputs):
                optimizer.zero_grad()
                loss(private(inputs), wanted).backward()
                optimizer.step()
    with torch.no_grad():
        said = private(torch.tensor(table.test)).numpy()
    return measured(said.argmax(axis=1) if table.classes else said[:, 0] * half + middle, table)


def diffprivlib(table: Numbers, epsilon: float, seed: int, kind: str, python: str) -> float:
    """In another interpreter."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "table.npz"
        bounds = table.bounds or (0.0, 0.0)
        np.savez(path, train=table.train, test=table.test, targets=table.targets, bounds=bounds, classes=table.classes)
        script = Path(__file__).with_name("table_peers.py")
        subprocess.run([python, str(script), str(path), kind, str(epsilon), str(seed)], check=True)
        return measured(np.load(Path(name) / "said.npy"), table)


def boosting(table: Numbers, seed: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if table.classes else HistGradientBoostingRegressor
    return measured(kind(random_state=seed).fit(table.train, table.targets).predict(table.test), table)


def baseline(table: Numbers) -> float:
    if not table.classes:
        return measured(np.full(len(table.truth), table.truth.mean()), table)
    return float(np.bincount(table.truth).max() / len(table.truth))


def result(name: str, contestant: str, epsilon: float, seed: int, python: str | None) -> float | None:
    """What a contestant reaches; None where it does not apply, or is not run."""
    table = TABLES[name]()
    if contestant == "discreet":
        return discreet(table, epsilon, seed)
    seen = numbers(table, seed)
    if contestant == "baseline":
        return baseline(seen)
    if contestant == "boosting":
        return boosting(seen, seed)
    if contestant.startswith("opacus"):
        return opacus(seen, epsilon, seed, contestant.endswith("mlp"))
    fits = (contestant == "dpl linear") == table.regression and seen.train.shape[1] <= MOST_INPUTS
    return diffprivlib(seen, epsilon, seed, contestant.removeprefix("dpl "), python) if fits and python else None


def show(rows: list[dict[str, Any]]) -> None:
    """Means by cell; then how often the defaults are ahead."""
    mean: Callable[..., float | None] = lambda *cell: _mean(rows, *cell)  # noqa: E731
    level = ahead = above = cells = 0
    gains = []
    print("| table | epsilon | discreet | opacus linear | opacus mlp | diffprivlib, best | boosting | baseline |")
    print("|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["table"] for row in rows):
        regression = TABLES[name]().regression
        for epsilon in EPSILONS:
            ours, *others = (mean(name, contestant, epsilon) for contestant in ("discreet", *RIVALS))
            free = [mean(name, contestant, None) for contestant in FREE]
            best = min if regression else max
            library = best((value for value in others[2:] if value is not None), default=None)
            if ours is None or free[1] is None:
                continue
            cells_of = (ours, *others[:2], library, *free)
            shown = ("" if value is None else f"{value:.4g}" if regression else f"{value:.1%}" for value in cells_of)
            print(f"| {name} | {epsilon:g} | {' | '.join(shown)} |")
            rival = best(value for value in others if value is not None)
            gain = (rival - ours) / free[1] if regression else ours - rival
            cells, level, ahead = cells + 1, level + (gain >= -0.005), ahead + (gain > 0)
            above += epsilon < 1 or (ours <= free[1] if regression else ours >= free[1])
            gains.append(gain)
    print(f"\n{cells} cells: at least level (within 0.5 points) in {level}, ahead in {ahead};")
    print(f"{np.mean(gains):+.1%} in the mean;")
    print(f"not below the baseline at epsilon 1 and more: {above} of {cells}.")


def _mean(rows: list[dict[str, Any]], table: str, contestant: str, epsilon: float | None) -> float | None:
    found = [
        row["value"]
        for row in rows
        if (row["table"], row["contestant"], row["epsilon"]) == (table, contestant, epsilon)
    ]
    kept = [value for value in found if value is not None]
    return float(np.mean(kept)) if kept else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--only", default=",".join(("discreet", *RIVALS, *FREE)))
    parser.add_argument("--peers")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    if options.show:
        show(known)
        return
    warnings.simplefilter("ignore")
    done = {(row["table"], row["contestant"], row["epsilon"], row["seed"]) for row in known}
    for seed in range(options.seeds):
        for name in options.tables.split(","):
            for contestant in options.only.split(","):
                for epsilon in (None,) if contestant in FREE else EPSILONS:
                    if (name, contestant, epsilon, seed) in done:
                        continue
                    value = result(name, contestant, epsilon or 0.0, seed, options.peers)
                    row = {"table": name, "contestant": contestant, "epsilon": epsilon, "seed": seed, "value": value}
                    with options.out.open("a") as out:
                        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
