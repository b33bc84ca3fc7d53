"""Noise schedules against uniform noise on MNIST at one budget, as in Table II of Yu et al. 2019; can be resumed.

python benchmarks/schedules.py --data DIR --out benchmarks/results/schedules.jsonl --seeds 5
python benchmarks/schedules.py --data DIR --out quick.jsonl --seeds 1 --rows 2000 --hidden 16 --schedules step

As in the paper: 60 principal components bought with multiplier 16, one hidden layer, shuffled batches of 1 % of the
rows under zero-out, clip norm 4, rate 0.05, rho = 0.78125 beside the components, an epoch costing 1 / (2 sigma^2). The
run answers the query for the components before its first step, so that its certificate covers them. A
schedule runs as long as the paper's rule has it, and is scaled to spend all of rho, so that all certify the same.
Otherwise: the clip norm is for an example and not for each of its layers (which needs sqrt(2) times the noise), and
the validation images, the last twelfth of the rows, are declared public.

Every run is one line of the results, with its accuracy on the public test images after every epoch; what is there is
not run again. Runs of a seed start from the same weights, so differences are paired.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from scipy import stats
from torch import Tensor, nn

from discreet import AdaptivePlan, Plan, Training, guarantee
from discreet.accounting import schedules
from discreet.core.adjacency import Query
from discreet.core.event_json import from_json
from discreet.core.events import Compose, Event, Gaussian, flatten, steps_of
from discreet.data import DATASETS
from discreet.ledger import Entry
from discreet.plan import ShuffleSampling, ValidationDecay
from discreet.queries.transformers import PrivatePCA
from discreet.recipes.models import mlp
from discreet.training import answered_first

RHO, DELTA = 0.78125, 1e-5
COMPONENTS, PCA_MULTIPLIER = 60, 16.0
PCA = Gaussian(PCA_MULTIPLIER, Query.COVARIANCE)
SCHEDULES = {
    "uniform": "uniform:initial=8",
    "time": "time:initial=10,rate=0.05",
    "step": "step:initial=10,rate=0.6,period=10",
    "exponential": "exponential:initial=10,rate=0.01",
    "polynomial": "polynomial:initial=10,rate=3,end=2,period=100",
}
VALIDATION = "validation"
PAPER = {"uniform": 91.9, "time": 93.1, "step": 92.9, "exponential": 92.9, "polynomial": 93.2, VALIDATION: 93.0}
PAPER_UNIFORM = {"time": 92.5, "step": 92.5, "exponential": 92.5, "polynomial": 92.9, VALIDATION: 92.6}

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Data:
    """Public statements about the rows are made where they are split."""

    train: Pair
    test: Pair
    validation: Pair | None = None


def main() -> None:
    """Run what is missing, and print the table of what is there."""
    parser = arguments(__doc__, seeds=5)
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--clip", type=float, default=4.0, help="clip norm")
    parser.add_argument("--schedules", nargs="+", default=[*SCHEDULES, VALIDATION], choices=[*SCHEDULES, VALIDATION])
    options = parser.parse_args()
    facts = {"rows": options.rows, "hidden": options.hidden, "rate": options.rate, "clip": options.clip}
    if not options.table:
        torch.set_num_threads(1)
        for seed in range(options.seeds):
            for name in wanted(options.schedules, seed, facts, options.out):
                line = json.dumps({"name": name, "seed": seed, **facts} | run(name, seed, options))
                with options.out.open("a") as file:
                    file.write(line + "\n")
    table([done for done in results(options.out) if facts.items() <= done.items()])


def arguments(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """The options of a benchmark on MNIST that can be resumed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--table", action="store_true", help="print the table of what is there, run nothing")
    return parser


def wanted(chosen: list[str], seed: int, facts: dict[str, float], out: Path) -> list[str]:
    """What is still to be run, uniform noise of the same length after each schedule."""
    names: list[str] = []
    for name in chosen:
        names += [name] if name == "uniform" else [name, f"uniform for {name}"]
    done = [run for run in results(out) if {"seed": seed, **facts}.items() <= run.items()]
    return [name for name in names if name not in {run["name"] for run in done}]


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """One run, from raw images to a model: what it certifies, and its accuracy on the public test images."""
    split = DATASETS["mnist"](options.data)
    data = Data((split.train[0][: options.rows], split.train[1][: options.rows]), split.test)
    if name == VALIDATION:
        private = options.rows - options.rows // 12
        data = Data(part(data.train, 0, private), data.test, part(data.train, private, options.rows))
    plan = plan_of(name, len(data.train[0]), options, seed)
    began = time.process_time()
    model = mlp(COMPONENTS, 10, [options.hidden], seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        rows = data.train[0].flatten(1).double()
        with answered_first(plan, model, run_dir=Path(folder) / "run") as account:
            pca = PrivatePCA(COMPONENTS, account=account, noise_multiplier=PCA_MULTIPLIER)
            pca.fit((rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-9)).numpy())
        vectors = torch.from_numpy(pca.components_.copy())
        public = None if data.validation is None else projected(data.validation, vectors)
        data = Data(projected(data.train, vectors), projected(data.test, vectors), public)
        training = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), lr=options.rate),
            data.train,
            public_test=data.test,
            public_validation=data.validation,
            run_dir=Path(folder) / "run",
            resume=True,
        )
        trained = training.run(evaluate_every=100)
    curve = {evaluation.step // 100: round(evaluation.metrics["accuracy"], 5) for evaluation in trained.evaluations}
    noise = spent(trained.entries)
    return {
        "epochs": len(noise),
        "rho": math.fsum(1 / (2 * multiplier**2) for multiplier in noise),
        "epsilon": plan.guarantee().epsilon,
        "accuracy": curve[max(curve)],
        "curve": curve,
        "noise": noise,
        "seconds": round(time.process_time() - began),
    }


def plan_of(name: str, rows: int, options: argparse.Namespace, seed: int) -> Plan | AdaptivePlan:
    """Shuffled epochs of 100 batches that spend rho, with the noise that `name` says, after the components."""
    facts = {
        "population": rows,
        "clip_norm": options.clip,
        "delta": DELTA,
        "adjacency": "zero_out",
        "before": [PCA],
    }
    sampling = ShuffleSampling(batch=rows // 100)
    if name == VALIDATION:
        return AdaptivePlan.make(
            sampling,
            epsilon=guarantee(Compose((PCA, Gaussian(1 / math.sqrt(2 * RHO)))), DELTA, "zero_out").epsilon,
            noise_multiplier=10.0,
            policy=ValidationDecay(threshold=0.01, average=5, period=10, factor=0.7),
            most_steps=20_000,
            block=100,
            **facts,
        )
    noise = noise_of(name, options, seed)
    phases = [(multiplier, 100) for multiplier in noise]
    plan = Plan.make(sampling, steps=100 * len(noise), noise_multiplier=phases, **facts)
    return plan.model_copy(update={"block": 100})


def noise_of(name: str, options: argparse.Namespace, seed: int) -> list[float]:
    """The multiplier of each epoch, scaled to spend exactly rho."""
    if name.startswith("uniform for "):
        epochs = epochs_of(name.removeprefix("uniform for "), options, seed)
        return [math.sqrt(epochs / (2 * RHO))] * epochs
    schedule = schedules.parse(SCHEDULES[name])
    epochs = schedules.epochs_within(schedule, RHO)
    scale = math.sqrt(schedule.rho(epochs) / RHO)
    return [scale * schedule.multiplier(t) for t in range(epochs)]


def epochs_of(name: str, options: argparse.Namespace, seed: int) -> int:
    """How long a schedule lasts; of the one that validation drives, how long it lasted with the same seed."""
    if name != VALIDATION:
        return schedules.epochs_within(schedules.parse(SCHEDULES[name]), RHO)
    facts = {"name": name, "seed": seed, "rows": options.rows, "hidden": options.hidden, "rate": options.rate}
    (run,) = (run for run in results(options.out) if {**facts, "clip": options.clip}.items() <= run.items())
    return int(str(run["epochs"]))


def spent(entries: tuple[Entry, ...]) -> list[float]:
    """The multiplier of each epoch that the ledger charged; the components are none."""
    blocks = (from_json(entry.content) for entry in entries if entry.kind == "reservation")
    events = [event for block in blocks for event, count in flatten(block) for _ in range(count)]
    return [first_noise(event) for event in events if event != PCA]


def first_noise(epoch: Event) -> float:
    """The multiplier of the first step of an epoch; they are all alike here."""
    first = steps_of(epoch)[0]
    assert isinstance(first, Gaussian)
    return first.noise_multiplier


def part(pair: Pair, first: int, last: int) -> Pair:
    """Some of the rows."""
    return pair[0][first:last], pair[1][first:last]


def projected(pair: Pair, vectors: Tensor) -> Pair:
    """Images on the components, as in Abadi et al. 2016: the pixels, not scaled to norm 1."""
    return (pair[0].flatten(1).double() @ vectors.T).float(), pair[1]


def results(path: Path) -> list[dict[str, object]]:
    """The runs that are there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(done: list[dict[str, object]]) -> None:
    """Mean, spread and the paired difference to uniform noise of the same length, in percent, beside the paper's."""
    by_name: dict[str, dict[object, float]] = {}
    for run in done:
        by_name.setdefault(str(run["name"]), {})[run["seed"]] = 100 * float(str(run["accuracy"]))
    print(
        "| schedule | epochs | epsilon | runs | accuracy % | spread | paper | "
        "less uniform, same length | p | less uniform(8) | p |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, found in by_name.items():
        runs = [run for run in done if run["name"] == name]
        values = list(found.values())
        epochs = sorted({int(str(run["epochs"])) for run in runs})
        printed = PAPER.get(name, PAPER_UNIFORM.get(name.removeprefix("uniform for "), math.nan))
        print(
            f"| {name} | {epochs[0] if len(epochs) == 1 else f'{epochs[0]} to {epochs[-1]}'} | "
            f"{max(total(run) for run in runs):.4f} | {len(values)} | "
            f"{statistics.mean(values):.2f} | {statistics.stdev(values) if len(values) > 1 else math.nan:.2f} | "
            f"{printed:.1f} | {paired(found, by_name.get(f'uniform for {name}', {}))} | "
            f"{paired(found, {} if name == 'uniform' else by_name.get('uniform', {}))} |"
        )


def total(run: dict[str, object]) -> float:
    """Epsilon with the components. The first runs charged them apart; theirs was composed afterwards."""
    return float(str(run.get("epsilon_with_pca", run["epsilon"])))


def paired(found: dict[object, float], against: dict[object, float]) -> str:
    """The mean difference over the seeds that both have, and p of the paired t-test."""
    pairs = [found[seed] - against[seed] for seed in found if seed in against]
    if len(pairs) < 2:
        return "| "
    return f"{statistics.mean(pairs):+.2f} | {float(stats.ttest_1samp(pairs, 0.0).pvalue):.3f}"


if __name__ == "__main__":
    main()
