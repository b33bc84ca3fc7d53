"""Noise schedules against uniform noise on MNIST at one budget, as in Table II of Yu et al. 2019; can be resumed.

python benchmarks/schedules.py --data DIR --out results.jsonl --seeds 5
python benchmarks/schedules.py --data DIR --out quick.jsonl --seeds 1 --rows 2000 --hidden 16 --schedules step

Shuffled batches of 1 % of the rows under zero-out, each example's gradient clipped to 4, rho = 0.78125: an epoch costs
1 / (2 sigma^2). A schedule runs as long as the paper's rule has it, and is scaled to spend all of rho.
Every run is one line of the results; what is there is not run again. Runs of a seed start from the same weights, so
differences are paired. What this leaves out of the paper: PCA (raw pixels here), and a clip norm per layer.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path

import torch
from scipy import stats
from torch import nn

from discreet import Plan, Training
from discreet.accounting import schedules, zcdp
from discreet.data import DATASETS
from discreet.plan import ShuffleSampling
from discreet.recipes.models import mlp

RHO, DELTA = 0.78125, 1e-5
SCHEDULES = {
    "uniform": "uniform:initial=8",
    "time": "time:initial=10,rate=0.05",
    "step": "step:initial=10,rate=0.6,period=10",
    "exponential": "exponential:initial=10,rate=0.01",
    "polynomial": "polynomial:initial=10,rate=3,end=2,period=100",
}


def main() -> None:
    """Run what is missing, and print the table of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--engine", default="vmap")
    parser.add_argument("--schedules", nargs="+", default=list(SCHEDULES), choices=list(SCHEDULES))
    options = parser.parse_args()
    facts = {"rows": options.rows, "hidden": options.hidden, "rate": options.rate, "engine": options.engine}
    for seed in range(options.seeds):
        for name, plan in plans(options.schedules, options.rows).items():
            key = {"name": name, "seed": seed, **facts}
            if not any(key.items() <= done.items() for done in results(options.out)):
                line = json.dumps(key | train(plan, seed, options))
                with options.out.open("a") as file:
                    file.write(line + "\n")
    table([done for done in results(options.out) if facts.items() <= done.items()])


def plans(names: list[str], rows: int) -> dict[str, Plan]:
    """Each schedule as long as the budget lasts, and uniform noise for as many epochs at the same budget."""
    made = {}
    for name in names:
        schedule = schedules.parse(SCHEDULES[name])
        epochs = schedules.epochs_within(schedule, RHO)
        made[name] = plan_of(schedule, epochs, rows)
        if name != "uniform":
            equal = schedules.Schedule(schedules.Kind.UNIFORM, math.sqrt(epochs / (2 * RHO)))
            made[f"uniform, {epochs} epochs"] = plan_of(equal, epochs, rows)
    return made


def plan_of(schedule: schedules.Schedule, epochs: int, rows: int) -> Plan:
    """Shuffled epochs of 100 batches, the noise scaled to spend exactly rho."""
    scale = math.sqrt(schedule.rho(epochs) / RHO)
    phases = [(scale * noise, steps) for noise, steps in schedule.phases(100 * epochs, 0.01)]
    return Plan.make(
        ShuffleSampling(batch=rows // 100),
        adjacency="zero_out",
        population=rows,
        steps=100 * epochs,
        clip_norm=4.0,
        delta=DELTA,
        noise_multiplier=phases,
    ).model_copy(update={"block": 100})


def train(plan: Plan, seed: int, options: argparse.Namespace) -> dict[str, object]:
    """One run: what it certifies, and its accuracy on the public test set."""
    split = DATASETS["mnist"](options.data)
    model = mlp(784, 10, [options.hidden], seed=seed)
    inputs, targets = split.train
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), lr=options.rate),
            (inputs[: options.rows], targets[: options.rows]),
            public_test=split.test,
            run_dir=Path(folder) / "run",
            engine=options.engine,
        )
        trained = training.run(evaluate_every=plan.steps)
    rho = math.fsum(phase.steps / 100 / (2 * phase.multiplier**2) for phase in plan.noise)
    return {
        "epochs": plan.steps // 100,
        "rho": rho,
        "epsilon": plan.guarantee().epsilon,
        "epsilon_zcdp": zcdp.epsilon(rho, DELTA),
        "accuracy": trained.evaluations[-1].metrics["accuracy"],
    }


def results(path: Path) -> list[dict[str, object]]:
    """The runs that are there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(done: list[dict[str, object]]) -> None:
    """Mean, spread and the paired difference to uniform noise of the same length, in percent."""
    by_name: dict[str, dict[object, float]] = {}
    about = {}
    for run in done:
        by_name.setdefault(str(run["name"]), {})[run["seed"]] = 100 * float(str(run["accuracy"]))
        about[str(run["name"])] = run
    print("| schedule | epochs | rho | epsilon | runs | accuracy % | spread | less uniform, equal epochs | p |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, found in by_name.items():
        run, values = about[name], list(found.values())
        against = by_name.get(f"uniform, {run['epochs']} epochs", {})
        pairs = [found[seed] - against[seed] for seed in found if seed in against]
        spread = statistics.stdev(values) if len(values) > 1 else math.nan
        tested = len(pairs) > 1 and len(set(pairs)) > 1
        p = float(stats.ttest_1samp(pairs, 0.0).pvalue) if tested else math.nan
        difference = statistics.mean(pairs) if pairs else math.nan
        print(
            f"| {name} | {run['epochs']} | {float(str(run['rho'])):.5f} | {float(str(run['epsilon'])):.4f} | "
            f"{len(values)} | {statistics.mean(values):.2f} | {spread:.2f} | {difference:+.2f} | {p:.3f} |"
        )


if __name__ == "__main__":
    main()
