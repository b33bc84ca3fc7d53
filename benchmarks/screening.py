"""The papers' methods side by side on MNIST at one certified epsilon; can be resumed.

    python benchmarks/screening.py --data DIR --out benchmarks/results/screening.jsonl
    python benchmarks/screening.py --data DIR --out benchmarks/results/screening.jsonl --methods SGD ADADP --seeds 10
    python benchmarks/screening.py --data DIR --out quick.jsonl --rows 2000 --hidden 16 --epochs 2 --seeds 1

As in the experiments of Xu et al. 2019: 60 principal components, bought with a multiplier of their own before the first
step, so that the certificate covers them; one hidden layer of 1000; Poisson batches of 1 % of the rows; clip norm 4.
The noise is that of the level: (8, 16), (4, 7) or (2, 4), of the steps and of the components. Whatever the method, the
plan certifies the same: AGD, whose budget is chosen on the way, gets the epsilon of the others for its filter. In zCDP,
which AGD needs, the components of the others may cost more than that epsilon allows; AGD's cost half of it.

Each method has one number to choose, among four. It is chosen on the first five sixths of the training images by the
accuracy on the last sixth, in one run each of as many epochs as are compared; that choice is not covered by epsilon
(the data is public), and never looks at the test images. Every run is one line of the results; what is there is not
run again. Runs of a seed start from the same weights, so differences are paired."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from schedules import Data, arguments, paired, part, projected, results
from torch import nn

from discreet import AdaptivePlan, Plan, Training
from discreet.accounting.filters import ZcdpFilter
from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.data import DATASETS
from discreet.methods import AGD, SGLD, DPAdamBC, DPDropout, adaclip, adadp, adal, adan, dpopt
from discreet.methods.released_scales import TrainingMethod
from discreet.plan import LineSearch, NoSampling, PoissonSampling
from discreet.queries.transformers import PrivatePCA
from discreet.recipes.models import mlp
from discreet.training import answered_first

CLIP, DELTA, RATE, COMPONENTS = 4.0, 1e-5, 0.01, 60
LEVELS = {"8,16": (8.0, 16.0), "4,7": (4.0, 7.0), "2,4": (2.0, 4.0)}
"""Noise multipliers of the steps and of the components."""


def flat(optimizer: torch.optim.Optimizer) -> TrainingMethod:
    """A method that is an optimizer, with flat clipping."""
    return TrainingMethod({"kind": "flat", "norm": CLIP}, optimizer)


@dataclass(frozen=True)
class Method:
    """How a method is made from its number and the declared population, and what is tried for that number."""

    make: Callable[[nn.Module, float, int], TrainingMethod]
    tried: tuple[float, float, float, float]
    of: str = "lr"


METHODS = {
    "SGD": Method(lambda model, lr, _: flat(torch.optim.SGD(model.parameters(), lr=lr)), (0.01, 0.03, 0.1, 0.3)),
    "Adam": Method(
        lambda model, lr, _: flat(torch.optim.Adam(model.parameters(), lr=lr)), (0.0003, 0.001, 0.003, 0.01)
    ),
    "DP-AdamBC": Method(lambda model, lr, _: flat(DPAdamBC(model.parameters(), lr=lr)), (0.0001, 0.0003, 0.001, 0.003)),
    "ADAL": Method(lambda model, lr, _: adal(model, lr, clip_norm=CLIP), (0.0003, 0.001, 0.003, 0.01)),
    "ADAN": Method(lambda model, lr, _: adan(model, lr, clip_norm=CLIP), (0.01, 0.03, 0.1, 0.3)),
    "ADADP": Method(lambda model, lr, _: adadp(model, lr, clip_norm=CLIP), (0.0003, 0.001, 0.003, 0.01)),
    "ADADP, box": Method(lambda model, lr, _: adadp(model, lr, clip_norm=CLIP, kind="box"), (0.001, 0.003, 0.01, 0.03)),
    "DPOPT": Method(lambda model, lr, _: dpopt(model, lr, clip_norm=CLIP), (0.01, 0.03, 0.1, 0.3)),
    "AdaClip": Method(lambda model, lr, _: adaclip(model, lr, clip_norm=CLIP), (0.01, 0.03, 0.1, 0.3)),
    "DP dropout": Method(
        lambda model, lr, _: flat(DPDropout(model.parameters(), lr=lr, decay=0.5)), (0.5, 2.0, 8.0, 32.0)
    ),
    "SGLD": Method(
        lambda model, temperature, rows: flat(SGLD(model.parameters(), rows, temperature=temperature)),
        (1.0, 10.0, 100.0, 1000.0),
        "temperature",
    ),
    "AGD": Method(lambda model, _steps, _: flat(AGD(model.parameters())), (5.0, 10.0, 20.0, 40.0), "steps"),
}


def main() -> None:
    """Choose numbers that are not chosen yet, take the runs that are missing, and print the table."""
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--level", default="8,16", choices=LEVELS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.table:
        for name in options.methods:
            number = chosen(name, options)
            for seed in range(options.seeds):
                take({"name": name, "seed": seed, "number": number, "epochs": options.epochs}, options)
    wanted = facts(options) | {"epochs": options.epochs, "tuning": False}
    table([one for one in results(options.out) if wanted.items() <= one.items()])


def facts(options: argparse.Namespace) -> dict[str, object]:
    """What is the same for all methods."""
    return {"level": options.level, "rows": options.rows, "hidden": options.hidden}


def chosen(name: str, options: argparse.Namespace) -> float:
    """The number of a method with the best accuracy on the last sixth of the training images; chosen once per
    level and length."""
    found = {
        number: take({"name": name, "seed": 1000, "number": number, "epochs": options.epochs}, options, tuning=True)
        for number in METHODS[name].tried
    }
    return max(found, key=lambda number: found[number])


def take(one: dict[str, object], options: argparse.Namespace, *, tuning: bool = False) -> float:
    """The accuracy of a run, which is taken if it is not there yet."""
    wanted = one | facts(options) | {"tuning": tuning}
    for known in results(options.out):
        if wanted.items() <= known.items():
            return float(str(known["accuracy"]))
    done = wanted | run(str(one["name"]), float(str(one["number"])), int(str(one["seed"])), wanted, options.data)
    with options.out.open("a") as file:
        file.write(json.dumps(done) + "\n")
    return float(str(done["accuracy"]))


def run(name: str, number: float, seed: int, wanted: dict[str, object], where: Path) -> dict[str, object]:
    """From raw images to a model: what it certifies, and its accuracy on the images it was not trained on."""
    split, rows = DATASETS["mnist"](where), int(str(wanted["rows"]))
    data = Data(part(split.train, 0, rows), split.test)
    if wanted["tuning"]:
        cut = rows - rows // 6
        data = Data(part(data.train, 0, cut), part(data.train, cut, rows))
    count, began = len(data.train[1]), time.process_time()
    model = mlp(COMPONENTS, 10, [int(str(wanted["hidden"]))], seed=seed)
    method = METHODS[name].make(model, number, count)
    noise, pca_noise = LEVELS[str(wanted["level"])]
    plan: Plan | AdaptivePlan = plan_of(count, int(str(wanted["epochs"])), noise, pca_noise, method.clipping)
    if name == "AGD":
        pca_noise = 1 / math.sqrt(zcdp_of(plan.guarantee().epsilon))
        plan = agd_plan(count, plan.guarantee().epsilon, pca_noise, number)
    with tempfile.TemporaryDirectory() as folder:
        flattened = data.train[0].flatten(1).double()
        with answered_first(plan, model, run_dir=Path(folder) / "run") as account:
            pca = PrivatePCA(COMPONENTS, account=account, noise_multiplier=pca_noise)
            pca.fit((flattened / flattened.norm(dim=1, keepdim=True).clamp(min=1e-9)).numpy())
        vectors = torch.from_numpy(pca.components_.copy())
        training = Training(
            plan,
            model,
            nn.CrossEntropyLoss(),
            method.optimizer,
            projected(data.train, vectors),
            public_test=projected(data.test, vectors),
            run_dir=Path(folder) / "run",
            resume=True,
            geometry=method.geometry,
        )
        trained = training.run(evaluate_every=10**9)
    return {
        "epsilon": plan.guarantee().epsilon,
        "accuracy": round(trained.evaluations[-1].metrics["accuracy"], 5),
        "seconds": round(time.process_time() - began),
    }


def plan_of(rows: int, epochs: int, noise: float, pca_noise: float, clipping: dict[str, Any]) -> Plan:
    """Poisson batches of 1 % of the rows, after the components."""
    return Plan.make(
        PoissonSampling(rate=RATE),
        population=rows,
        steps=round(epochs / RATE),
        noise_multiplier=noise,
        clipping=clipping,
        delta=DELTA,
        before=[Gaussian(pca_noise, Query.COVARIANCE)],
    )


def zcdp_of(epsilon: float) -> float:
    """rho with rho + 2 sqrt(rho log(1 / delta)) = epsilon."""
    return (math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))) ** 2


def agd_plan(rows: int, epsilon: float, pca_noise: float, steps: float) -> AdaptivePlan:
    """All rows at every step, within epsilon: what the components leave of it for so many steps as they begin, half of
    it for gradients and half for choices of step sizes."""
    share = (zcdp_of(epsilon) - 1 / (2 * pca_noise**2)) / (2 * steps)
    return AdaptivePlan.make(
        NoSampling(),
        population=rows,
        epsilon=epsilon,
        delta=DELTA,
        clip_norm=CLIP,
        policy=LineSearch(bound=3.0, epsilon=math.sqrt(8 * share)),
        noise_multiplier=1 / math.sqrt(2 * share),
        most_steps=10_000,
        filter_kind=ZcdpFilter.kind,
        before=[Gaussian(pca_noise, Query.COVARIANCE)],
    )


def table(done: list[dict[str, object]]) -> None:
    """Mean, spread and the paired difference to SGD, in percent."""
    by_name: dict[str, dict[object, float]] = {}
    for one in done:
        by_name.setdefault(str(one["name"]), {})[one["seed"]] = 100 * float(str(one["accuracy"]))
    print(
        "| method | number | epsilon | runs | accuracy % | spread | less SGD | p |\n|---|---|---|---|---|---|---|---|"
    )
    for name, found in sorted(by_name.items(), key=lambda item: -statistics.mean(item[1].values())):
        runs = [one for one in done if one["name"] == name]
        spread = statistics.stdev(found.values()) if len(found) > 1 else math.nan
        print(
            f"| {name} | {METHODS[name].of} {runs[0]['number']:g} "
            f"| {max(float(str(one['epsilon'])) for one in runs):.4f} "
            f"| {len(found)} | {statistics.mean(found.values()):.2f} | {spread:.2f} "
            f"| {paired(found, {} if name == 'SGD' else by_name.get('SGD', {}))} |"
        )
    print(f"{sum(int(str(one['seconds'])) for one in done) / 3600:.2f} CPU-hours")


if __name__ == "__main__":
    main()
